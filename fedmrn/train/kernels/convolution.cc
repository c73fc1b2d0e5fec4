#include "fedmrn/train/kernels/convolution.h"

#include <vector>

#include "fedmrn/train/kernels/compute_threads.h"
#include "fedmrn/train/kernels/winograd.h"

namespace fedmrn::train {

Convolution::Convolution(const Shape& s, uint32_t threads)
    : threads_(PartsOf(s.images, threads)),
      in_{s.images, s.in_channels, s.height, s.width, kWinogradPanel},
      out_{s.images, s.out_channels, s.height, s.width, kWinogradPanel},
      weights_floats_(WinogradWeightFloats(s.in_channels, s.out_channels)),
      part_floats_(weights_floats_ +
                   WinogradScratchFloats(s.in_channels, s.out_channels)),
      scratch_floats_(threads_ * part_floats_) {}

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

void Convolution::Forward(const float* x, const float* weights, float* y,
                          float* scratch) const {
  WinogradWeights(in_.channels, out_.channels, weights, false, scratch);
  Convolve(in_, x, scratch, out_, y, scratch);
}

void Convolution::Backward(const float* x, const float* weights,
                           const float* y_gradient, float* weights_gradient,
                           float* x_gradient, float* scratch) const {
  AddUpGradients(x, y_gradient, scratch, weights_gradient);
  WinogradWeights(in_.channels, out_.channels, weights, true, scratch);
  Convolve(out_, y_gradient, scratch, in_, x_gradient, scratch);
}

}  // namespace fedmrn::train
