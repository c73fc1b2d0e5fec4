// What stands between two convolutions, in as few passes over memory as there
// can be: batch or group norm, ReLU and, in some blocks, 2x2 max pooling. Done
// one after the other these take as long as the convolutions themselves.
//
// Training:  ChannelMoments, then NormReluPool; back: NormReluPoolGradient.
// Evaluation: NormReluPool with the running statistics.
// Plain twins in fedmrn::ref define the results, up to float rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fedmrn::train {

// How a batch of images lies in memory: `block` channels side by side, then the
// pixels, then the next block. block = channels is the usual NHWC.
struct Activation {
  uint32_t images = 0;
  uint32_t channels = 0;  // a multiple of 16, but for images
  uint32_t height = 0;
  uint32_t width = 0;
  uint32_t block = 0;  // a multiple of 16 that divides channels, or all

  size_t pixels() const { return size_t{height} * width; }
  size_t image_size() const { return channels * pixels(); }
  size_t size() const { return images * image_size(); }
  // Pixel 0 is there; the next pixel is `block` further.
  size_t Offset(size_t image, size_t channel) const {
    return image * image_size() + channel / block * block * pixels() +
           channel % block;
  }
};

// Mean and (biased) variance of each channel over images and pixels.
void ChannelMoments(const Activation& in, const float* x, float* mean,
                    float* variance);

// out = relu(scale * x + shift), then the largest of each 2x2 square if `out`
// is smaller than `in` (an odd last row or column is left out). `picked`
// receives the x behind each pooled value; null in evaluation and without
// pooling.
void NormReluPool(const Activation& in, const float* x, const float* scale,
                  const float* shift, const Activation& out, float* y,
                  float* picked);

// The norm of one block as the backward pass needs it.
struct NormState {
  std::span<const float> mean;      // of these images
  std::span<const float> inv_std;   // 1 / sqrt(variance + epsilon)
  std::span<const float> scale;     // gamma * inv_std
  std::span<float> gamma_gradient;  // results
  std::span<float> beta_gradient;
  // So many channels side by side have one mean and one variance, taken over
  // all of them: 1 for batch norm, more for group norm. 0: neither follows from
  // x.
  uint32_t group = 1;
};

// The gradient of x is  [picked and y > 0] * scale * gradient + a + b * x,
// where a and b carry what the images' mean and variance pass on.
struct NormCoefficients {
  std::vector<float> a, b;
};

// From the sums of the gradient, and of the gradient times (x - mean), where it
// goes. Fills in the state's results.
NormCoefficients Coefficients(const Activation& in, std::span<const double> sum,
                              std::span<const double> sum_centred,
                              const NormState& state);

// From the gradient of y to that of x, which overwrites x.
void NormReluPoolGradient(const Activation& in, float* x, const Activation& out,
                          const float* y, const float* picked,
                          const float* y_gradient, const NormState& state);

namespace ref {

void ChannelMoments(const Activation& in, const float* x, float* mean,
                    float* variance);
void NormReluPool(const Activation& in, const float* x, const float* scale,
                  const float* shift, const Activation& out, float* y,
                  float* picked);
void NormReluPoolGradient(const Activation& in, float* x, const Activation& out,
                          const float* y, const float* picked,
                          const float* y_gradient, const NormState& state);

}  // namespace ref
}  // namespace fedmrn::train
