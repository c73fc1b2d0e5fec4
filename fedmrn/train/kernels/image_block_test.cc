#include "fedmrn/train/kernels/image_block.h"

#include <cmath>
#include <vector>

#include "fedmrn/core/test_util.h"
#include "fedmrn/train/kernels/winograd.h"
#include "fedmrn/train/test_util.h"

namespace fedmrn::train {
namespace {

struct ImageCase {
  uint32_t images, channels, out_channels, height, width;
};

// Those of the data sets, and odd ones: no pixel has all its neighbours, more
// channels than a panel has.
constexpr ImageCase kShapes[] = {{3, 1, 32, 28, 28}, {2, 3, 32, 32, 32},
                                 {5, 2, 16, 7, 5},   {1, 1, 48, 2, 2},
                                 {2, 4, 16, 3, 9},   {3, 17, 32, 4, 6}};

// Everything that a step computes of a block.
struct Results {
  std::vector<float> mean, variance, y, dgamma, dbeta, dw;

  explicit Results(const ImageCase& s, const Activation& out)
      : mean(s.out_channels),
        variance(s.out_channels),
        y(out.size()),
        dgamma(s.out_channels),
        dbeta(s.out_channels),
        dw(size_t{9} * s.channels * s.out_channels) {}
};

struct Inputs {
  std::vector<float> x, w, gamma, beta, dy;

  Inputs(const ImageCase& s, const Activation& in, const Activation& out)
      : x(Normal(1, in.size())),
        w(Normal(2, size_t{9} * s.channels * s.out_channels)),
        gamma(Normal(3, s.out_channels)),
        beta(Normal(4, s.out_channels)),
        dy(Normal(5, out.size())) {
    for (float& v : x) v += 0.5f;  // no mean of 0
  }
};

// scale, shift and inv_std as a norm has them; without one (group 0), 1 and 0.
struct Norms {
  std::vector<float> inv_std, scale, shift;

  Norms(const Inputs& in, const Results& r, uint32_t group)
      : inv_std(r.mean.size()), scale(inv_std), shift(inv_std) {
    for (size_t c = 0; c < scale.size(); ++c) {
      inv_std[c] = group == 0 ? 0 : 1 / std::sqrt(r.variance[c] + 1e-5f);
      scale[c] = group == 0 ? 1 : in.gamma[c] * inv_std[c];
      shift[c] = group == 0 ? 0 : in.beta[c] - r.mean[c] * scale[c];
    }
  }
};

Results ByDefinition(const ImageCase& s, const Inputs& in,
                     const Activation& images, const Activation& out,
                     uint32_t group) {
  Results r(s, out);
  const Activation convolved{s.images, s.out_channels, s.height, s.width,
                             s.out_channels};
  std::vector<float> x(convolved.size()), picked(out.size());
  ref::Convolve(images, in.x.data(), in.w.data(), convolved, x.data());
  ref::ChannelMoments(convolved, x.data(), r.mean.data(), r.variance.data());
  const Norms norm(in, r, group);
  ref::NormReluPool(convolved, x.data(), norm.scale.data(), norm.shift.data(),
                    out, r.y.data(), picked.data());
  ref::NormReluPoolGradient(
      convolved, x.data(), out, r.y.data(), picked.data(), in.dy.data(),
      {r.mean, norm.inv_std, norm.scale, r.dgamma, r.dbeta, group});
  ref::ConvolveWeightsGradient(images, in.x.data(), convolved, x.data(),
                               r.dw.data());
  return r;
}

Results ByKernels(const ImageCase& s, const Inputs& in,
                  const Activation& images, const Activation& out,
                  uint32_t group, uint32_t threads) {
  Results r(s, out);
  // Not a number where nothing was written.
  std::vector<float> picked(out.size(), NAN);
  std::vector<double> dw(r.dw.size());
  const PatchSums patches = SumPatches(images, in.x.data(), threads);
  ConvolutionMoments(patches, in.w, r.mean, r.variance);
  const Norms norm(in, r, group);
  ConvolveNormReluPool(images, in.x.data(), in.w, norm.scale.data(),
                       norm.shift.data(), out, r.y.data(), picked.data(),
                       threads);
  ConvolveNormReluPoolGradient(
      images, in.x.data(), in.w, out, picked.data(), in.dy.data(), patches,
      {r.mean, norm.inv_std, norm.scale, r.dgamma, r.dbeta, group}, dw,
      threads);
  r.dw.assign(dw.begin(), dw.end());
  return r;
}

TEST(ImageBlock, EqualsDefinitionOnEveryTarget) {
  for (const ImageCase& s : kShapes) {
    for (const bool pool : {false, true}) {
      for (const uint32_t group : {1u, 4u, 0u}) {
        SCOPED_TRACE(testing::Message()
                     << s.images << " images, " << s.channels << " to "
                     << s.out_channels << ", " << s.height << "x" << s.width
                     << " pool " << pool << " group " << group);
        const Activation images{s.images, s.channels, s.height, s.width,
                                s.channels};
        const Activation out{s.images, s.out_channels,
                             pool ? s.height / 2 : s.height,
                             pool ? s.width / 2 : s.width, 16};
        const Inputs in(s, images, out);
        const Results plain = ByDefinition(s, in, images, out, group);
        ForEachTarget([&] {
          for (const uint32_t threads : {1u, 2u}) {
            const Results r = ByKernels(s, in, images, out, group, threads);
            ExpectClose(r.mean, plain.mean, 1e-5);
            ExpectClose(r.variance, plain.variance, 1e-5);
            ExpectClose(r.y, plain.y, 3e-5);
            ExpectClose(r.dgamma, plain.dgamma, 1e-4);
            ExpectClose(r.dbeta, plain.dbeta, 1e-5);
            ExpectClose(r.dw, plain.dw, 1e-4);
          }
        });
      }
    }
  }
}

// Bright images and kernels that see no brightness, so that sums of squares
// nearly cancel: the variance is still right to a thousandth.
TEST(ImageBlock, BrightImagesAndKernelsOfNoSum) {
  const ImageCase s{3, 1, 16, 28, 28};
  const Activation images{s.images, 1, s.height, s.width, 1};
  const Activation out{s.images, s.out_channels, 28, 28, 16};
  Inputs in(s, images, out);
  for (float& v : in.x) v = 20 + 0.1f * v;
  for (size_t c = 0; c < s.out_channels; ++c) {
    const std::span w = std::span(in.w).subspan(9 * c, 9);
    float sum = 0;
    for (const float v : w) sum += v;
    for (float& v : w) v -= sum / 9;
  }
  const Results plain = ByDefinition(s, in, images, out, 1);
  ForEachTarget([&] {
    const Results r = ByKernels(s, in, images, out, 1, 1);
    ExpectClose(r.variance, plain.variance, 1e-3);
  });
}

// The first of equals, as PyTorch does it, and none where ReLU is shut.
TEST(ImageBlock, PicksTheFirstOfEquals) {
  const Activation images{1, 1, 2, 2, 1}, out{1, 16, 1, 1, 16};
  const std::vector<float> x(4, 1.0f), one(16, 1.0f), zero(16), minus(16, -9.f);
  const std::vector<float> w(size_t{9} * 16, 1.0f);
  std::vector<float> y(16), picked(16);
  ForEachTarget([&] {
    ConvolveNormReluPool(images, x.data(), w, one.data(), zero.data(), out,
                         y.data(), picked.data());
    EXPECT_EQ(y, std::vector<float>(16, 4.0f));
    EXPECT_EQ(picked, std::vector<float>(16, 0.0f));
    ConvolveNormReluPool(images, x.data(), w, one.data(), minus.data(), out,
                         y.data(), picked.data());
    EXPECT_EQ(y, std::vector<float>(16, 0.0f));
    EXPECT_EQ(picked, std::vector<float>(16, kShut));
  });
}

// With any length of vectors, where products are added without being rounded.
TEST(ImageBlock, TheSameBitsWithAvx2AndAvx512) {
  const ImageCase s{3, 3, 32, 9, 11};
  const Activation images{s.images, s.channels, s.height, s.width, s.channels};
  const Activation out{s.images, s.out_channels, 4, 5, 16};
  const Inputs in(s, images, out);
  std::vector<Results> all;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (target > HWY_AVX2) continue;  // the better ones are smaller
    hwy::SetSupportedTargetsForTest(target);
    all.push_back(ByKernels(s, in, images, out, 1, 1));
    hwy::SetSupportedTargetsForTest(0);
    ExpectSameBits(all.back().mean, all[0].mean);
    ExpectSameBits(all.back().variance, all[0].variance);
    ExpectSameBits(all.back().y, all[0].y);
    ExpectSameBits(all.back().dw, all[0].dw);
  }
  if (all.size() < 2) GTEST_SKIP() << "one of them at most is here";
}

}  // namespace
}  // namespace fedmrn::train
