// 3x3 convolutions with padding 1 and without bias, through oneDNN, in the
// memory layout that oneDNN likes best on this CPU. Weights are plain OIHW on
// the outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

#include "fedmrn/train/norm_pool.h"

namespace fedmrn {

// For one batch size. Immutable after construction; the scratch memory is the
// caller's, so that layers and batch sizes can share it.
class Convolution {
 public:
  struct Shape {
    uint32_t images = 0;
    uint32_t in_channels = 0;
    uint32_t out_channels = 0;
    uint32_t height = 0;
    uint32_t width = 0;
  };

  // The first layer takes NHWC images and needs no gradient of its input.
  Convolution(const dnnl::engine& engine, const Shape& shape, bool first);

  const Activation& in() const { return in_; }
  const Activation& out() const { return out_; }
  size_t scratch_floats() const { return scratch_floats_; }

  void Forward(const dnnl::stream& stream, const float* x, const float* weights,
               float* y, float* scratch) const;
  // `x_gradient` is not touched by a first layer.
  void Backward(const dnnl::stream& stream, const float* x,
                const float* weights, const float* y_gradient,
                float* weights_gradient, float* x_gradient,
                float* scratch) const;

 private:
  dnnl::memory Wrap(const dnnl::memory::desc& desc, const void* data) const;
  // `weights`, in the layout of `desc`: themselves, or reordered to `buffer`.
  dnnl::memory Arranged(const dnnl::stream& stream,
                        const dnnl::memory::desc& desc, const float* weights,
                        float* buffer) const;

  dnnl::engine engine_;
  bool first_;
  Activation in_, out_;
  size_t scratch_floats_ = 0;
  size_t weights_floats_ = 0;  // of any arrangement, at the head of the scratch
  dnnl::memory::desc plain_weights_;
  dnnl::convolution_forward::primitive_desc forward_desc_;
  dnnl::convolution_backward_data::primitive_desc data_desc_;
  dnnl::convolution_backward_weights::primitive_desc weights_desc_;
  dnnl::convolution_forward forward_;
  dnnl::convolution_backward_data data_;
  dnnl::convolution_backward_weights weights_;
};

}  // namespace fedmrn
