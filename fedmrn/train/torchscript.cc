#include "fedmrn/train/torchscript.h"

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <sstream>
#include <utility>

namespace fedmrn {
namespace {

using torch::jit::Module;

Module NewModule(std::shared_ptr<torch::jit::CompilationUnit> unit,
                 const std::string& name) {
  Module module("__torch__.fedmrn." + name, std::move(unit),
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

std::string FloatList(std::span<const float> values) {
  // With '#', 1 is written as 1.0; a list of 1 would be of integers.
  return fmt::format("[{:#}]", fmt::join(values, ", "));
}

}  // namespace

Result<std::string> MakeTorchScript(std::span<const TorchScriptTensor> tensors,
                                    const std::string& source) {
  const auto refused = [](const char* why) {
    return Error{ErrorCode::kBadValue,
                 std::string("LibTorch refuses the model: ") + why};
  };
  try {
    Module module =
        NewModule(std::make_shared<torch::jit::CompilationUnit>(), "Model");
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

std::string CnnSource(const std::vector<bool>& pool_after,
                      std::span<const float> mean, std::span<const float> std) {
  std::string source = "def forward(self, x: Tensor) -> Tensor:\n";
  for (size_t i = 1; i <= pool_after.size(); ++i) {
    // Evaluation takes the running statistics, training the batch's.
    source += fmt::format(
        "  x = torch.conv2d(x, self.conv{0}.weight, None, [1, 1], [1, 1])\n"
        "  x = torch.batch_norm(x, self.bn{0}.weight, self.bn{0}.bias, "
        "self.bn{0}.running_mean, self.bn{0}.running_var, "
        "self.training, 0.1, 1e-5, True)\n"
        "  x = torch.relu(x)\n",
        i);
    if (pool_after[i - 1]) source += "  x = torch.max_pool2d(x, [2, 2])\n";
  }
  source += fmt::format(
      "  return torch.matmul(torch.flatten(x, 1), self.fc.weight.t())\n"
      "def normalise(self, pixels: Tensor) -> Tensor:\n"
      "  mean = torch.tensor({}, device=pixels.device).view([1, -1, 1, 1])\n"
      "  std = torch.tensor({}, device=pixels.device).view([1, -1, 1, 1])\n"
      "  return (pixels / 255.0 - mean) / std\n",
      FloatList(mean), FloatList(std));
  return source;
}

}  // namespace fedmrn
