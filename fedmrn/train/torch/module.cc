// What the program asks of LibTorch, and the door to it.
#include "fedmrn/train/torch/torch_module.h"

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/version.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <sstream>
#include <utility>

#include "fedmrn/train/torch/plain_cnn.h"
#include "fedmrn/train/torch/plain_lstm.h"
#include "fedmrn/train/torch/plain_script.h"
#include "fedmrn/train/torch/script_network.h"
#include "fedmrn/train/torch/torch_file.h"

namespace fedmrn::train {
namespace {

using torch::jit::Module;

Module NewModule(std::shared_ptr<torch::jit::CompilationUnit> unit,
                 const std::string& name) {
  // The prefix makes a name of a number, as the children of lists have.
  Module module("__torch__.fedmrn.Module_" + name, std::move(unit),
                /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), false);
  return module;
}

at::Tensor ToTensor(const TorchScriptTensor& from) {
  at::Tensor tensor = at::empty(from.shape);
  FEDMRN_CHECK(static_cast<size_t>(tensor.numel()) == from.values.size());
  std::copy(from.values.begin(), from.values.end(), tensor.data_ptr<float>());
  return tensor.set_requires_grad(from.trainable);
}

void AddTensor(Module module, const TorchScriptTensor& tensor) {
  std::string name = tensor.name;
  for (size_t dot; (dot = name.find('.')) != name.npos;) {
    const std::string child = name.substr(0, dot);
    name = name.substr(dot + 1);
    if (!module.hasattr(child)) {
      module.register_module(
          child, NewModule(module._ivalue()->compilation_unit(), child));
    }
    module = module.attr(child).toModule();
  }
  module.register_parameter(name, ToTensor(tensor), !tensor.trainable);
}

Result<std::string> Make(std::span<const TorchScriptTensor> tensors,
                         const std::string& source) {
  const auto refused = [](const char* why) {
    return Error{ErrorCode::kBadValue,
                 std::string("LibTorch refuses the model: ") + why};
  };
  try {
    Module module =
        NewModule(std::make_shared<torch::jit::CompilationUnit>(), "main");
    for (const TorchScriptTensor& tensor : tensors) AddTensor(module, tensor);
    module.define(source);
    std::ostringstream file;
    module.save(file);
    return std::move(file).str();
  } catch (const c10::Error& error) {
    return refused(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return refused(error.what());
  }
}

std::string Version() { return TORCH_VERSION; }

}  // namespace
}  // namespace fedmrn::train

extern "C" __attribute__((visibility("default")))
const fedmrn::train::TorchModule*
fedmrn_torch_module() {
  static constexpr fedmrn::train::TorchModule kModule{
      fedmrn::train::Make,
      fedmrn::train::MakePlainCnn,
      fedmrn::train::MakePlainLstm,
      fedmrn::train::MakePlainScript,
      fedmrn::train::MakeScriptModel,
      fedmrn::train::ReadTensors,
      fedmrn::train::Version};
  return &kModule;
}
