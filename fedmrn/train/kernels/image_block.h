// The first block of a network: a 3x3 convolution (padding 1, no bias) of
// images, then norm, ReLU and, in some networks, pooling, as in norm_pool.h.
//
// Images have few channels, so the convolution is cheap, and its result the
// largest thing that a step would write and read. Here it is never stored: each
// value is computed where it is used. What a norm needs to know of all of them
// follows from sums over the images' 3x3 patches p, for weights w:
//
//   sum of w.p = w . (sum of p),   sum of (w.p)^2 = w^T (sum of p p^T) w
//
// and so does what mean and variance pass on to the gradient of w. The results
// are those of ref::Convolve (winograd.h) followed by norm_pool.h's, up to
// float rounding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fedmrn/train/kernels/norm_pool.h"

namespace fedmrn::train {

// Sums over all patches of some images. A patch has 9 values a channel, in the
// order of a kernel's weights, and a last one that is always 1: the last row
// holds sums of single values, its end the number of patches.
class PatchSums {
 public:
  explicit PatchSums(uint32_t channels = 0)
      : size_(9 * channels + 1), products_(size_ * size_) {}

  size_t size() const { return size_; }
  double& operator()(size_t i, size_t j) { return products_[i * size_ + j]; }
  double operator()(size_t i, size_t j) const {
    return products_[i * size_ + j];
  }
  PatchSums& operator+=(const PatchSums& other);

 private:
  size_t size_;
  std::vector<double> products_;
};

// `images` are NHWC here and below (block = channels, of any number); they are
// shared among `threads`.
PatchSums SumPatches(const Activation& images, const float* x,
                     uint32_t threads = 1);

// Mean and (biased) variance of each channel of the convolution's result.
// `weights` are OIHW.
void ConvolutionMoments(const PatchSums& patches,
                        std::span<const float> weights, std::span<float> mean,
                        std::span<float> variance);

// Where ReLU was shut, in `picked`.
inline constexpr float kShut = 4;

// y = relu(scale * convolution + shift), then the largest of each 2x2 square if
// `out` is smaller than the images. `picked` receives which of the four it was,
// or kShut; null in evaluation.
void ConvolveNormReluPool(const Activation& images, const float* x,
                          std::span<const float> weights, const float* scale,
                          const float* shift, const Activation& out, float* y,
                          float* picked, uint32_t threads = 1);

// Adds the gradient of the weights to weights_gradient.
void ConvolveNormReluPoolGradient(
    const Activation& images, const float* x, std::span<const float> weights,
    const Activation& out, const float* picked, const float* y_gradient,
    const PatchSums& patches, const NormState& state,
    std::span<double> weights_gradient, uint32_t threads = 1);

}  // namespace fedmrn::train
