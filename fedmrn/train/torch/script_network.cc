#include "fedmrn/train/torch/script_network.h"

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>
// clang-format on
#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/core/draws.h"

namespace fedmrn::train {
namespace {

using torch::jit::Module;

// Dropout. LibTorch's own draws from a generator that all threads share. All
// kinds of dropout come down to bernoulli_(p); while a Draws lives, that takes
// its numbers from the stream instead. It is reached by the one dispatch key
// that LibTorch itself leaves alone.

thread_local DrawReader* current_draws = nullptr;
constexpr auto kDrawsKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

at::Tensor& Bernoulli(at::Tensor& self, double p,
                      c10::optional<at::Generator>) {
  TORCH_CHECK(current_draws != nullptr, "random numbers on another thread");
  // In the order of the indices, whatever the order in memory.
  at::Tensor drawn = at::empty(self.sizes(), at::kFloat);
  std::span<float> to(drawn.data_ptr<float>(),
                      static_cast<size_t>(drawn.numel()));
  while (!to.empty()) {
    const std::span<const uint32_t> words = current_draws->Next(to.size());
    for (size_t i = 0; i < words.size(); ++i) {
      to[i] = UniformFromWord(words[i]) < p ? 1.0f : 0.0f;
    }
    to = to.subspan(words.size());
  }
  return self.copy_(drawn);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, TESTING_ONLY_GenericMode, library) {
  library.impl("bernoulli_.float", Bernoulli);
}

class Draws {
 public:
  explicit Draws(const PhiloxStream& stream)
      : reader_(stream), key_(kDrawsKey) {
    current_draws = &reader_;
  }
  ~Draws() { current_draws = nullptr; }

 private:
  DrawReader reader_;
  c10::impl::IncludeDispatchKeyGuard key_;
};

// Messages.

std::string ToString(at::IntArrayRef shape) {
  std::ostringstream text;
  text << shape;
  return text.str();
}

// Calls `work`; what it throws names the module.
template <typename Work>
auto Named(const std::string& name, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    throw std::runtime_error(name + ": " + Reason(error));
  }
}

}  // namespace

void Script::Initial(std::span<float> coded, std::span<float> plain) const {
  std::vector<Slot> slots;
  FindSlots(module, "", slots);
  for (const ScriptEntry& entry : entries) {
    const at::Tensor tensor = slots[entry.slot].tensor();
    const auto size = static_cast<size_t>(tensor.numel());
    std::span<float>& to = entry.coded ? coded : plain;
    std::copy_n(tensor.data_ptr<float>(), size, to.begin());
    to = to.subspan(size);
  }
}

ScriptCopy::ScriptCopy(const Script& script, bool training,
                       std::span<const float> coded,
                       std::span<const float> plain,
                       std::vector<at::Tensor>& memory) {
  const at::NoGradGuard no_gradient;
  FindSlots(script.module, "", slots);
  memory.resize(script.entries.size());
  c10::IValue::HashAliasedIValueMap copied;
  for (size_t i = 0; i < memory.size(); ++i) {
    const ScriptEntry& entry = script.entries[i];
    const at::Tensor of_script = slots[entry.slot].tensor();
    std::span<const float>& from = entry.coded ? coded : plain;
    const auto size = static_cast<size_t>(of_script.numel());
    if (!memory[i].defined()) memory[i] = at::empty_like(of_script);
    at::Tensor tensor = memory[i].detach();
    std::copy_n(from.begin(), size, tensor.data_ptr<float>());
    from = from.subspan(size);
    tensors.push_back(tensor.set_requires_grad(entry.trained));
    copied.emplace(of_script, tensor);
  }
  FEDMRN_CHECK(coded.empty() && plain.empty());
  module = Module(script.module._ivalue()->deepcopy(copied));
  module.train(training);
  slots.clear();
  FindSlots(module, "", slots);
}

namespace {

class ScriptNetwork final : public Network {
 public:
  explicit ScriptNetwork(std::shared_ptr<const Script> script)
      : script_(std::move(script)) {}

  BatchScore Gradient(const Batch& batch, const PhiloxStream& draws,
                      std::span<const float> coded, std::span<float> plain,
                      std::span<float> coded_gradient,
                      std::span<float> plain_gradient) override {
    return Named(script_->spec.name, [&] {
      ScriptCopy copy(*script_, true, coded, plain, memory_);
      const at::AutoGradMode with_gradient(true);
      at::Tensor loss;
      const std::vector<at::Tensor> outputs =
          Forward(copy.module, batch, draws);
      for (const at::Tensor& output : outputs) {
        const at::Tensor part = Loss(output, batch);
        loss = loss.defined() ? loss + part : part;
      }
      loss.backward();
      float* to_coded = coded_gradient.data();
      float* to_plain = plain_gradient.data();
      float* statistics = plain.data() + script_->trainable_plain;
      for (size_t i = 0; i < copy.tensors.size(); ++i) {
        const ScriptEntry& entry = script_->entries[i];
        const at::Tensor& tensor = copy.tensors[i];
        const int64_t size = tensor.numel();
        if (!entry.trained) {
          // A module may change a statistic in place or put another there.
          const Slot& slot = copy.slots[entry.slot];
          const at::Tensor now = slot.tensor().to(at::kFloat).contiguous();
          if (now.sizes() != tensor.sizes()) {
            throw std::runtime_error("forward changes the shape of " +
                                     slot.name);
          }
          statistics = std::copy_n(now.data_ptr<float>(), size, statistics);
          continue;
        }
        float*& to = entry.coded ? to_coded : to_plain;
        if (!tensor.grad().defined()) {  // the loss does not depend on it
          to = std::fill_n(to, size, 0.0f);
          continue;
        }
        const at::Tensor gradient = tensor.grad().contiguous();
        const float* const from = gradient.data_ptr<float>();
        to = std::transform(
            from, from + size, to,
            [scale = entry.gradient_scale](float g) { return scale * g; });
      }
      return BatchScore{loss.item<double>(),
                        Metric(outputs.front().detach(), batch)};
    });
  }

  bool Accepts(const Batch& batch) const {
    const at::NoGradGuard no_gradient;
    std::vector<float> coded(script_->layout.coded_params());
    std::vector<float> plain(script_->layout.plain_values());
    script_->Initial(coded, plain);
    std::vector<at::Tensor> memory;
    ScriptCopy copy(*script_, true, coded, plain, memory);
    try {
      Forward(copy.module, batch, {0, Purpose::kDropout, 0});
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  Score Evaluate(const Batch& batch, std::span<const float> coded,
                 std::span<const float> plain) override {
    return Named(script_->spec.name, [&] {
      const at::NoGradGuard no_gradient;
      ScriptCopy copy(*script_, false, coded, plain, memory_);
      // One that was traced in training mode drops something even here.
      const at::Tensor output =
          Forward(copy.module, batch, {0, Purpose::kDropout, 0}).front();
      return ScoreOf(output, batch);
    });
  }

 private:
  const Data& data() const { return script_->data; }

  // The module's outputs. Several: of auxiliary heads, after the main one.
  std::vector<at::Tensor> Forward(Module& module, const Batch& batch,
                                  const PhiloxStream& stream) const {
    c10::IValue result;
    {
      const Draws draws(stream);
      result = module.forward({Input(batch)});
    }
    std::vector<at::Tensor> outputs;
    if (result.isTensor()) {
      outputs = {result.toTensor()};
    } else if (result.isTensorList()) {
      outputs = result.toTensorVector();
    } else if (result.isTuple()) {
      for (const c10::IValue& element : result.toTupleRef().elements()) {
        if (element.isTensor()) outputs.push_back(element.toTensor());
      }
    }
    if (outputs.empty()) {
      throw std::runtime_error("forward gives " + result.tagKind() +
                               "; it must give a tensor, or several in a "
                               "tuple, of which the first is the answer");
    }
    const std::vector<int64_t> wanted = OutputShape(batch);
    for (at::Tensor& output : outputs) {
      if (data().target == Target::kNumbers && output.dim() == 2 &&
          output.size(1) == 1 && wanted.size() == 1) {
        output = output.squeeze(1);
      }
      if (output.sizes() == wanted && output.scalar_type() == at::kFloat) {
        continue;
      }
      throw std::runtime_error(
          "forward gives a tensor of shape " + ToString(output.sizes()) +
          " of type " + c10::toString(output.scalar_type()) + ", but " +
          data().name + " needs " + ToString(wanted) + " of type Float");
    }
    return outputs;
  }

  at::Tensor Input(const Batch& batch) const {
    if (data().input == Input::kTokens) {
      at::Tensor tokens = at::empty(batch.shape, at::kLong);
      std::copy(batch.tokens.begin(), batch.tokens.end(),
                tokens.data_ptr<int64_t>());
      return tokens;
    }
    // Copied, because a module may change its input.
    at::Tensor x =
        at::from_blob(const_cast<float*>(batch.x.data()), batch.shape);
    if (data().input == Input::kNumbers) return x.clone();
    return x.permute({0, 3, 1, 2}).clone(script_->images);
  }

  std::vector<int64_t> OutputShape(const Batch& batch) const {
    std::vector<int64_t> shape = {batch.examples};
    if (data().target == Target::kNumbers) {
      shape.insert(shape.end(), data().target_shape.begin(),
                   data().target_shape.end());
    } else {
      shape.push_back(data().classes);
    }
    if (data().target == Target::kPixelClasses) {
      shape.push_back(batch.shape[1]);
      shape.push_back(batch.shape[2]);
    }
    return shape;
  }

  // One class per example or pixel.
  static at::Tensor Classes(const at::Tensor& output, const Batch& batch) {
    std::vector<int64_t> shape = output.sizes().vec();
    shape.erase(shape.begin() + 1);
    at::Tensor classes = at::empty(shape, at::kLong);
    FEDMRN_CHECK(static_cast<size_t>(classes.numel()) == batch.labels.size());
    std::copy(batch.labels.begin(), batch.labels.end(),
              classes.data_ptr<int64_t>());
    return classes;
  }
  static at::Tensor Values(const at::Tensor& output, const Batch& batch) {
    FEDMRN_CHECK(static_cast<size_t>(output.numel()) == batch.values.size());
    return at::from_blob(const_cast<float*>(batch.values.data()),
                         output.sizes());
  }

  at::Tensor Loss(const at::Tensor& output, const Batch& batch) const {
    switch (script_->spec.loss) {
      case LossKind::kMse:
        return at::mse_loss(output, Values(output, batch));
      case LossKind::kBackCe:
        return BackCe(output, Classes(output, batch));
      case LossKind::kCrossEntropy:
      case LossKind::kAuto:
        break;
    }
    const at::Tensor classes = Classes(output, batch);
    const int64_t counted = classes.ne(kNoClass).sum().item<int64_t>();
    // A batch without any class has nothing to learn; 0 / 0 would spoil all.
    return at::cross_entropy_loss(output, classes, {}, at::Reduction::Sum,
                                  kNoClass) /
           std::max<int64_t>(counted, 1);
  }

  // FedSeg's loss for images in which only some classes are labelled: the
  // probabilities of all classes that the batch lacks count as one more class,
  // that of the pixels without a class.
  static at::Tensor BackCe(const at::Tensor& output, const at::Tensor& truth) {
    constexpr double kEpsilon = 1e-7;
    const int64_t classes = output.size(1);
    const at::Tensor labelled = truth.ne(kNoClass);
    const at::Tensor absent =
        at::bincount(truth.masked_select(labelled), {}, classes).eq(0);
    const at::Tensor p = at::softmax(output, 1);
    const at::Tensor own =
        p.gather(1, truth.clamp_min(0).unsqueeze(1)).squeeze(1);
    if (!absent.any().item<bool>()) {
      return -(own + kEpsilon).log().masked_select(labelled).mean();
    }
    const at::Tensor rest =
        p.index_select(1, absent.nonzero().squeeze(1)).sum(1);
    return -(at::where(labelled, own, rest) + kEpsilon).log().mean();
  }

  // How often the largest output is that of the true class. LibTorch's argmax
  // over a dimension that is not the last took 2 % of a step of BiSeNetV2.
  static int64_t Right(const at::Tensor& output,
                       std::span<const int32_t> labels) {
    const at::Tensor planes = output.contiguous();
    const int64_t classes = output.size(1);
    const size_t places = labels.size() / static_cast<size_t>(output.size(0));
    std::vector<float> best(places);
    std::vector<int32_t> answer(places);
    int64_t right = 0;
    const float* value = planes.data_ptr<float>();
    for (; !labels.empty(); labels = labels.subspan(places)) {
      std::copy_n(value, places, best.begin());
      std::ranges::fill(answer, 0);
      value += places;
      for (int32_t c = 1; c < classes; ++c, value += places) {
        for (size_t i = 0; i < places; ++i) {
          answer[i] = value[i] > best[i] ? c : answer[i];
          best[i] = std::max(best[i], value[i]);
        }
      }
      for (size_t i = 0; i < places; ++i) right += answer[i] == labels[i];
    }
    return right;
  }

  // The mean of the model's metric over a batch.
  double Metric(const at::Tensor& output, const Batch& batch) const {
    if (data().target == Target::kNumbers) {
      return 1 - at::mse_loss(output, Values(output, batch)).item<double>() /
                     script_->spec.variance;
    }
    const int64_t right = Right(output, batch.labels);
    const auto counted =
        std::ranges::count_if(batch.labels, [](int32_t c) { return c >= 0; });
    return static_cast<double>(right) /
           static_cast<double>(std::max<int64_t>(counted, 1));
  }

  Score ScoreOf(const at::Tensor& output, const Batch& batch) const {
    const auto sum = [](const at::Tensor& parts) {
      return parts.to(at::kDouble).sum().item<double>();
    };
    Score score;
    if (data().target == Target::kNumbers) {
      const at::Tensor values = Values(output, batch);
      const auto per_example =
          static_cast<double>(values.numel()) / batch.examples;
      score.count = batch.examples;
      score.loss =
          sum(at::mse_loss(output, values, at::Reduction::None)) / per_example;
      // Sums up to count * R2.
      score.metric = static_cast<double>(score.count) -
                     score.loss / script_->spec.variance;
      return score;
    }
    const at::Tensor truth = Classes(output, batch);
    score.loss = sum(at::cross_entropy_loss(output, truth, {},
                                            at::Reduction::None, kNoClass));
    const at::Tensor answer = at::argmax(output, 1);
    score.count = truth.ne(kNoClass).sum().item<int64_t>();
    score.metric = static_cast<double>(truth.eq(answer).sum().item<int64_t>());
    const int64_t classes = output.size(1);
    if (data().target == Target::kClass &&
        classes > static_cast<int64_t>(kConfusionClasses)) {
      return score;
    }
    const at::Tensor counts = at::bincount(
        (truth * classes + answer).masked_select(truth.ne(kNoClass)), {},
        classes * classes);
    const int64_t* const from = counts.data_ptr<int64_t>();
    score.confusion.assign(from, from + counts.numel());
    return score;
  }

  std::shared_ptr<const Script> script_;
  std::vector<at::Tensor> memory_;  // of a ScriptCopy
};

}  // namespace

std::unique_ptr<Network> MakeScriptNetwork(
    std::shared_ptr<const Script> script) {
  return std::make_unique<ScriptNetwork>(std::move(script));
}

bool Accepts(std::shared_ptr<const Script> script, const Batch& batch) {
  return ScriptNetwork(std::move(script)).Accepts(batch);
}

}  // namespace fedmrn::train
