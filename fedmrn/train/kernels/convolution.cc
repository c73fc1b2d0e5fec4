#include "fedmrn/train/kernels/convolution.h"

#include <algorithm>
#include <vector>

#include "fedmrn/train/kernels/compute_threads.h"
#include "fedmrn/train/kernels/winograd.h"

namespace fedmrn::train {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

constexpr auto kFloat = dnnl::memory::data_type::f32;

size_t Floats(const Desc& desc) {
  return (desc.get_size() + sizeof(float) - 1) / sizeof(float);
}

}  // namespace

Convolution::Convolution(const dnnl::engine& engine, const Shape& s,
                         uint32_t threads)
    : engine_(engine),
      threads_(PartsOf(s.images, threads)),
      takes_images_(s.in_channels % kWinogradPanel != 0) {
  const auto layout = [&](uint32_t channels) {
    return Activation{s.images, channels, s.height, s.width,
                      takes_images_ ? channels : kWinogradPanel};
  };
  in_ = layout(s.in_channels);
  out_ = layout(s.out_channels);
  if (takes_images_) {
    DescribeForOneDnn();
    return;
  }
  weights_floats_ = WinogradWeightFloats(s.in_channels, s.out_channels);
  part_floats_ =
      weights_floats_ + WinogradScratchFloats(s.in_channels, s.out_channels);
  scratch_floats_ = threads_ * part_floats_;
}

void Convolution::DescribeForOneDnn() {
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const dnnl::memory::dims ones = {1, 1};  // strides and padding
  const dnnl::memory::dims w_dims = {out_.channels, in_.channels, 3, 3};
  const auto activation = [](const Activation& at) {
    return Desc({at.images, at.channels, at.height, at.width}, kFloat,
                Tag::nhwc);
  };
  const Desc x = activation(in_), y = activation(out_),
             w(w_dims, kFloat, Tag::any);
  plain_weights_ = Desc(w_dims, kFloat, Tag::oihw);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  forward_desc_ = dnnl::convolution_forward::primitive_desc(
      {dnnl::prop_kind::forward_training, kDirect, x, w, y, ones, ones, ones},
      attributes, engine_);
  gradient_desc_ = dnnl::convolution_backward_weights::primitive_desc(
      {kDirect, x, w, y, ones, ones, ones}, attributes, engine_, forward_desc_);
  forward_ = dnnl::convolution_forward(forward_desc_);
  gradient_ = dnnl::convolution_backward_weights(gradient_desc_);
  weights_floats_ = std::max(Floats(forward_desc_.weights_desc()),
                             Floats(gradient_desc_.diff_weights_desc()));
  weights_floats_ = (weights_floats_ + 15) / 16 * 16;  // keeps the alignment
  scratch_floats_ =
      weights_floats_ + std::max(Floats(forward_desc_.scratchpad_desc()),
                                 Floats(gradient_desc_.scratchpad_desc()));
}

dnnl::memory Convolution::Wrap(const Desc& desc, const void* data) const {
  // oneDNN has no read-only memory; inputs are not written to.
  return {desc, engine_, const_cast<void*>(data)};
}

void Convolution::Convolve(const Activation& in, const float* x,
                           const float* transformed, const Activation& out,
                           float* y, float* scratch) const {
  ForEachPart(
      in.images, threads_, [&](uint32_t part, uint32_t first, uint32_t count) {
        Activation from = in, to = out;
        from.images = to.images = count;
        WinogradConvolve(from, x + first * in.image_size(), transformed, to,
                         y + first * out.image_size(),
                         scratch + part * part_floats_ + weights_floats_);
      });
}

void Convolution::AddUpGradients(const float* x, const float* y_gradient,
                                 float* scratch,
                                 float* weights_gradient) const {
  const size_t weights = size_t{9} * in_.channels * out_.channels;
  // The parts' gradients, but for the first.
  std::vector<float> others((threads_ - 1) * weights);
  ForEachPart(
      in_.images, threads_, [&](uint32_t part, uint32_t first, uint32_t count) {
        Activation in = in_, out = out_;
        in.images = out.images = count;
        float* const own = scratch + part * part_floats_;
        WinogradWeightsGradient(
            in, x + first * in_.image_size(), out,
            y_gradient + first * out_.image_size(), own,
            part == 0 ? weights_gradient : others.data() + (part - 1) * weights,
            own + weights_floats_);
      });
  for (size_t part = 1; part < threads_; ++part) {
    const float* const from = others.data() + (part - 1) * weights;
    for (size_t i = 0; i < weights; ++i) weights_gradient[i] += from[i];
  }
}

void Convolution::Forward(const dnnl::stream& stream, const float* x,
                          const float* weights, float* y,
                          float* scratch) const {
  if (!takes_images_) {
    WinogradWeights(in_.channels, out_.channels, weights, false, scratch);
    Convolve(in_, x, scratch, out_, y, scratch);
    return;
  }
  float* const more = scratch + weights_floats_;
  dnnl::memory plain = Wrap(plain_weights_, weights);
  dnnl::memory arranged = Wrap(forward_desc_.weights_desc(), scratch);
  dnnl::reorder(plain, arranged).execute(stream, plain, arranged);
  forward_.execute(stream, {{DNNL_ARG_SRC, Wrap(forward_desc_.src_desc(), x)},
                            {DNNL_ARG_WEIGHTS, arranged},
                            {DNNL_ARG_DST, Wrap(forward_desc_.dst_desc(), y)},
                            {DNNL_ARG_SCRATCHPAD,
                             Wrap(forward_desc_.scratchpad_desc(), more)}});
}

void Convolution::Backward(const dnnl::stream& stream, const float* x,
                           const float* weights, const float* y_gradient,
                           float* weights_gradient, float* x_gradient,
                           float* scratch) const {
  if (!takes_images_) {
    AddUpGradients(x, y_gradient, scratch, weights_gradient);
    WinogradWeights(in_.channels, out_.channels, weights, true, scratch);
    Convolve(out_, y_gradient, scratch, in_, x_gradient, scratch);
    return;
  }
  float* const more = scratch + weights_floats_;
  dnnl::memory arranged = Wrap(gradient_desc_.diff_weights_desc(), scratch);
  dnnl::memory plain = Wrap(plain_weights_, weights_gradient);
  gradient_.execute(
      stream,
      {{DNNL_ARG_SRC, Wrap(gradient_desc_.src_desc(), x)},
       {DNNL_ARG_DIFF_DST, Wrap(gradient_desc_.diff_dst_desc(), y_gradient)},
       {DNNL_ARG_DIFF_WEIGHTS, arranged},
       {DNNL_ARG_SCRATCHPAD, Wrap(gradient_desc_.scratchpad_desc(), more)}});
  dnnl::reorder(arranged, plain).execute(stream, arranged, plain);
}

}  // namespace fedmrn::train
