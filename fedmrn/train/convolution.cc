#include "fedmrn/train/convolution.h"

#include <algorithm>

namespace fedmrn {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

constexpr auto kFloat = dnnl::memory::data_type::f32;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;
const dnnl::memory::dims kOnes = {1, 1};  // strides and padding

// The block of a layout that our own kernels know, or 0.
uint32_t BlockOf(const Desc& desc) {
  const auto dims = desc.dims();
  if (desc == Desc(dims, kFloat, Tag::nhwc)) {
    return static_cast<uint32_t>(dims[1]);
  }
  if (desc == Desc(dims, kFloat, Tag::nChw8c)) return 8;
  if (desc == Desc(dims, kFloat, Tag::nChw16c)) return 16;
  return 0;
}

size_t Floats(const Desc& desc) {
  return (desc.get_size() + sizeof(float) - 1) / sizeof(float);
}

}  // namespace

Convolution::Convolution(const dnnl::engine& engine, const Shape& s, bool first)
    : engine_(engine), first_(first) {
  const dnnl::memory::dims x_dims = {s.images, s.in_channels, s.height,
                                     s.width},
                           y_dims = {s.images, s.out_channels, s.height,
                                     s.width},
                           w_dims = {s.out_channels, s.in_channels, 3, 3};
  const Desc w(w_dims, kFloat, Tag::any);
  plain_weights_ = Desc(w_dims, kFloat, Tag::oihw);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);

  const auto describe = [&](Tag tag) {
    forward_desc_ = dnnl::convolution_forward::primitive_desc(
        {dnnl::prop_kind::forward_training, kDirect, Desc(x_dims, kFloat, tag),
         w, Desc(y_dims, kFloat, tag), kOnes, kOnes, kOnes},
        attributes, engine);
  };
  // With one or three channels oneDNN's own choice has a backward pass that is
  // five times slower.
  describe(first ? Tag::nhwc : Tag::any);
  if (!first && (BlockOf(forward_desc_.src_desc()) == 0 ||
                 BlockOf(forward_desc_.dst_desc()) == 0)) {
    describe(Tag::nhwc);
  }
  const Desc x = forward_desc_.src_desc(), y = forward_desc_.dst_desc();
  in_ = {s.images, s.in_channels, s.height, s.width, BlockOf(x)};
  out_ = {s.images, s.out_channels, s.height, s.width, BlockOf(y)};

  weights_desc_ = dnnl::convolution_backward_weights::primitive_desc(
      {kDirect, x, w, y, kOnes, kOnes, kOnes}, attributes, engine,
      forward_desc_);
  forward_ = dnnl::convolution_forward(forward_desc_);
  weights_ = dnnl::convolution_backward_weights(weights_desc_);
  size_t primitive_floats = std::max(Floats(forward_desc_.scratchpad_desc()),
                                     Floats(weights_desc_.scratchpad_desc()));
  weights_floats_ = std::max(Floats(forward_desc_.weights_desc()),
                             Floats(weights_desc_.diff_weights_desc()));
  if (!first) {
    data_desc_ = dnnl::convolution_backward_data::primitive_desc(
        {kDirect, x, w, y, kOnes, kOnes, kOnes}, attributes, engine,
        forward_desc_);
    data_ = dnnl::convolution_backward_data(data_desc_);
    primitive_floats =
        std::max(primitive_floats, Floats(data_desc_.scratchpad_desc()));
    weights_floats_ =
        std::max(weights_floats_, Floats(data_desc_.weights_desc()));
  }
  weights_floats_ = (weights_floats_ + 15) / 16 * 16;  // keeps the alignment
  scratch_floats_ = weights_floats_ + primitive_floats;
}

dnnl::memory Convolution::Wrap(const Desc& desc, const void* data) const {
  // oneDNN has no read-only memory; inputs are not written to.
  return {desc, engine_, const_cast<void*>(data)};
}

dnnl::memory Convolution::Arranged(const dnnl::stream& stream, const Desc& desc,
                                   const float* weights, float* buffer) const {
  dnnl::memory from = Wrap(plain_weights_, weights);
  if (desc == plain_weights_) return from;
  dnnl::memory to = Wrap(desc, buffer);
  dnnl::reorder(from, to).execute(stream, from, to);
  return to;
}

void Convolution::Forward(const dnnl::stream& stream, const float* x,
                          const float* weights, float* y,
                          float* scratch) const {
  forward_.execute(
      stream, {{DNNL_ARG_SRC, Wrap(forward_desc_.src_desc(), x)},
               {DNNL_ARG_WEIGHTS, Arranged(stream, forward_desc_.weights_desc(),
                                           weights, scratch)},
               {DNNL_ARG_DST, Wrap(forward_desc_.dst_desc(), y)},
               {DNNL_ARG_SCRATCHPAD, Wrap(forward_desc_.scratchpad_desc(),
                                          scratch + weights_floats_)}});
}

void Convolution::Backward(const dnnl::stream& stream, const float* x,
                           const float* weights, const float* y_gradient,
                           float* weights_gradient, float* x_gradient,
                           float* scratch) const {
  const dnnl::memory dy = Wrap(forward_desc_.dst_desc(), y_gradient);
  float* const more = scratch + weights_floats_;

  const Desc& arranged = weights_desc_.diff_weights_desc();
  const bool plain = arranged == plain_weights_;
  dnnl::memory dw = Wrap(arranged, plain ? weights_gradient : scratch);
  weights_.execute(stream, {{DNNL_ARG_SRC, Wrap(forward_desc_.src_desc(), x)},
                            {DNNL_ARG_DIFF_DST, dy},
                            {DNNL_ARG_DIFF_WEIGHTS, dw},
                            {DNNL_ARG_SCRATCHPAD,
                             Wrap(weights_desc_.scratchpad_desc(), more)}});
  if (!plain) {
    dnnl::memory to = Wrap(plain_weights_, weights_gradient);
    dnnl::reorder(dw, to).execute(stream, dw, to);
  }
  if (first_) return;
  data_.execute(
      stream,
      {{DNNL_ARG_DIFF_DST, dy},
       {DNNL_ARG_WEIGHTS,
        Arranged(stream, data_desc_.weights_desc(), weights, scratch)},
       {DNNL_ARG_DIFF_SRC, Wrap(forward_desc_.src_desc(), x_gradient)},
       {DNNL_ARG_SCRATCHPAD, Wrap(data_desc_.scratchpad_desc(), more)}});
}

}  // namespace fedmrn
