#include "fedmrn/train/torch/torch_file.h"

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <caffe2/serialize/inline_container.h>
// clang-format on
#include <ATen/Parallel.h>
#include <c10/util/Logging.h>
#include <torch/csrc/jit/serialization/import.h>

#include <sstream>
#include <stdexcept>
#include <string_view>

#include "fedmrn/train/torch/pickled.h"

namespace fedmrn::train {
namespace {

// A file may name one value many times, and what holds these as often again:
// what is read of it stays in proportion to its size.
constexpr size_t kMaxTimesRead = 16;

void Spend(size_t cost, size_t& budget) {
  if (cost > budget) Refuse("names the same values too often");
  budget -= cost;
}

void AddTensor(const std::string& name, const at::Tensor& tensor,
               std::vector<NamedTensor>& tensors, size_t& budget) {
  if (!tensor.is_floating_point()) return;
  Spend(static_cast<size_t>(tensor.numel()), budget);
  const at::Tensor values = tensor.to(at::kFloat).contiguous();
  const float* const from = values.data_ptr<float>();
  tensors.push_back(
      {name, values.sizes().vec(), {from, from + values.numel()}});
}

void AddTensors(const std::string& prefix, const c10::IValue& value,
                std::vector<NamedTensor>& tensors, size_t& budget) {
  Spend(1, budget);
  if (value.isTensor()) {
    AddTensor(prefix, value.toTensor(), tensors, budget);
  } else if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict()) {
      if (!item.key().isString()) continue;
      AddTensors(
          (prefix.empty() ? "" : prefix + ".") + item.key().toStringRef(),
          item.value(), tensors, budget);
    }
  }
}

}  // namespace

std::string Reason(const std::exception& error) {
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  std::string text =
      of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
  static constexpr std::string_view kLast = "RuntimeError: ";
  if (const size_t at = text.rfind(kLast); at != text.npos) {
    text.erase(0, at + kLast.size());
  }
  return text.substr(0, text.find('\n'));
}

void Refuse(const std::string& why) { throw std::runtime_error(why); }

FileKind KindOf(const std::string& contents) {
  if (!contents.starts_with("PK")) return FileKind::kOther;
  std::istringstream stream(contents);
  caffe2::serialize::PyTorchStreamReader reader(&stream);
  return reader.hasRecord("constants.pkl") ? FileKind::kModule
         : reader.hasRecord("data.pkl")    ? FileKind::kPickle
                                           : FileKind::kOther;
}

torch::jit::Module LoadModule(const std::string& contents) {
  std::istringstream stream(contents);
  return torch::jit::load(stream, c10::kCPU);
}

void FindSlots(const torch::jit::Module& module, const std::string& prefix,
               std::vector<Slot>& slots) {
  const auto object = module._ivalue();
  const auto type = module.type();
  for (size_t i = 0; i < type->numAttributes(); ++i) {
    const c10::IValue& value = object->getSlot(i);
    const std::string name = prefix + type->getAttributeName(i);
    if (value.isModule()) {
      FindSlots(value.toModule(), name + ".", slots);
    } else if (value.isTensor()) {
      slots.push_back({name, object, i, type->is_parameter(i)});
    }
  }
}

Result<std::vector<NamedTensor>> ReadTensors(const std::string& file,
                                             const std::string& contents) {
  std::vector<NamedTensor> tensors;
  size_t budget = kMaxTimesRead * contents.size();
  at::set_num_threads(1);  // as in MakeScriptModel
  // Nobody sees the stack that LibTorch writes into each error, which takes
  // longer than to read a small file.
  c10::SetStackTraceFetcher([] { return std::string(); });
  try {
    switch (KindOf(contents)) {
      case FileKind::kModule: {
        std::vector<Slot> slots;
        FindSlots(LoadModule(contents), "", slots);
        for (const Slot& slot : slots) {
          AddTensor(slot.name, slot.tensor().detach(), tensors, budget);
        }
        break;
      }
      case FileKind::kPickle: {
        std::istringstream stream(contents);
        caffe2::serialize::PyTorchStreamReader reader(&stream);
        AddTensors("", ReadPickled(reader), tensors, budget);
        break;
      }
      case FileKind::kOther:
        Refuse(
            "is no file of PyTorch 1.6 or later; make one in Python with "
            "torch.save(model.state_dict(), \"model.pt\")");
    }
  } catch (const std::exception& error) {
    return Error{ErrorCode::kBadValue, file + ": " + Reason(error)};
  }
  return tensors;
}

}  // namespace fedmrn::train
