#include "fedmrn/train/kernels/winograd.h"

#include <vector>

#include "fedmrn/core/test_util.h"
#include "fedmrn/train/test_util.h"

namespace fedmrn::train {
namespace {

struct Shape {
  uint32_t images, in_channels, out_channels, height, width;
};

// Sizes of the networks' layers, with fewer channels; every remainder of the
// 4x4 tiles; numbers of tiles below, at and above one batch of them.
std::vector<Shape> Shapes() {
  std::vector<Shape> shapes = {{2, 32, 64, 14, 14}, {3, 64, 32, 7, 7},
                               {5, 16, 32, 3, 3},   {1, 32, 32, 16, 16},
                               {96, 16, 16, 3, 4},  {100, 16, 16, 3, 4},
                               {1, 16, 16, 1, 1}};
  for (uint32_t size = 2; size <= 9; ++size) {
    shapes.push_back({1, 16, 48, size, 11 - size});
  }
  return shapes;
}

TEST(Winograd, EqualsDefinitionOnEveryTarget) {
  for (const Shape& s : Shapes()) {
    SCOPED_TRACE(testing::Message()
                 << s.images << " images, " << s.in_channels << " to "
                 << s.out_channels << ", " << s.height << "x" << s.width);
    const Activation in{s.images, s.in_channels, s.height, s.width,
                        kWinogradPanel};
    const Activation out{s.images, s.out_channels, s.height, s.width,
                         kWinogradPanel};
    const size_t weights = size_t{9} * s.in_channels * s.out_channels;
    const std::vector<float> x = Normal(1, in.size()), w = Normal(2, weights),
                             dy = Normal(3, out.size());
    std::vector<float> y(out.size()), dx(in.size()), dw(weights);
    ref::Convolve(in, x.data(), w.data(), out, y.data());
    ref::ConvolveInputGradient(in, dx.data(), w.data(), out, dy.data());
    ref::ConvolveWeightsGradient(in, x.data(), out, dy.data(), dw.data());

    ForEachTarget([&] {
      // Not a number where nothing was written.
      std::vector<float> ours_y(out.size(), NAN), ours_dx(in.size(), NAN),
          ours_dw(weights, NAN);
      std::vector<float> transformed(
          WinogradWeightFloats(s.in_channels, s.out_channels), NAN);
      std::vector<float> scratch(
          WinogradScratchFloats(s.in_channels, s.out_channels), NAN);
      WinogradWeights(s.in_channels, s.out_channels, w.data(), false,
                      transformed.data());
      WinogradConvolve(in, x.data(), transformed.data(), out, ours_y.data(),
                       scratch.data());
      ExpectClose(ours_y, y, 3e-5);
      WinogradWeights(s.in_channels, s.out_channels, w.data(), true,
                      transformed.data());
      WinogradConvolve(out, dy.data(), transformed.data(), in, ours_dx.data(),
                       scratch.data());
      ExpectClose(ours_dx, dx, 3e-5);
      WinogradWeightsGradient(in, x.data(), out, dy.data(), transformed.data(),
                              ours_dw.data(), scratch.data());
      ExpectClose(ours_dw, dw, 3e-5);
    });
  }
}

}  // namespace
}  // namespace fedmrn::train
