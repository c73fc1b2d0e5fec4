// A TorchScript module as a network: the user's own, or one of ours that is
// written in TorchScript. script_loading.h makes a model of it.
#pragma once

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>
// clang-format on

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fedmrn/train/torch/torch_file.h"
#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::train {

// A tensor of the layout.
struct ScriptEntry {
  size_t slot;
  bool coded, trained;
  float gradient_scale;
};

// Immutable and thread-safe but for `module`'s compiled code, which LibTorch
// guards.
struct Script {
  ScriptSpec spec;
  Data data;  // what it is, without examples
  torch::jit::Module module;
  std::vector<ScriptEntry> entries;  // of the layout, in its order
  ModelLayout layout;
  uint64_t trainable_plain = 0;
  at::MemoryFormat images = at::MemoryFormat::Contiguous;

  // The values in the file.
  void Initial(std::span<float> coded, std::span<float> plain) const;
};

// A copy of the module that computes with the given values, so that nothing it
// keeps, not even a counter, reaches a later call. The values lie in `memory`,
// which the next copy may use again.
struct ScriptCopy {
  torch::jit::Module module;
  std::vector<Slot> slots;
  std::vector<at::Tensor> tensors;  // those of the layout

  ScriptCopy(const Script& script, bool training, std::span<const float> coded,
             std::span<const float> plain, std::vector<at::Tensor>& memory);
};

std::unique_ptr<Network> MakeScriptNetwork(
    std::shared_ptr<const Script> script);

// Whether forward takes such a batch, in training as it is.
bool Accepts(std::shared_ptr<const Script> script, const Batch& batch);

}  // namespace fedmrn::train
