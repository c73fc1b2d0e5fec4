#include "fedmrn/core/mask.h"

#include <algorithm>
#include <array>

#include "fedmrn/base/bytes.h"
#include "fedmrn/core/test_util.h"

namespace fedmrn {
namespace {

std::vector<Masking> AllMaskings() {
  std::vector<Masking> all;
  for (MaskKind mask : kMaskKinds) {
    for (NoiseKind noise : kNoiseKinds) {
      for (bool stochastic : {true, false}) {
        for (bool progressive : {true, false}) {
          all.push_back(
              {mask, stochastic, progressive, {noise, 0.01f, 11}, 22});
        }
      }
    }
  }
  return all;
}

// Updates of every relation to the noise: inside, outside, zero, wrong sign.
std::vector<float> SomeUpdates(size_t n) {
  std::vector<float> u = Normal(5, n, 0.01f);
  for (size_t i = 0; i < n; i += 7) u[i] = 0;
  for (size_t i = 3; i < n; i += 11) u[i] = -0.0f;
  return u;
}

TEST(MaskedStep, VectorsEqualDefinition) {
  constexpr size_t kMost = 5003;
  const std::vector<float> w = Normal(1, kMost), g = Normal(2, kMost),
                           u0 = SomeUpdates(kMost);
  for (const Masking& masking : AllMaskings()) {
    for (bool with_gradient : {true, false}) {
      const LocalStep at{3, 10, 0.001f};
      std::vector<float> u_ref = u0, e_ref(kMost);
      const std::span<const float> gradient =
          with_gradient ? std::span(g) : std::span<const float>();
      ref::MaskedStep(masking, at, w, gradient, u_ref, e_ref);
      ForEachTarget([&] {
        for (size_t n : TestLengths()) {
          // Misaligned by one float.
          std::vector<float> u(n + 1), e(n + 1), w1(n + 1), g1(n + 1);
          std::copy_n(u0.begin(), n, u.begin() + 1);
          std::copy_n(w.begin(), n, w1.begin() + 1);
          std::copy_n(g.begin(), n, g1.begin() + 1);
          MaskedStep(masking, at, std::span(w1).subspan(1),
                     with_gradient ? std::span<const float>(g1).subspan(1)
                                   : std::span<const float>(),
                     std::span(u).subspan(1), std::span(e).subspan(1));
          ExpectSameBits(std::span(u).subspan(1), std::span(u_ref).first(n));
          ExpectSameBits(std::span(e).subspan(1), std::span(e_ref).first(n));
          if (testing::Test::HasFatalFailure()) return;
        }
      });
    }
  }
}

TEST(FinalMask, VectorsEqualDefinition) {
  constexpr size_t kMost = 5003;
  const std::vector<float> u0 = SomeUpdates(kMost);
  for (const Masking& masking : AllMaskings()) {
    Bytes expected(BytesForBits(kMost));
    ref::FinalMask(masking, u0, expected);
    ForEachTarget([&] {
      for (size_t n : TestLengths()) {
        std::vector<float> u(n + 1);
        std::copy_n(u0.begin(), n, u.begin() + 1);
        Bytes bits(BytesForBits(n) + 1, 0xAA);
        FinalMask(masking, std::span(u).subspan(1),
                  std::span(bits).first(BytesForBits(n)));
        for (size_t i = 0; i < n; ++i) {
          ASSERT_EQ(TestBit(bits.data(), i), TestBit(expected.data(), i))
              << n << " " << i;
        }
        for (size_t i = n; i < 8 * BytesForBits(n); ++i) {
          ASSERT_FALSE(TestBit(bits.data(), i)) << "padding";
        }
        ASSERT_EQ(bits.back(), 0xAA) << "wrote beyond the end";
      }
    });
  }
}

float Clip(MaskKind mask, float u, float n) {
  const float low =
      mask == MaskKind::kBinary ? std::min(0.0f, n) : -std::fabs(n);
  const float high =
      mask == MaskKind::kBinary ? std::max(0.0f, n) : std::fabs(n);
  return std::clamp(u, low, high);
}

// E[n*M(u, n)] = clip(u): Eqs. 6 and 7 and the claim below them. Noise and
// dither follow from one seed, so that what a parameter's masks are off by is
// averaged over seeds; over R of them its mean's standard error is at most
// magnitude/sqrt(R), half of that for binary masks, and the band is five.
TEST(FinalMask, IsUnbiased) {
  constexpr size_t kParams = 4096;
  constexpr int kSeeds = 4000;
  for (MaskKind mask : kMaskKinds) {
    for (NoiseKind kind : kNoiseKinds) {
      Masking masking{mask, true, false, {kind, 0.01f, 0}, 0};
      const std::vector<float> u = Normal(77, kParams, 0.008f);
      std::vector<float> n(kParams);
      std::vector<double> off(kParams);
      Bytes bits(kParams / 8);
      for (int r = 0; r < kSeeds; ++r) {
        masking.noise.seed = 1000 + r;
        NoiseValues(masking.noise, 0, n);
        FinalMask(masking, u, bits);
        for (size_t i = 0; i < kParams; ++i) {
          const float other = mask == MaskKind::kBinary ? 0 : -n[i];
          off[i] +=
              (TestBit(bits.data(), i) ? n[i] : other) - Clip(mask, u[i], n[i]);
        }
      }
      const double error =
          0.01 / std::sqrt(kSeeds) * (mask == MaskKind::kBinary ? 0.5 : 1);
      for (size_t i = 0; i < kParams; ++i) {
        ASSERT_NEAR(off[i] / kSeeds, 0, 5 * error) << i << " u " << u[i];
      }
    }
  }
}

// The masked part of a local step is unbiased too, at any progress: given that
// a parameter is masked, it is n with probability clip(u/n).
TEST(MaskedStep, IsUnbiasedAndMasksTheRightShare) {
  constexpr size_t kParams = 2048;
  constexpr int kDraws = 4000;
  for (MaskKind mask : kMaskKinds) {
    for (uint32_t step : {1u, 5u, 10u}) {
      Masking masking{mask, true, true, {NoiseKind::kUniform, 0.01f, 9}, 0};
      const std::vector<float> w(kParams, 0.0f);
      std::vector<float> n(kParams), u = Normal(77, kParams, 0.008f),
                                     effective(kParams);
      NoiseValues(masking.noise, 0, n);
      std::vector<double> sum(kParams);
      int64_t masked = 0, unclipped = 0;
      for (int r = 0; r < kDraws; ++r) {
        masking.draw_seed = r;
        MaskedStep(masking, {step, 10, 0}, w, {}, u, effective);
        for (size_t i = 0; i < kParams; ++i) {
          sum[i] += effective[i];
          // Where u lies strictly inside, masked and clipped values differ.
          const float inside = Clip(mask, u[i], n[i]);
          if (inside == u[i] && u[i] != 0) {
            ++unclipped;
            masked += effective[i] != u[i];
          }
        }
      }
      for (size_t i = 0; i < kParams; ++i) {
        const double error = std::fabs(n[i]) / std::sqrt(kDraws);
        ASSERT_NEAR(sum[i] / kDraws, Clip(mask, u[i], n[i]), 5 * error + 1e-7);
      }
      ASSERT_GT(unclipped, 100000);
      EXPECT_NEAR(static_cast<double>(masked) / unclipped, step / 10.0, 0.003);
    }
  }
}

// DM: m = 1 only where the update and the noise share their sign.
TEST(FinalMask, DeterministicIsTheSignRule) {
  const std::vector<float> u = SomeUpdates(3000);
  std::vector<float> n(u.size());
  for (MaskKind mask : kMaskKinds) {
    const Masking masking{mask, false, true, {NoiseKind::kGaussian, 1, 4}, 0};
    NoiseValues(masking.noise, 0, n);
    Bytes bits(BytesForBits(u.size()));
    FinalMask(masking, u, bits);
    for (size_t i = 0; i < u.size(); ++i) {
      ASSERT_EQ(TestBit(bits.data(), i), u[i] * n[i] > 0) << i;
    }
  }
}

// PM at tau = S: every parameter is masked noise, and nothing else.
TEST(MaskedStep, LastStepIsPureMaskedNoise) {
  const size_t kParams = 3001;
  const std::vector<float> w(kParams, 0.0f);
  for (const Masking& masking : AllMaskings()) {
    std::vector<float> u = SomeUpdates(kParams), n(kParams), e(kParams);
    NoiseValues(masking.noise, 0, n);
    MaskedStep(masking, {10, 10, 0}, w, {}, u, e);
    for (size_t i = 0; i < kParams; ++i) {
      const float other = masking.kind == MaskKind::kBinary ? 0.0f : -n[i];
      ASSERT_TRUE(e[i] == n[i] || e[i] == other) << i;
    }
  }
}

// Without PM every step is; with it, early steps are mostly clip(u).
TEST(MaskedStep, ProgressiveStartsWithTheClippedUpdate) {
  const size_t kParams = 3001;
  const std::vector<float> w(kParams, 0.0f);
  Masking masking;
  std::vector<float> u = SomeUpdates(kParams), n(kParams), e(kParams);
  NoiseValues(masking.noise, 0, n);
  MaskedStep(masking, {1, 1000000, 0}, w, {}, u, e);
  size_t clipped = 0;
  for (size_t i = 0; i < kParams; ++i) {
    clipped += e[i] == Clip(MaskKind::kBinary, u[i], n[i]);
  }
  EXPECT_GE(clipped, kParams - 2);
}

// Straight through (Eq. 9): u takes the whole gradient, even where clipped, and
// is itself never clipped.
TEST(MaskedStep, GradientPassesStraightThrough) {
  const size_t kParams = 1500;
  const std::vector<float> w = Normal(1, kParams), g = Normal(2, kParams);
  for (const Masking& masking : AllMaskings()) {
    std::vector<float> u(kParams), e(kParams), expected(kParams);
    for (uint32_t step = 1; step <= 5; ++step) {
      MaskedStep(masking, {step, 5, 0.1f}, w,
                 step == 1 ? std::span<const float>() : std::span(g), u, e);
      for (size_t i = 0; i < kParams && step > 1; ++i) {
        const float change = 0.1f * g[i];
        expected[i] -= change;
      }
      ExpectSameBits(u, expected);
    }
    EXPECT_GT(std::fabs(u[0]), 0.0f);
  }
}

// n * m_signed = 2*n*m - n (Section 3.1): with twice the noise, a binary mask
// says what a signed one does, shifted by n.
TEST(FinalMask, SignedEqualsTwiceBinaryMinusNoise) {
  const size_t kParams = 2000;
  const std::vector<float> u = Normal(8, kParams, 0.004f);
  const Masking masking{
      MaskKind::kSigned, true, true, {NoiseKind::kUniform, 0.01f, 2}, 3};
  std::vector<float> n(kParams);
  NoiseValues(masking.noise, 0, n);
  Bytes bits(BytesForBits(kParams));
  FinalMask(masking, u, bits);
  for (size_t i = 0; i < kParams; ++i) {
    const float m = TestBit(bits.data(), i);
    const float m_signed = TestBit(bits.data(), i) ? 1 : -1;
    ASSERT_EQ(n[i] * m_signed, 2 * n[i] * m - n[i]);
  }
  // And the probabilities agree: P(m_s = 1) of (u, n) is P(m = 1) of
  // (u + n, 2n).
  int ones_signed = 0, ones_binary = 0;
  std::vector<float> shifted(kParams);
  Masking binary = masking;
  binary.kind = MaskKind::kBinary;
  binary.noise.magnitude *= 2;
  for (int r = 0; r < 200; ++r) {
    Masking a = masking, b = binary;
    a.noise.seed = b.noise.seed = r;
    NoiseValues(a.noise, 0, n);
    for (size_t i = 0; i < kParams; ++i) shifted[i] = u[i] + n[i];
    FinalMask(a, u, bits);
    for (size_t i = 0; i < kParams; ++i) {
      ones_signed += TestBit(bits.data(), i);
    }
    FinalMask(b, shifted, bits);
    for (size_t i = 0; i < kParams; ++i) {
      ones_binary += TestBit(bits.data(), i);
    }
  }
  // 400,000 draws each: standard error of the difference below 450.
  EXPECT_NEAR(ones_signed, ones_binary, 5 * 450);
}

TEST(MaskedStep, DrawsAreFreshInEveryStep) {
  const size_t kParams = 10000;
  const std::vector<float> w(kParams, 0.0f);
  const Masking masking{
      MaskKind::kBinary, true, false, {NoiseKind::kBernoulli, 1, 2}, 3};
  std::vector<float> u(kParams), a(kParams), b(kParams);
  NoiseValues(masking.noise, 0, u);
  for (float& v : u) v *= 0.5f;  // m = 1 with probability 1/2
  MaskedStep(masking, {1, 2, 0}, w, {}, u, a);
  MaskedStep(masking, {2, 2, 0}, w, {}, u, b);
  int equal = 0;
  for (size_t i = 0; i < kParams; ++i) equal += a[i] == b[i];
  EXPECT_NEAR(equal, 5000, 5 * 50);
}

}  // namespace
}  // namespace fedmrn
