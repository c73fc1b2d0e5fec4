#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace fedmrn::train {

inline std::span<const float> ValuesOf(const at::Tensor& contiguous) {
  return {contiguous.data_ptr<float>(),
          static_cast<size_t>(contiguous.numel())};
}

}  // namespace fedmrn::train
