// The user's own network: a TorchScript file.
#include <cmath>
#include <exception>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <system_error>

#include "fedmrn/base/process.h"
#include "fedmrn/train/data/describe.h"
#include "fedmrn/train/model/model.h"
#include "fedmrn/train/model/script_model.h"

namespace fedmrn::train {
std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t side : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(side);
  }
  return "[" + text + "]";
}

Result<std::string> ReadModelFile(const std::string& path) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) {
    return Error{ErrorCode::kUnavailable, path + ": " + error.message()};
  }
  std::string contents(size, '\0');
  if (!std::ifstream(path, std::ios::binary)
           .read(contents.data(), static_cast<std::streamsize>(size))) {
    return Error{ErrorCode::kUnavailable, path + ": cannot be read"};
  }
  return contents;
}

Status TryWithLibTorch(const std::string& file,
                       const std::function<void()>& work) {
  const Status alive = TryInChild(work);
  if (alive || alive.error().code == ErrorCode::kFailed) return alive;
  return Error{ErrorCode::kBadValue,
               file + ": LibTorch crashes on it (" + alive.error().message +
                   "): it is damaged, or made to do that"};
}

Result<LossKind> ChooseLoss(LossKind wanted, LossKind usual, const Data& data) {
  const auto needs = [&](const char* what, bool has) -> Result<LossKind> {
    if (has) return wanted;
    return Error{ErrorCode::kBadValue,
                 "the loss " + std::string(NameOf(wanted, kLosses)) +
                     " needs " + what + ", which " + data.name +
                     " does not have"};
  };
  switch (wanted) {
    case LossKind::kAuto:
      return usual;
    case LossKind::kMse:
      return needs("numbers as targets", data.target == Target::kNumbers);
    case LossKind::kCrossEntropy:
      return needs("classes as targets", data.target != Target::kNumbers);
    case LossKind::kBackCe:
      return needs("a class for every pixel",
                   data.target == Target::kPixelClasses);
  }
  FEDMRN_CHECK(false, "no such loss");
}

namespace {

// Mean over all numbers of a target of their variances among the test examples
// (Welford).
double TestVariance(const Data& data) {
  std::vector<double> mean, squares;
  double count = 0;
  Batch batch;
  for (uint64_t first = 0; first < data.test_examples;) {
    const auto now = static_cast<uint32_t>(std::min<uint64_t>(
        data.largest_test_batch, data.test_examples - first));
    data.test_batch(first, now, batch);
    const size_t size = batch.values.size() / now;
    mean.resize(size);
    squares.resize(size);
    for (size_t i = 0; i < batch.values.size(); ++i) {
      if (i % size == 0) ++count;
      const double from_mean = batch.values[i] - mean[i % size];
      mean[i % size] += from_mean / count;
      squares[i % size] += from_mean * (batch.values[i] - mean[i % size]);
    }
    first += now;
  }
  return std::reduce(squares.begin(), squares.end()) /
         (count * static_cast<double>(squares.size()));
}

// Finds, before training, what only shows when the module computes: one step
// and one evaluation of the first training examples.
void TryOut(const Model& model, const Data& data) {
  std::vector<float> coded(model.layout.coded_params());
  std::vector<float> plain(model.layout.plain_values());
  model.initialize(0, coded, plain);
  std::vector<float> coded_gradient(coded.size());
  std::vector<float> plain_gradient(model.trainable_plain);
  std::vector<uint32_t> examples(std::min<uint64_t>(2, data.train_examples));
  std::iota(examples.begin(), examples.end(), 0u);
  Batch batch;
  data.train_batch(examples, {0, Purpose::kAugment, 0}, batch);
  const auto network = model.make_network();
  network->Gradient(batch, {0, Purpose::kDropout, 0}, coded, plain,
                    coded_gradient, plain_gradient);
  network->Evaluate(batch, coded, plain);
}

}  // namespace

Result<Model> MakeTorchScriptModel(const ModelSettings& settings,
                                   const Data& data) {
  if (settings.torchscript.empty()) {
    return Error{ErrorCode::kBadValue,
                 "the model torchscript needs a file: model.torchscript"};
  }
  const Result<const TorchModule*> torch = LoadTorchModule();
  if (!torch) return torch.error();
  Result<std::string> contents = ReadModelFile(settings.torchscript);
  if (!contents) return contents.error();
  const Result<LossKind> loss =
      ChooseLoss(settings.loss,
                 data.target == Target::kNumbers ? LossKind::kMse
                                                 : LossKind::kCrossEntropy,
                 data);
  if (!loss) return loss.error();

  ScriptSpec spec;
  spec.name = settings.torchscript;
  spec.contents = std::move(*contents);
  spec.coded = settings.coded;
  spec.loss = *loss;
  spec.threads = settings.threads;
  try {
    if (data.target == Target::kNumbers) {
      spec.variance = TestVariance(data);
      if (!(spec.variance > 0)) {
        return Error{ErrorCode::kBadValue,
                     data.name +
                         ": the targets of all test examples are "
                         "equal, so there is no R2"};
      }
    }
    const auto make = [&] {
      Result<Model> model = (*torch)->make_script_model(spec, data);
      if (model) TryOut(*model, data);
      return model;
    };
    FEDMRN_TRY(TryWithLibTorch(spec.name, [&] { (void)make(); }));
    return make();
  } catch (const std::exception& error) {
    return Error{ErrorCode::kBadValue, std::string(error.what()) +
                                           "; an example of " + data.name +
                                           " is " + DescribeInput(data)};
  }
}

}  // namespace fedmrn::train
