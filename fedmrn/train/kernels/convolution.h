// 3x3 convolutions with padding 1 and without bias, by Winograd's algorithm
// (winograd.h), of one batch size. Weights are plain OIHW on the outside.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fedmrn/train/kernels/norm_pool.h"

namespace fedmrn::train {

// For one batch size. Immutable after construction; the scratch memory is the
// caller's, so that layers and batch sizes can share it.
class Convolution {
 public:
  struct Shape {
    uint32_t images = 0;
    uint32_t in_channels = 0;  // multiples of 16
    uint32_t out_channels = 0;
    uint32_t height = 0;
    uint32_t width = 0;
  };

  // Images are shared among `threads`.
  explicit Convolution(const Shape& shape, uint32_t threads = 1);

  const Activation& in() const { return in_; }
  const Activation& out() const { return out_; }
  size_t scratch_floats() const { return scratch_floats_; }

  void Forward(const float* x, const float* weights, float* y,
               float* scratch) const;
  void Backward(const float* x, const float* weights, const float* y_gradient,
                float* weights_gradient, float* x_gradient,
                float* scratch) const;

 private:
  // y = x convolved, from `in` to `out`, with weights that are transformed.
  void Convolve(const Activation& in, const float* x, const float* transformed,
                const Activation& out, float* y, float* scratch) const;
  // The gradient of the weights, a part of the images on each thread.
  void AddUpGradients(const float* x, const float* y_gradient, float* scratch,
                      float* weights_gradient) const;

  uint32_t threads_;
  Activation in_, out_;
  // The scratch memory of each thread: transformed weights, then what the
  // computation itself needs.
  size_t weights_floats_ = 0;
  size_t part_floats_ = 0;
  size_t scratch_floats_ = 0;
};

}  // namespace fedmrn::train
