// PyTorch's files: TorchScript modules, and what Python's torch.save wrote.
#pragma once

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>
// clang-format on

#include <exception>
#include <string>
#include <vector>

#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::train {

// LibTorch's message without stacks: what an interpreter's traceback ends
// with, otherwise the first line.
std::string Reason(const std::exception& error);

// What is wrong with the file, without its name, is thrown.
[[noreturn]] void Refuse(const std::string& why);

// Both kinds are zip archives; that of a module has code.
enum class FileKind { kModule, kPickle, kOther };
FileKind KindOf(const std::string& contents);

torch::jit::Module LoadModule(const std::string& contents);

// A tensor of a module.
struct Slot {
  std::string name;
  c10::intrusive_ptr<c10::ivalue::Object> object;
  size_t index;  // in it
  bool parameter;

  at::Tensor tensor() const { return object->getSlot(index).toTensor(); }
};

// Visits all tensors, depth first: in the same order for every copy of a
// module.
void FindSlots(const torch::jit::Module& module, const std::string& prefix,
               std::vector<Slot>& slots);

// All float tensors of a file of either kind.
Result<std::vector<NamedTensor>> ReadTensors(const std::string& file,
                                             const std::string& contents);

}  // namespace fedmrn::train
