#pragma once

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <caffe2/serialize/inline_container.h>
// clang-format on

namespace fedmrn::train {

// What Python's torch.save wrote, as far as dictionaries and tensors go; other
// plain values become None. LibTorch's own reader cannot do it: the result of
// state_dict() is an OrderedDict with attributes. Throws std::runtime_error.
c10::IValue ReadPickled(caffe2::serialize::PyTorchStreamReader& file);

}  // namespace fedmrn::train
