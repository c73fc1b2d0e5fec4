// Users' TorchScript networks in training and evaluation. LibTorch itself is
// the reference: its autograd and its SGD. script_network_file_test.cc has the
// files.

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <ATen/ATen.h>
// clang-format on
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "fedmrn/core/random.h"
#include "fedmrn/train/method/method.h"
#include "fedmrn/train/model/script_network_test_util.h"
#include "fedmrn/train/task.h"
#include "fedmrn/train/test_util.h"

namespace fedmrn::train {
namespace {

using torch::jit::Module;

const std::vector<Tensor> kPixelTensors = {
    {"conv.weight", {kClasses, kChannels, 1, 1}}, {"conv.bias", {kClasses}}};
constexpr char kPixelSource[] =
    "def forward(self, x):\n"
    "  return torch.conv2d(x, self.conv.weight, self.conv.bias)\n";

// Loss, gradients and statistics of one step, by LibTorch alone.
struct Step {
  double loss;
  std::map<std::string, at::Tensor> gradients;
  std::map<std::string, at::Tensor> buffers;
};
Step Reference(const std::string& path, const at::Tensor& input,
               const std::function<at::Tensor(const at::Tensor&)>& loss_of) {
  Module module = Load(path);
  module.train();
  const at::Tensor loss = loss_of(module.forward({input}).toTensor());
  loss.backward();
  Step step{loss.item<double>(), {}, {}};
  for (const auto& t : module.named_parameters()) {
    step.gradients[t.name] = t.value.grad();
  }
  for (const auto& t : module.named_buffers()) step.buffers[t.name] = t.value;
  return step;
}

void ExpectGradients(const Made& made, const Step& expected) {
  std::vector<at::Tensor> coded, plain;
  for (const TensorLayout& tensor : made.model.layout.tensors) {
    if (!expected.gradients.contains(tensor.name)) continue;
    (tensor.coded ? coded : plain)
        .push_back(expected.gradients.at(tensor.name));
  }
  ExpectClose(made.coded_gradient, Joined(coded), 1e-5);
  ExpectClose(made.plain_gradient, Joined(plain), 1e-5);
}

TEST(TorchScriptModel, GradientIsLibTorchs) {
  const std::string path = MakeFile(kConvTensors, ConvSource());
  Made made(MakeData(Input::kImages, Target::kClass), Settings(path));
  const double loss = made.Gradient(kExamples);
  const Batch batch = MakeBatch(made.data, kExamples);
  const Step expected =
      Reference(path, NchwInput(batch), [&](const at::Tensor& out) {
        return at::cross_entropy_loss(out, Labels(batch, {6}));
      });
  EXPECT_NEAR(loss, expected.loss, 1e-6);
  ExpectGradients(made, expected);
  ExpectClose(std::span(made.plain).subspan(made.model.trainable_plain),
              Joined({expected.buffers.at("bn.running_mean"),
                      expected.buffers.at("bn.running_var")}),
              1e-6);
}

TEST(TorchScriptModel, FedAvgIsLibTorchsSgd) {
  const std::string path = MakeFile(kConvTensors, ConvSource());
  Result<Task> task =
      MakeTask(MakeData(Input::kImages, Target::kClass), Settings(path));
  ASSERT_TRUE(task);
  const size_t params = task->model.layout.coded_params();
  LocalModel local;
  std::vector<float> weights(params), state;
  local.update.resize(params);
  local.plain.resize(task->model.layout.plain_values());
  local.coded_gradient.resize(params);
  local.plain_gradient.resize(task->model.trainable_plain);
  task->model.initialize(1, weights, local.plain);
  TrainSettings train{.epochs = 2, .batch = 4, .lr = 0.01f};
  const auto learner = task->make_learner();
  ASSERT_TRUE(FindMethod("fedavg")->train(
      {*task, *learner, train, {}, kExamples, weights, 33, {}, 22, state, {}},
      local));

  Module module = Load(path);
  module.train();
  std::vector<uint32_t> order(std::begin(kExamples), std::end(kExamples));
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    Random({22, Purpose::kShuffle, epoch}).Shuffle(std::span(order));
    for (size_t first = 0; first < order.size(); first += 4) {
      const Batch batch = MakeBatch(
          *task->data,
          std::span(order).subspan(first, std::min<size_t>(4, 6 - first)));
      at::cross_entropy_loss(module.forward({NchwInput(batch)}).toTensor(),
                             Labels(batch, {batch.examples}))
          .backward();
      const at::NoGradGuard no_gradient;
      for (at::Tensor p : module.parameters()) {
        p.sub_(p.grad(), 0.01);
        p.mutable_grad().reset();
      }
    }
  }
  std::map<std::string, at::Tensor> trained;
  for (const auto& t : module.named_parameters()) trained[t.name] = t.value;
  for (const auto& t : module.named_buffers()) trained[t.name] = t.value;
  std::vector<float> coded(params);
  for (size_t i = 0; i < params; ++i) coded[i] = weights[i] + local.update[i];
  ExpectClose(coded, Joined({trained["conv.weight"], trained["fc.weight"]}),
              1e-5);
  ExpectClose(
      local.plain,
      Joined({trained["bn.weight"], trained["bn.bias"], trained["fc.bias"],
              trained["bn.running_mean"], trained["bn.running_var"]}),
      1e-5);
}

// Images lie channels last where a module takes them so; .view() of what a
// convolution then gives would throw.
TEST(TorchScriptModel, ViewAfterAConvolution) {
  const std::vector<Tensor> tensors = {
      {"conv.weight", {8, kChannels, 3, 3}},
      {"fc.weight", {kClasses, 8 * kHeight * kWidth}}};
  for (const char* flat : {"h.view(h.size(0), -1)", "h.flatten(1)"}) {
    const std::string path = MakeFile(
        tensors,
        std::string(
            "def forward(self, x):\n"
            "  h = torch.conv2d(x, self.conv.weight, None, [1, 1], [1, 1])\n"
            "  return torch.matmul(") +
            flat + ", self.fc.weight.t())\n");
    Made made(MakeData(Input::kImages, Target::kClass), Settings(path));
    made.Gradient(kExamples);
    const Batch batch = MakeBatch(made.data, kExamples);
    ExpectGradients(
        made, Reference(path, NchwInput(batch), [&](const at::Tensor& out) {
          return at::cross_entropy_loss(out, Labels(batch, {6}));
        }));
  }
}

TEST(TorchScriptModel, EveryMethodTrainsIt) {
  const std::string path =
      MakeFile(kConvTensors, ConvSource("  x = torch.dropout(x, 0.2, "
                                        "self.training)\n"));
  const Result<Task> task =
      MakeTask(MakeData(Input::kImages, Target::kClass), Settings(path));
  ASSERT_TRUE(task);
  const size_t params = task->model.layout.coded_params();
  for (const Method& method : Methods()) {
    std::vector<float> results[2];
    for (std::vector<float>& result : results) {
      LocalModel local;
      std::vector<float> weights(params), state;
      local.update.resize(params);
      local.plain.resize(task->model.layout.plain_values());
      local.coded_gradient.resize(params);
      local.plain_gradient.resize(task->model.trainable_plain);
      task->model.initialize(1, weights, local.plain);
      const std::vector<float> before = local.plain;
      MethodSettings settings;
      if (method.magnitude > 0) {
        settings.mask.magnitude = static_cast<float>(method.magnitude);
      }
      if (method.initialize != nullptr) method.initialize(33, weights);
      const TrainSettings train{.epochs = 2, .batch = 4, .lr = 0.01f};
      const auto learner = task->make_learner();
      ASSERT_TRUE(
          method.train({*task,
                        *learner,
                        train,
                        settings,
                        kExamples,
                        weights,
                        33,
                        {.magnitude = settings.mask.magnitude, .seed = 11},
                        22,
                        state,
                        {}},
                       local));
      EXPECT_NE(local.plain, before) << method.name;
      result = local.update;
      result.insert(result.end(), local.plain.begin(), local.plain.end());
      for (const float v : result) ASSERT_TRUE(std::isfinite(v)) << method.name;
    }
    EXPECT_EQ(results[0], results[1]) << method.name;
  }
}

// With a counter and a state of the module's own, neither of which may matter.
std::string StatefulFile() {
  Module module("__torch__.Stateful");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("weight", at::ones({kClasses, kChannels}), false);
  module.register_buffer("calls", at::zeros({}, at::kLong));
  module.register_attribute("scale", c10::FloatType::get(), 1.0);
  for (at::Tensor p : module.parameters()) p.set_requires_grad(true);
  module.define(
      "def forward(self, x):\n"
      "  self.calls.add_(1)\n"
      "  self.scale = self.scale * 2.0\n"
      "  x = x.mean([2, 3]) * self.scale / self.calls\n"
      "  return torch.matmul(x, self.weight.t())\n");
  std::ostringstream file;
  module.save(file);
  return WriteFile(file.str());
}

TEST(TorchScriptModel, EqualCallsGiveEqualBytes) {
  for (const std::string& path :
       {MakeFile(kConvTensors,
                 ConvSource("  x = torch.dropout(x, 0.5, self.training)\n"
                            "  x = torch.sigmoid(x * 2.0 + 1.0) * x\n")),
        StatefulFile()}) {
    Made made(MakeData(Input::kImages, Target::kClass), Settings(path));
    const std::vector<float> plain = made.plain;
    made.Gradient(kExamples);
    const std::vector<float> gradient = made.coded_gradient;
    const std::vector<float> plain_after = made.plain;
    const Batch batch = MakeBatch(made.data, kExamples);
    const double loss = made.network->Evaluate(batch, made.coded, plain).loss;
    for (int call = 0; call < 5; ++call) {
      // Another batch of another size, other draws, and LibTorch's generator.
      made.Gradient(std::span(kExamples).first(3), 2);
      at::manual_seed(static_cast<uint64_t>(call));
      made.plain = plain;
      made.Gradient(kExamples);
      EXPECT_EQ(made.coded_gradient, gradient) << call;
      EXPECT_EQ(made.plain, plain_after) << call;
      EXPECT_EQ(made.network->Evaluate(batch, made.coded, plain).loss, loss);
    }
    // Workers side by side.
    std::vector<std::vector<float>> results(3);
    std::vector<std::thread> threads;
    for (std::vector<float>& result : results) {
      threads.emplace_back([&] {
        const auto network = made.model.make_network();
        std::vector<float> mine = plain, coded_gradient(made.coded.size()),
                           plain_gradient(made.model.trainable_plain);
        for (int call = 0; call < 5; ++call) {
          mine = plain;
          network->Gradient(batch, {9, Purpose::kDropout, 1}, made.coded, mine,
                            coded_gradient, plain_gradient);
        }
        result = coded_gradient;
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& result : results) EXPECT_EQ(result, gradient);
  }
}

TEST(TorchScriptModel, StatisticsMayBeReplaced) {
  const std::string path =
      MakeFile({{"weight", {kClasses, kChannels}}, {"mean", {}, false}},
               "def forward(self, x):\n"
               "  self.mean = self.mean * 0.5 + x.mean()\n"
               "  return torch.matmul(x.mean([2, 3]), self.weight.t())\n");
  Made made(MakeData(Input::kImages, Target::kClass), Settings(path));
  ASSERT_EQ(made.plain.size(), 1u);
  const float before = made.plain[0];
  made.Gradient(kExamples);
  const Batch batch = MakeBatch(made.data, kExamples);
  EXPECT_FLOAT_EQ(made.plain[0],
                  before * 0.5f + NchwInput(batch).mean().item<float>());
}

// One weight per number, so that its gradient is the noise that dropout
// multiplied by.
TEST(TorchScriptModel, DropoutDrawsFromTheStream) {
  constexpr int64_t kSize = 3;
  for (const auto& [call, kept] :
       std::map<std::string, double>{{"torch.dropout(x, 0.25, True)", 0.75},
                                     {"torch.dropout_(x, 0.25, True)", 0.75},
                                     {"torch.feature_dropout(x.unsqueeze(2), "
                                      "0.25, True).squeeze(2)",
                                      0.75}}) {
    const std::string path =
        MakeFile({{"weight", {2, 1000}}, {"bias", {2}}},
                 "def forward(self, x):\n"
                 "  x = torch.ones([x.size(0), 1000])\n"
                 "  x = " +
                     call +
                     "\n"
                     "  return torch.matmul(x, self.weight.t()) + self.bias\n");
    Data data = MakeData(Input::kNumbers, Target::kNumbers);
    ASSERT_EQ(data.shape[0], kSize);
    Made made(std::move(data), Settings(path));
    const uint32_t one[] = {1};
    made.Gradient(one, 1);
    const std::vector<float> first = made.coded_gradient;
    made.Gradient(one, 2);
    EXPECT_NE(made.coded_gradient, first) << call;
    made.Gradient(one, 1);
    EXPECT_EQ(made.coded_gradient, first) << call;
    // As the definition has it, word for word.
    const PhiloxStream stream{9, Purpose::kDropout, 1};
    for (uint64_t i = 0; i < 1000; ++i) {
      const bool keeps = DrawUniform(stream, i) < kept;
      EXPECT_EQ(made.coded_gradient[i] != 0, keeps) << call << " at " << i;
    }
  }
}

TEST(TorchScriptModel, PixelsWithoutAClassDoNotCount) {
  const std::string path = MakeFile(kPixelTensors, kPixelSource);
  Made made(MakeData(Input::kImages, Target::kPixelClasses), Settings(path));
  EXPECT_STREQ(made.model.metric, "pixel accuracy");
  const double loss = made.Gradient(kExamples);
  const Batch batch = MakeBatch(made.data, kExamples);
  const at::Tensor labels = Labels(batch, {6, kHeight, kWidth});
  const Step expected =
      Reference(path, NchwInput(batch), [&](const at::Tensor& out) {
        return at::cross_entropy_loss(out, labels, {}, at::Reduction::Mean, -1);
      });
  EXPECT_NEAR(loss, expected.loss, 1e-6);
  ExpectGradients(made, expected);

  const Score score = made.network->Evaluate(batch, made.coded, made.plain);
  const at::Tensor logits =
      Load(path).forward({NchwInput(batch)}).toTensor().detach();
  uint64_t count = 0, right = 0;
  std::vector<uint64_t> confusion(kClasses * kClasses);
  const at::Tensor answers = logits.argmax(1).flatten();
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] == kNoClass) continue;
    const auto truth = static_cast<size_t>(batch.labels[i]);
    const auto answer = static_cast<size_t>(answers.data_ptr<int64_t>()[i]);
    ++count;
    right += truth == answer;
    ++confusion[truth * kClasses + answer];
  }
  EXPECT_LT(count, batch.labels.size());
  EXPECT_EQ(score.count, count);
  EXPECT_EQ(score.metric, static_cast<double>(right));
  EXPECT_EQ(score.confusion, confusion);
  EXPECT_NEAR(score.loss / static_cast<double>(count), loss, 1e-5);

  // Nothing to learn from is no NaN.
  Batch empty = batch;
  std::fill(empty.labels.begin(), empty.labels.end(), kNoClass);
  const BatchScore nothing =
      made.network->Gradient(empty, {}, made.coded, made.plain,
                             made.coded_gradient, made.plain_gradient);
  EXPECT_EQ(nothing.loss, 0);
  EXPECT_EQ(nothing.metric, 0);
  for (const float g : made.coded_gradient) EXPECT_EQ(g, 0);
}

// FedSeg's loss as methods describe it, with plain loops.
double BackCeByHand(const Batch& batch, const at::Tensor& logits) {
  const auto z = logits.accessor<float, 4>();
  std::vector<bool> present(kClasses);
  for (const int32_t label : batch.labels) {
    if (label != kNoClass) present[static_cast<size_t>(label)] = true;
  }
  const bool all = std::ranges::find(present, false) == present.end();
  double sum = 0;
  size_t count = 0, at = 0;
  for (int64_t n = 0; n < logits.size(0); ++n) {
    for (int64_t y = 0; y < logits.size(2); ++y) {
      for (int64_t x = 0; x < logits.size(3); ++x) {
        const int32_t label = batch.labels[at++];
        if (label == kNoClass && all) continue;
        double total = 0, wanted = 0;
        for (uint32_t c = 0; c < kClasses; ++c) {
          const double e = std::exp(double{z[n][c][y][x]});
          total += e;
          if (label == kNoClass ? !present[c]
                                : c == static_cast<uint32_t>(label)) {
            wanted += e;
          }
        }
        sum -= std::log(wanted / total + 1e-7);
        ++count;
      }
    }
  }
  return sum / static_cast<double>(count);
}

TEST(TorchScriptModel, BackCe) {
  const std::string path = MakeFile(kPixelTensors, kPixelSource);
  ModelSettings settings = Settings(path);
  settings.loss = LossKind::kBackCe;
  Made made(MakeData(Input::kImages, Target::kPixelClasses), settings);
  const Batch complete = MakeBatch(made.data, kExamples);
  Batch partly = complete;
  std::ranges::replace(partly.labels, 1, kNoClass);
  Batch none = complete;
  std::ranges::fill(none.labels, kNoClass);
  Batch no_gaps = partly;
  std::ranges::replace(no_gaps.labels, kNoClass, 2);
  for (const Batch& batch : {complete, partly, none, no_gaps}) {
    const auto loss = [&](std::span<const float> coded) {
      return made.network
          ->Gradient(batch, {}, coded, made.plain, made.coded_gradient,
                     made.plain_gradient)
          .loss;
    };
    const at::Tensor logits =
        Load(path).forward({NchwInput(batch)}).toTensor().detach();
    EXPECT_NEAR(loss(made.coded), BackCeByHand(batch, logits), 1e-6);
    const std::vector<float> gradient = made.coded_gradient;
    for (size_t i = 0; i < gradient.size(); ++i) {
      std::vector<float> moved = made.coded;
      moved[i] += 0.01f;
      const double above = loss(moved);
      moved[i] -= 0.02f;
      EXPECT_NEAR(gradient[i], (above - loss(moved)) / 0.02, 1e-4);
    }
  }
}

TEST(TorchScriptModel, NumbersGiveR2) {
  const std::string path =
      MakeFile({{"weight", {2, 3}}},
               "def forward(self, x):\n"
               "  return torch.matmul(x, self.weight.t())\n");
  Made made(MakeData(Input::kNumbers, Target::kNumbers), Settings(path));
  EXPECT_STREQ(made.model.metric, "R2");
  // 1 - residual / total, over the whole test set.
  Batch all;
  made.data.test_batch(0, 20, all);
  const at::Tensor targets =
      at::from_blob(all.values.data(), {20, 2}).to(at::kDouble);
  const at::Tensor outputs =
      at::matmul(at::from_blob(all.x.data(), {20, 3}),
                 at::from_blob(made.coded.data(), {2, 3}).t())
          .to(at::kDouble);
  const double residual = (outputs - targets).square().sum().item<double>();
  const double total =
      (targets - targets.mean(0)).square().sum().item<double>();
  Score score;
  for (const auto& [first, count] :
       std::map<uint64_t, uint32_t>{{0, 8}, {8, 8}, {16, 4}}) {
    Batch batch;
    made.data.test_batch(first, count, batch);
    score.Add(made.network->Evaluate(batch, made.coded, made.plain));
  }
  EXPECT_EQ(score.count, 20u);
  EXPECT_NEAR(score.metric / 20, 1 - residual / total, 1e-6);
  EXPECT_NEAR(score.loss / 20, residual / 40, 1e-6);
}

TEST(TorchScriptModel, TokensAreIndices) {
  const std::string path =
      MakeFile({{"embedding", {7, 4}}, {"weight", {kClasses, 4}}},
               "def forward(self, x):\n"
               "  x = torch.embedding(self.embedding, x).mean(1)\n"
               "  return torch.matmul(x, self.weight.t())\n");
  Made made(MakeData(Input::kTokens, Target::kClass), Settings(path));
  const double loss = made.Gradient(kExamples);
  const Batch batch = MakeBatch(made.data, kExamples);
  const Step expected =
      Reference(path, at::tensor(batch.tokens).to(at::kLong).reshape({6, 5}),
                [&](const at::Tensor& out) {
                  return at::cross_entropy_loss(out, Labels(batch, {6}));
                });
  EXPECT_NEAR(loss, expected.loss, 1e-6);
  ExpectGradients(made, expected);
}

// Parameters that are frozen, tied, views of one memory, or not used.
TEST(TorchScriptModel, UnusualParameters) {
  Module module("__torch__.Unusual");
  module.register_attribute("training", c10::BoolType::get(), true);
  const at::Tensor memory = at::rand({20});
  const at::Tensor tied = memory.slice(0, 0, 6).view({3, 2});
  module.register_parameter("a", tied, false);
  module.register_parameter("b", tied, false);
  module.register_parameter("c", memory.slice(0, 6, 12).view({3, 2}), false);
  module.register_parameter("frozen", at::rand({2}), false);
  module.register_parameter("unused", at::rand({2, 2}), false);
  for (const char* name : {"a", "b", "c", "unused"}) {
    module.attr(name).toTensor().set_requires_grad(true);
  }
  module.define(
      "def forward(self, x):\n"
      "  x = x.mean([2, 3]) + self.frozen\n"
      "  return torch.matmul(x, (self.a * self.b + self.c).t())\n");
  std::ostringstream file;
  module.save(file);
  const std::string path = WriteFile(file.str());
  Made made(MakeData(Input::kImages, Target::kClass), Settings(path));
  EXPECT_EQ(CodedNames(made.model),
            (std::vector<std::string>{"a", "c", "unused"}));
  EXPECT_TRUE(made.plain.empty());
  made.Gradient(kExamples);

  const Batch batch = MakeBatch(made.data, kExamples);
  at::Tensor a = tied.detach().clone().set_requires_grad(true);
  const at::Tensor c = module.attr("c").toTensor();
  at::cross_entropy_loss(at::matmul(NchwInput(batch).mean({2, 3}) +
                                        module.attr("frozen").toTensor(),
                                    (a * a + c).t()),
                         Labels(batch, {6}))
      .backward();
  ExpectClose(made.coded_gradient,
              Joined({a.grad(), c.grad(), at::zeros({2, 2})}), 1e-5);

  // The trained file has both names, with one value.
  for (float& v : made.coded) v += 1;
  const Result<std::string> saved =
      made.model.torchscript(made.coded, made.plain);
  ASSERT_TRUE(saved);
  std::istringstream stream(*saved);
  const Module loaded = torch::jit::load(stream);
  EXPECT_TRUE(loaded.attr("a").toTensor().equal(tied + 1));
  EXPECT_TRUE(loaded.attr("b").toTensor().equal(tied + 1));
  EXPECT_TRUE(loaded.attr("c").toTensor().equal(c + 1));
  EXPECT_FALSE(loaded.attr("frozen").toTensor().requires_grad());
}

}  // namespace
}  // namespace fedmrn::train
