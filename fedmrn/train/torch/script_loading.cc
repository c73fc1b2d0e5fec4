#include "fedmrn/train/torch/script_loading.h"

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>
// clang-format on
#include <ATen/Parallel.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/graph_iterator.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/train/model/name_patterns.h"
#include "fedmrn/train/torch/script_network.h"
#include "fedmrn/train/torch/torch_file.h"

// OpenBLAS has threads of its own, and this sets their number; it is null with
// another BLAS.
extern "C" __attribute__((weak)) void openblas_set_num_threads(int threads);

namespace fedmrn::train {
namespace {

using torch::jit::Module;

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
  if (!Accepts(script, batch)) {
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
    ScriptCopy(script, false, coded, plain, memory).module.save(file);
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
  model.make_network = [script] { return MakeScriptNetwork(script); };
  model.torchscript = [script](std::span<const float> coded,
                               std::span<const float> plain) {
    return Save(*script, coded, plain);
  };
  return model;
}

}  // namespace fedmrn::train
