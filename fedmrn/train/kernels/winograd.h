// 3x3 convolutions with padding 1 by Winograd's algorithm F(4x4, 3x3) (Lavin
// and Gray, "Fast Algorithms for Convolutional Neural Networks"): a 4x4 tile of
// the result costs 36 products per pair of channels instead of 144. With
//
//   Y = A^T [(G g G^T) * (B^T d B)] A      (* is element by element)
//
// for one tile d (6x6), one kernel g and their result Y, the sum over input
// channels is, for each of the 36 elements, a matrix product over tiles and
// channels. The gradients are the same formula transposed.
//
// Plain loops over the definition of a convolution stand in fedmrn::ref.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fedmrn/train/kernels/norm_pool.h"
#include "fedmrn/train/kernels/panel_product.h"

namespace fedmrn::train {

// Channels come in panels of 16: activations have block 16.
inline constexpr uint32_t kWinogradPanel = kPanel;

// Floats of the transformed weights.
size_t WinogradWeightFloats(uint32_t in_channels, uint32_t out_channels);
// Floats of scratch memory for either function below.
size_t WinogradScratchFloats(uint32_t in_channels, uint32_t out_channels);

// `weights` are OIHW. For the forward pass, or for the backward pass, which is
// a convolution from the output's channels to the input's, kernels turned
// around.
void WinogradWeights(uint32_t in_channels, uint32_t out_channels,
                     const float* weights, bool backward, float* transformed);

// y = x convolved with the weights.
void WinogradConvolve(const Activation& in, const float* x,
                      const float* transformed, const Activation& out, float* y,
                      float* scratch);

// The gradient of the weights, in OIHW. `transformed` is scratch as well.
void WinogradWeightsGradient(const Activation& in, const float* x,
                             const Activation& out, const float* y_gradient,
                             float* transformed, float* weights_gradient,
                             float* scratch);

namespace ref {

void Convolve(const Activation& in, const float* x, const float* weights,
              const Activation& out, float* y);
void ConvolveInputGradient(const Activation& in, float* x_gradient,
                           const float* weights, const Activation& out,
                           const float* y_gradient);
void ConvolveWeightsGradient(const Activation& in, const float* x,
                             const Activation& out, const float* y_gradient,
                             float* weights_gradient);

}  // namespace ref
}  // namespace fedmrn::train
