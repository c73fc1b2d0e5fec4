// 3x3 convolutions with padding 1 and without bias: by Winograd's algorithm
// (winograd.h), and through oneDNN where an image comes in, with its one or
// three channels. Weights are plain OIHW on the outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

#include "fedmrn/train/kernels/norm_pool.h"

namespace fedmrn::train {

// For one batch size. Immutable after construction; the scratch memory is the
// caller's, so that layers and batch sizes can share it.
class Convolution {
 public:
  struct Shape {
    uint32_t images = 0;
    uint32_t in_channels = 0;
    uint32_t out_channels = 0;  // a multiple of 16
    uint32_t height = 0;
    uint32_t width = 0;
  };

  // A layer whose in_channels are no multiple of 16 takes NHWC images, and no
  // gradient of them is ever computed.
  // Images are shared among `threads`.
  Convolution(const dnnl::engine& engine, const Shape& shape,
              uint32_t threads = 1);

  const Activation& in() const { return in_; }
  const Activation& out() const { return out_; }
  size_t scratch_floats() const { return scratch_floats_; }

  void Forward(const dnnl::stream& stream, const float* x, const float* weights,
               float* y, float* scratch) const;
  // `x_gradient` is not touched where images come in.
  void Backward(const dnnl::stream& stream, const float* x,
                const float* weights, const float* y_gradient,
                float* weights_gradient, float* x_gradient,
                float* scratch) const;

 private:
  void DescribeForOneDnn();
  // y = x convolved, from `in` to `out`, with weights that are transformed.
  void Convolve(const Activation& in, const float* x, const float* transformed,
                const Activation& out, float* y, float* scratch) const;
  // The gradient of the weights, a part of the images on each thread.
  void AddUpGradients(const float* x, const float* y_gradient, float* scratch,
                      float* weights_gradient) const;
  dnnl::memory Wrap(const dnnl::memory::desc& desc, const void* data) const;

  dnnl::engine engine_;
  uint32_t threads_;
  bool takes_images_;
  Activation in_, out_;
  // The scratch memory: weights in another arrangement, then what the
  // computation itself needs; by Winograd's algorithm, both of each thread.
  size_t weights_floats_ = 0;
  size_t part_floats_ = 0;
  size_t scratch_floats_ = 0;
  // Where images come in.
  dnnl::memory::desc plain_weights_;
  dnnl::convolution_forward::primitive_desc forward_desc_;
  dnnl::convolution_backward_weights::primitive_desc gradient_desc_;
  dnnl::convolution_forward forward_;
  dnnl::convolution_backward_weights gradient_;
};

}  // namespace fedmrn::train
