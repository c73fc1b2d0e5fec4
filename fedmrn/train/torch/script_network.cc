// A TorchScript module as a network: the user's own, or one of ours that is
// written in TorchScript.
#include "fedmrn/train/torch/script_network.h"

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>
// clang-format on
#include <ATen/Parallel.h>
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
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/graph_iterator.h>
#include <torch/library.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/core/draws.h"
#include "fedmrn/train/model/name_patterns.h"
#include "fedmrn/train/torch/torch_file.h"

// OpenBLAS has threads of its own, and this sets their number; it is null with
// another BLAS.
extern "C" __attribute__((weak)) void openblas_set_num_threads(int threads);

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

// What this program cannot reproduce: draws other than dropout, and parallel
// work.
bool Reproducible(const torch::jit::Node& node) {
  if (node.kind() == c10::prim::fork) return false;
  const c10::FunctionSchema* const schema = node.maybeSchema();
  if (schema == nullptr) return true;
  const c10::OperatorName& name = schema->operator_name();
  const auto op = c10::Dispatcher::singleton().findSchema(name);
  if (!op || !op->hasTag(at::Tag::nondeterministic_seeded)) return true;
  return name.name.ends_with("dropout") || name.name.ends_with("dropout_") ||
         c10::toString(name) == "aten::bernoulli_.float" ||
         c10::toString(name) == "aten::bernoulli.p";
}

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

// The module.

// A tensor of the layout.
struct Entry {
  size_t slot;
  bool coded, trained;
  float gradient_scale;
};

// Immutable and thread-safe but for `module`'s compiled code, which LibTorch
// guards.
struct Script {
  ScriptSpec spec;
  Data data;  // what it is, without examples
  Module module;
  std::vector<Entry> entries;  // of the layout, in its order
  ModelLayout layout;
  uint64_t trainable_plain = 0;
  at::MemoryFormat images = at::MemoryFormat::Contiguous;

  // The values in the file.
  void Initial(std::span<float> coded, std::span<float> plain) const {
    std::vector<Slot> slots;
    FindSlots(module, "", slots);
    for (const Entry& entry : entries) {
      const at::Tensor tensor = slots[entry.slot].tensor();
      const auto size = static_cast<size_t>(tensor.numel());
      std::span<float>& to = entry.coded ? coded : plain;
      std::copy_n(tensor.data_ptr<float>(), size, to.begin());
      to = to.subspan(size);
    }
  }
};

// A copy of the module that computes with the given values, so that nothing it
// keeps, not even a counter, reaches a later call. The values lie in `memory`,
// which the next copy may use again.
struct Copy {
  Module module;
  std::vector<Slot> slots;
  std::vector<at::Tensor> tensors;  // those of the layout

  Copy(const Script& script, bool training, std::span<const float> coded,
       std::span<const float> plain, std::vector<at::Tensor>& memory) {
    const at::NoGradGuard no_gradient;
    FindSlots(script.module, "", slots);
    memory.resize(script.entries.size());
    c10::IValue::HashAliasedIValueMap copied;
    for (size_t i = 0; i < memory.size(); ++i) {
      const Entry& entry = script.entries[i];
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
};

class ScriptNetwork final : public Network {
 public:
  explicit ScriptNetwork(std::shared_ptr<const Script> script)
      : script_(std::move(script)) {}

  BatchScore Gradient(const Batch& batch, const PhiloxStream& draws,
                      std::span<const float> coded, std::span<float> plain,
                      std::span<float> coded_gradient,
                      std::span<float> plain_gradient) override {
    return Named(script_->spec.name, [&] {
      Copy copy(*script_, true, coded, plain, memory_);
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
        const Entry& entry = script_->entries[i];
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

  // Whether forward takes such a batch, in training as it is.
  bool Accepts(const Batch& batch) const {
    const at::NoGradGuard no_gradient;
    std::vector<float> coded(script_->layout.coded_params());
    std::vector<float> plain(script_->layout.plain_values());
    script_->Initial(coded, plain);
    std::vector<at::Tensor> memory;
    Copy copy(*script_, true, coded, plain, memory);
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
      Copy copy(*script_, false, coded, plain, memory_);
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
  std::vector<at::Tensor> memory_;  // of a Copy
};

// Loading.

constexpr char kHowToSave[] = "torch.jit.script(model).save(\"model.pt\")";

void CheckForward(const Module& module) {
  const auto method = module.find_method("forward");
  if (!method) Refuse("the module has no method forward");
  const auto& arguments = method->function().getSchema().arguments();
  size_t needed = 0;
  for (const c10::Argument& argument : arguments) {
    needed += argument.default_value() ? 0 : 1;
  }
  if (arguments.size() < 2 || needed > 2) {  // the first is self
    Refuse("forward must take one tensor, a batch of inputs; it takes " +
           std::to_string(needed - 1));
  }
  auto graph = method->graph()->copy();
  torch::jit::Inline(*graph);
  torch::jit::DepthFirstGraphNodeIterator nodes(graph);
  while (const torch::jit::Node* const node = nodes.next()) {
    if (Reproducible(*node)) continue;
    Refuse(std::string("forward uses ") + node->kind().toQualString() +
           ", whose result would differ from run to run; of what is random, "
           "only dropout is supported");
  }
}

// Gives every float tensor memory of its own: copies of a module cannot tell a
// view from a whole. Tied weights, one tensor under several names, stay one.
void SeparateTensors(const std::vector<Slot>& slots) {
  std::vector<at::Tensor> before;
  for (const Slot& slot : slots) before.push_back(slot.tensor());
  for (size_t i = 0; i < slots.size(); ++i) {
    const at::Tensor& tensor = before[i];
    if (tensor.scalar_type() != at::kFloat) continue;
    size_t first = 0;
    while (first < i && !(before[first].scalar_type() == at::kFloat &&
                          before[first].data_ptr() == tensor.data_ptr() &&
                          before[first].sizes() == tensor.sizes() &&
                          before[first].strides() == tensor.strides())) {
      ++first;
    }
    const at::Tensor own = first < i
                               ? slots[first].tensor()
                               : tensor.detach()
                                     .clone(at::MemoryFormat::Contiguous)
                                     .set_requires_grad(tensor.requires_grad());
    slots[i].object->setSlot(slots[i].index, own);
  }
}

bool HasEarlierName(const std::vector<Slot>& slots, size_t which) {
  const at::Tensor tensor = slots[which].tensor();
  return std::any_of(
      slots.begin(), slots.begin() + static_cast<ptrdiff_t>(which),
      [&](const Slot& slot) { return slot.tensor().is_same(tensor); });
}

void BuildLayout(Script& script) {
  std::vector<Slot> slots;
  FindSlots(script.module, "", slots);
  SeparateTensors(slots);
  NamePatterns patterns(script.spec.coded);  // ModelSettings::coded
  const auto add = [&](size_t i, bool coded, bool trained) {
    const Slot& slot = slots[i];
    const at::IntArrayRef shape = slot.tensor().sizes();
    script.layout.tensors.push_back(
        {slot.name, {shape.begin(), shape.end()}, coded});
    const auto& scale = script.spec.gradient_scale;
    script.entries.push_back(
        {i, coded, trained, scale ? scale(slot.name) : 1.0f});
  };
  std::vector<size_t> statistics;
  bool any_coded = false;
  for (size_t i = 0; i < slots.size(); ++i) {
    const at::Tensor tensor = slots[i].tensor();
    const bool trained = slots[i].parameter && tensor.requires_grad();
    // What is neither trained nor a statistic stays as it is in the file.
    if (HasEarlierName(slots, i) || !tensor.is_floating_point() ||
        (slots[i].parameter && !trained) || tensor.numel() == 0) {
      continue;
    }
    if (tensor.scalar_type() != at::kFloat) {
      Refuse("tensor " + slots[i].name + " is of type " +
             c10::toString(tensor.scalar_type()) +
             "; convert the model with .float() before saving it");
    }
    if (!trained) {
      statistics.push_back(i);
      continue;
    }
    const bool coded = patterns.Match(slots[i].name, tensor.dim() > 1);
    any_coded |= coded;
    add(i, coded, true);
    if (!coded) {
      script.trainable_plain += static_cast<uint64_t>(tensor.numel());
    }
  }
  if (script.entries.empty()) {
    Refuse(
        "the module has no trainable tensor (a parameter of type float32 "
        "that requires a gradient)");
  }
  if (const std::string unused = patterns.Unused(); !unused.empty()) {
    Refuse("no trainable tensor has a name like '" + unused +
           "' of model.masked");
  }
  if (!any_coded) {
    Refuse("no tensor would be compressed; name some with model.masked");
  }
  for (const size_t i : statistics) add(i, false, false);
}

// Convolutions are about a quarter faster where the channels of a pixel lie
// side by side, but not those of one channel each, and a module may .view()
// their results as only the usual order allows: that is tried with two images,
// since with one every order would do.
void ChooseImageFormat(const std::shared_ptr<Script>& script,
                       const std::vector<int64_t>& shape) {
  if (script->data.input != Input::kImages) return;
  const auto of_one_channel =
      std::ranges::count_if(script->layout.tensors, [](const auto& tensor) {
        return tensor.shape.size() == 4 && tensor.shape[1] == 1;
      });
  if (of_one_channel > 1) return;  // the first may be that of grey images
  Batch batch;
  batch.examples = 2;
  batch.shape = {2};
  batch.shape.insert(batch.shape.end(), shape.begin(), shape.end());
  batch.x.resize(static_cast<size_t>(std::accumulate(
      shape.begin(), shape.end(), int64_t{2}, std::multiplies<>())));
  script->images = at::MemoryFormat::ChannelsLast;
  if (!ScriptNetwork(script).Accepts(batch)) {
    script->images = at::MemoryFormat::Contiguous;
  }
}

Result<std::string> Save(const Script& script, std::span<const float> coded,
                         std::span<const float> plain) {
  // LibTorch does not promise that two modules may be written at a time.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  try {
    std::ostringstream file;
    std::vector<at::Tensor> memory;
    Copy(script, false, coded, plain, memory).module.save(file);
    return std::move(file).str();
  } catch (const std::exception& error) {
    return Error{ErrorCode::kBadValue, script.spec.name + ": " + Reason(error)};
  }
}

}  // namespace

Result<Model> MakeScriptModel(const ScriptSpec& spec, const Data& data) {
  // Plain execution: LibTorch would watch the first runs and then compute in
  // another order.
  torch::jit::getProfilingMode() = false;
  // LibTorch sets its own number for every new thread.
  const auto threads = static_cast<int>(spec.threads);
  at::set_num_threads(threads);
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(threads);

  const auto script = std::make_shared<Script>();
  script->spec = spec;
  script->spec.contents.clear();
  script->data.name = data.name;
  script->data.input = data.input;
  script->data.target = data.target;
  script->data.target_shape = data.target_shape;
  script->data.classes = data.classes;
  try {
    const FileKind kind = KindOf(spec.contents);
    if (kind != FileKind::kModule) {
      Refuse(std::string(kind == FileKind::kPickle
                             ? "holds tensors or a Python object (torch.save), "
                               "not a module"
                             : "is no TorchScript file") +
             "; save the model with " + kHowToSave);
    }
    script->module = LoadModule(spec.contents);
    CheckForward(script->module);
    BuildLayout(*script);
    ChooseImageFormat(script, data.shape);
  } catch (const std::exception& error) {
    return Error{ErrorCode::kBadValue, spec.name + ": " + Reason(error)};
  }

  Model model;
  model.layout = script->layout;
  model.trainable_plain = script->trainable_plain;
  model.library_threads = spec.threads;
  model.metric = data.target == Target::kNumbers        ? "R2"
                 : data.target == Target::kPixelClasses ? "pixel accuracy"
                                                        : "accuracy";
  model.initialize = [script](uint64_t, std::span<float> coded,
                              std::span<float> plain) {
    script->Initial(coded, plain);
  };
  model.make_network = [script] {
    return std::make_unique<ScriptNetwork>(script);
  };
  model.torchscript = [script](std::span<const float> coded,
                               std::span<const float> plain) {
    return Save(*script, coded, plain);
  };
  return model;
}

}  // namespace fedmrn::train
