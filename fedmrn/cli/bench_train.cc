// fedmrn bench train: local training as clients do it, one client per core, in
// turn with its baselines: the same network as plain LibTorch modules, FedAvg's
// step, and the machine's matrix product.
#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/base/json.h"
#include "fedmrn/cli/bench.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/core/random.h"
#include "fedmrn/train/kernels/compute_threads.h"
#include "fedmrn/train/kernels/vector_units.h"
#include "fedmrn/train/method/method.h"
#include "fedmrn/train/model/char_lstm.h"
#include "fedmrn/train/model/cnn.h"
#include "fedmrn/train/task.h"
#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::cli {
namespace {

constexpr int kMatrix = 2048;
constexpr int kPairs = 3;  // of FedAvg and the method, in a turn

constexpr std::string_view kScript = "torchscript";

struct TrainOptions {
  std::string model = "cnn4";     // or kScript:FILE
  std::string image = "28x28x1";  // what a FILE takes
  uint32_t classes = 10;          // and gives
  std::string method = "fedmrn";
  int repeats = 7;
  uint32_t threads = 0;
  bool json = false;
};

// Real shapes, random contents: the time does not depend on what is in them.
train::Data RandomImages(train::ImageShape shape, uint32_t classes,
                         bool augment) {
  train::ImageData data;
  data.name = "images";
  data.height = shape.height;
  data.width = shape.width;
  data.channels = shape.channels;
  data.classes = classes;
  data.augment = augment;
  constexpr size_t kExamples = 640;
  Random random({1, Purpose::kSynthetic});
  data.train.pixels.resize(kExamples * shape.height * shape.width *
                           shape.channels);
  for (uint8_t& pixel : data.train.pixels) {
    pixel = static_cast<uint8_t>(random.Word());
  }
  data.train.labels.resize(kExamples);
  for (uint16_t& label : data.train.labels) {
    label = static_cast<uint16_t>(random.Below(classes));
  }
  return train::DataOf(std::move(data));
}

train::Data RandomTexts() {
  train::Data data;
  data.name = "texts";
  data.input = train::Input::kTokens;
  data.shape = {80};
  data.vocabulary = data.classes = 80;
  data.train_examples = 256;
  data.train_batch = [](std::span<const uint32_t> examples, const PhiloxStream&,
                        train::Batch& batch) {
    batch.examples = static_cast<uint32_t>(examples.size());
    batch.shape = {batch.examples, 80};
    batch.tokens.clear();
    batch.labels.clear();
    for (const uint32_t example : examples) {
      Random random({1, Purpose::kSynthetic, example});
      for (int i = 0; i < 80; ++i) {
        batch.tokens.push_back(static_cast<int32_t>(random.Below(80)));
      }
      batch.labels.push_back(static_cast<int32_t>(random.Below(80)));
    }
  };
  return data;
}

// "28x28x1".
std::optional<train::ImageShape> ParseImage(const std::string& text) {
  train::ImageShape shape;
  int read = 0;
  if (std::sscanf(text.c_str(), "%4ux%4ux%4u%n", &shape.height, &shape.width,
                  &shape.channels, &read) != 3 ||
      static_cast<size_t>(read) != text.size() ||
      std::ranges::any_of(std::array{shape.height, shape.width, shape.channels},
                          [](uint32_t side) { return side - 1 > 4095; })) {
    return std::nullopt;
  }
  return shape;
}

// Images in colour with a class for every pixel.
train::Data RandomScenes() {
  constexpr uint32_t kSide = 128, kClasses = 20;
  train::Data data;
  data.name = "scenes";
  data.target = train::Target::kPixelClasses;
  data.shape = {kSide, kSide, 3};
  data.classes = kClasses;
  data.mean = data.std = {0.5f, 0.5f, 0.5f};
  data.train_examples = 16;
  // Drawn once: what is measured is training, not this.
  std::vector<float> x;
  std::vector<int32_t> labels;
  Random random({1, Purpose::kSynthetic, 0});
  for (uint64_t i = 0; i < data.train_examples * kSide * kSide; ++i) {
    for (int c = 0; c < 3; ++c) {
      x.push_back(static_cast<float>(random.Normal()));
    }
    labels.push_back(static_cast<int32_t>(random.Below(kClasses)));
  }
  data.train_batch = [x = std::move(x), labels = std::move(labels)](
                         std::span<const uint32_t> examples,
                         const PhiloxStream&, train::Batch& batch) {
    constexpr ptrdiff_t kPixels = ptrdiff_t{kSide} * kSide;
    batch.examples = static_cast<uint32_t>(examples.size());
    batch.shape = {batch.examples, kSide, kSide, 3};
    batch.x.clear();
    batch.labels.clear();
    for (const uint32_t example : examples) {
      const auto from = x.begin() + 3 * kPixels * example;
      batch.x.insert(batch.x.end(), from, from + 3 * kPixels);
      const auto label = labels.begin() + kPixels * example;
      batch.labels.insert(batch.labels.end(), label, label + kPixels);
    }
  };
  return data;
}

constexpr double kPlainLr = 0.03;

// A model that can be measured, and what it is measured against.
struct Subject {
  std::string_view model;
  uint32_t batch;
  uint32_t steps;  // about as many as half a second holds
  const char* speedup_target;
  const char* peak_target;
  train::Data (*data)(const TrainOptions& options);
  // Multiply-adds of one example, forward and backward; null: not known.
  uint64_t (*macs)(const Subject& subject, const train::Data& data);
  // Null: the model's own TorchScript.
  std::unique_ptr<train::PlainNetwork> (*make_plain)(
      const train::TorchModule& torch, const Subject& subject,
      const train::Data& data);
};

train::ImageShape ShapeOf(const train::Data& data) {
  return {static_cast<uint32_t>(data.shape[0]),
          static_cast<uint32_t>(data.shape[1]),
          static_cast<uint32_t>(data.shape[2])};
}

uint64_t CnnMacs(const Subject& subject, const train::Data& data) {
  const train::Cnn cnn(*train::FindCnn(subject.model), ShapeOf(data),
                       data.classes);
  return cnn.ForwardMacs() + cnn.BackwardMacs();
}

std::unique_ptr<train::PlainNetwork> PlainCnn(const train::TorchModule& torch,
                                              const Subject& subject,
                                              const train::Data& data) {
  return torch.make_plain_cnn(*train::FindCnn(subject.model), ShapeOf(data),
                              data.classes, kPlainLr);
}

uint64_t LstmMacs(const Subject&, const train::Data& data) {
  const train::CharLstm lstm(
      data.vocabulary, static_cast<uint32_t>(data.shape[0]), data.classes);
  return lstm.ForwardMacs() + lstm.BackwardMacs();
}

std::unique_ptr<train::PlainNetwork> PlainLstm(const train::TorchModule& torch,
                                               const Subject&,
                                               const train::Data& data) {
  return torch.make_plain_lstm(data.vocabulary, data.classes, kPlainLr);
}

// The shapes of Fashion-MNIST, CIFAR-10 and Shakespeare, small scenes, and
// whatever a file takes.
const Subject kSubjects[] = {
    {"cnn4", 64, 10, ">= 1.6", ">= 0.65",
     [](const TrainOptions&) {
       return RandomImages({28, 28, 1}, 10, false);
     },
     CnnMacs, PlainCnn},
    {"cnn8", 64, 3, ">= 1.25", ">= 0.80",
     [](const TrainOptions&) {
       return RandomImages({32, 32, 3}, 10, true);
     },
     CnnMacs, PlainCnn},
    {"charlstm", 128, 2, ">= 3", ">= 0.80",
     [](const TrainOptions&) { return RandomTexts(); }, LstmMacs, PlainLstm},
    {"bisenetv2", 4, 1, ">= 1.0", nullptr,
     [](const TrainOptions&) { return RandomScenes(); }, nullptr, nullptr},
    {kScript, 64, 3, ">= 1.0", nullptr,
     [](const TrainOptions& options) {
       return RandomImages(*ParseImage(options.image), options.classes, false);
     },
     nullptr, nullptr},
};

// The name of a model's row, and the file behind it.
std::string_view RowOf(std::string_view model) {
  return model.substr(0, model.find(':'));
}
std::string FileOf(const std::string& model) {
  const size_t colon = model.find(':');
  return colon == model.npos ? "" : model.substr(colon + 1);
}

bool IsKnown(const std::string& model) {
  const auto* const found =
      std::ranges::find(kSubjects, RowOf(model), &Subject::model);
  return found != std::end(kSubjects) &&
         (found->model == kScript) == !FileOf(model).empty();
}

const Subject& FindSubject(std::string_view model) {
  const auto found =
      std::ranges::find(kSubjects, RowOf(model), &Subject::model);
  FEDMRN_CHECK(found != std::end(kSubjects));
  return *found;
}

// Calls work(thread) on every thread at once. Seconds until the last is done.
double OnAllCores(uint32_t threads, const std::function<void(size_t)>& work) {
  std::barrier start(static_cast<ptrdiff_t>(threads) + 1);
  std::vector<std::thread> running;
  for (uint32_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      train::ComputeOnThreads(1);
      start.arrive_and_wait();
      work(i);
    });
  }
  start.arrive_and_wait();
  return SecondsOf([&] {
    for (std::thread& thread : running) thread.join();
  });
}

// What one thread trains with.
struct Client {
  std::unique_ptr<train::Learner> learner;
  train::LocalModel local;
  std::vector<float> weights, plain;
};

struct Figures {
  double samples_per_s = 0;
  double step_ms = 0;
  double speedup_vs_plain = 0;
  double fraction_of_peak = 0;
  double masking_overhead = 0;
  double plain_samples_per_s = 0;
  double peak_gflops = 0;
  uint32_t threads = 0;
};

Result<Figures> Measure(const TrainOptions& options) {
  const Result<const train::TorchModule*> torch = train::LoadTorchModule();
  if (!torch) return torch.error();
  const Subject& subject = FindSubject(options.model);
  Result<train::Task> task = train::MakeTask(
      subject.data(options), {.name = std::string(RowOf(options.model)),
                              .torchscript = FileOf(options.model),
                              .loss = train::LossKind::kCrossEntropy});
  if (!task) return task.error();
  const uint32_t batch_size = subject.batch, steps = subject.steps;
  std::vector<uint32_t> examples(task->data->train_examples);
  for (size_t i = 0; i < examples.size(); ++i) {
    examples[i] = static_cast<uint32_t>(i);
  }
  const uint32_t threads =
      options.threads != 0 ? options.threads
                           : std::max(1u, std::thread::hardware_concurrency());

  std::vector<Client> clients(threads);
  std::vector<std::unique_ptr<train::PlainNetwork>> plain(threads);
  for (uint32_t i = 0; i < threads; ++i) {
    Client& client = clients[i];
    client.learner = task->make_learner();
    client.weights.resize(task->model.layout.coded_params());
    client.plain.resize(task->model.layout.plain_values());
    task->model.initialize(1, client.weights, client.plain);
    client.local.update.resize(client.weights.size());
    client.local.coded_gradient.resize(client.weights.size());
    client.local.plain_gradient.resize(task->model.trainable_plain);
    if (subject.make_plain != nullptr) {
      plain[i] = subject.make_plain(**torch, subject, *task->data);
    } else {
      plain[i] = (*torch)->make_plain_script(
          FEDMRN_TRY(task->model.torchscript(client.weights, client.plain)),
          kPlainLr);
    }
  }
  // That plain LibTorch takes its images for NCHW changes no time.
  train::Batch batch;
  task->data->train_batch(std::span(examples).first(batch_size), {}, batch);

  const auto local_training = [&](const train::Method& method) {
    return [&](size_t thread) {
      Client& client = clients[thread];
      client.local.plain = client.plain;
      const train::TrainSettings train{.epochs = 1,
                                       .batch = batch_size,
                                       .lr = static_cast<float>(method.lr)};
      train::MethodSettings settings;
      settings.mask.magnitude = static_cast<float>(method.magnitude);
      std::vector<float> state;
      method.train({*task,
                    *client.learner,
                    train,
                    settings,
                    std::span(examples).first(steps * batch_size),
                    client.weights,
                    3,
                    {.magnitude = settings.mask.magnitude, .seed = 1},
                    2,
                    state,
                    {}},
                   client.local);
    };
  };
  const auto plain_training = [&](size_t thread) {
    for (uint32_t i = 0; i < steps; ++i) plain[thread]->Step(batch);
  };
  constexpr size_t kFloats = size_t{kMatrix} * kMatrix;
  std::vector<std::vector<float>> matrices(3 * threads,
                                           std::vector<float>(kFloats, 0.5f));
  const auto product = [&](size_t thread) {
    FEDMRN_CHECK(dnnl_sgemm('N', 'N', kMatrix, kMatrix, kMatrix, 1,
                            matrices[3 * thread].data(), kMatrix,
                            matrices[3 * thread + 1].data(), kMatrix, 0,
                            matrices[3 * thread + 2].data(),
                            kMatrix) == dnnl_success);
  };

  const train::Method& method = *train::FindMethod(options.method);
  const train::Method& fedavg = *train::FindMethod("fedavg");
  std::vector<double> ours, base, plain_seconds, speedup, fraction, peak;
  const uint64_t macs =
      subject.macs == nullptr ? 0 : subject.macs(subject, *task->data);
  const double flop =
      2.0 * batch_size * steps * threads * static_cast<double>(macs);
  const double product_flop = 2.0 * kMatrix * kMatrix * kMatrix * threads;
  for (int turn = -1; turn < options.repeats; ++turn) {
    const double p = OnAllCores(threads, product);
    const double l = OnAllCores(threads, plain_training);
    std::vector<double> turn_base, turn_ours;
    for (int pair = 0; pair < kPairs; ++pair) {
      turn_base.push_back(OnAllCores(threads, local_training(fedavg)));
      turn_ours.push_back(OnAllCores(threads, local_training(method)));
    }
    if (turn < 0) continue;  // to warm up
    const double m = Median(turn_ours);
    base.insert(base.end(), turn_base.begin(), turn_base.end());
    ours.insert(ours.end(), turn_ours.begin(), turn_ours.end());
    plain_seconds.push_back(l);
    speedup.push_back(l / m);
    peak.push_back(product_flop / p);
    fraction.push_back(flop / m / (product_flop / p));
  }
  Figures figures;
  const double samples = 1.0 * batch_size * steps * threads;
  figures.samples_per_s = samples / Median(ours);
  figures.step_ms = 1e3 * Median(ours) / steps;
  figures.plain_samples_per_s = samples / Median(plain_seconds);
  figures.speedup_vs_plain = Median(speedup);
  figures.fraction_of_peak = Median(fraction);
  // A percent is less than what other programs on the machine do to a median;
  // the fastest of many is what the code itself takes.
  figures.masking_overhead = *std::min_element(ours.begin(), ours.end()) /
                                 *std::min_element(base.begin(), base.end()) -
                             1;
  figures.peak_gflops = Median(peak) / 1e9;
  figures.threads = threads;
  return figures;
}

void Print(const TrainOptions& options, const Figures& f) {
  const Subject& subject = FindSubject(options.model);
  if (options.json) {
    Json out;
    out["model"] = options.model;
    out["method"] = options.method;
    out["speedup_vs_plain_libtorch"] = f.speedup_vs_plain;
    if (subject.macs != nullptr) {
      out["fraction_of_sgemm_peak"] = f.fraction_of_peak;
    }
    out["masking_overhead"] = f.masking_overhead;
    out["samples_per_s"] = f.samples_per_s;
    out["step_ms"] = f.step_ms;
    out["plain_libtorch_samples_per_s"] = f.plain_samples_per_s;
    out["sgemm_gflops"] = f.peak_gflops;
    out["threads"] = f.threads;
    out["batch"] = subject.batch;
    out["simd"] = train::SimdTarget();
    out["repeats"] = options.repeats;
    out["version"] = FEDMRN_VERSION;
    fmt::print("{}\n", JsonText(out, 2));
    return;
  }
  fmt::print(
      "{}, {}, batch {}, {}, {} clients side by side; medians of {} turns\n",
      options.model, options.method, subject.batch, train::SimdTarget(),
      f.threads, options.repeats);
  std::vector<BenchRow> rows = {
      {"speedup_vs_plain_libtorch", f.speedup_vs_plain, subject.speedup_target,
       fmt::format(
           "plain LibTorch: {} samples/s",
           report::Grouped(static_cast<uint64_t>(f.plain_samples_per_s)))}};
  if (subject.macs != nullptr) {
    rows.push_back({"fraction_of_sgemm_peak", f.fraction_of_peak,
                    subject.peak_target,
                    fmt::format("oneDNN sgemm at {}: {:.0f} GFLOP/s", kMatrix,
                                f.peak_gflops)});
  }
  rows.push_back({"masking_overhead", f.masking_overhead, "<= 0.03",
                  "over FedAvg's step, the fastest of each"});
  rows.push_back({"samples_per_s", f.samples_per_s, "reported",
                  fmt::format("{:.1f} ms a step", f.step_ms)});
  PrintRows(rows);
}

}  // namespace

void AddBenchTrain(Verb bench) {
  const Verb train = bench.AddVerb(
      "train", "Local training, one client per core, beside plain LibTorch");
  auto options = std::make_shared<TrainOptions>();
  std::vector<std::string> models;
  for (const Subject& subject : kSubjects) models.emplace_back(subject.model);
  models.back() += ":FILE";
  train
      .AddOption(
          "--model", options->model,
          "Model to measure: " + fmt::format("{}", fmt::join(models, ", ")))
      .ShowDefault();
  train
      .AddOption("--image", options->image,
                 "HEIGHTxWIDTHxCHANNELS that a FILE takes")
      .ShowDefault();
  train
      .AddOption("--classes", options->classes,
                 "Classes that a FILE tells apart")
      .Between(2, 65536)
      .ShowDefault();
  train.AddOption("--method", options->method, "Method to measure")
      .OneOf(MethodNames())
      .ShowDefault();
  train.AddOption("--repeats", options->repeats, "Turns of each figure")
      .Between(1, 1000)
      .ShowDefault();
  train.AddOption("--threads", options->threads, "0: one per core")
      .Between(0, 256)
      .ShowDefault();
  train.AddFlag("--json", options->json, "Print a JSON object");
  train.Do([options, models] {
    const auto bad = [](const std::string& what) {
      return Fail("fedmrn bench train", Error{ErrorCode::kBadValue, what});
    };
    if (!IsKnown(options->model)) {
      return bad(fmt::format("--model is one of {}, not {}",
                             fmt::join(models, ", "), options->model));
    }
    if (!ParseImage(options->image)) {
      return bad("--image is HEIGHTxWIDTHxCHANNELS, such as 32x32x3, not " +
                 options->image);
    }
    fmt::print(stderr, "measuring {} with {} ...\n", options->model,
               options->method);
    const Result<Figures> figures = Measure(*options);
    if (!figures) return Fail("fedmrn bench train", figures.error());
    Print(*options, *figures);
    return kExitOk;
  });
}

}  // namespace fedmrn::cli
