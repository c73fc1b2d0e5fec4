#include "fedmrn/core/noise.h"

#include <algorithm>

#include "fedmrn/core/test_util.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fedmrn {
namespace {

TEST(Noise, VectorsEqualDefinition) {
  ForEachTarget([] {
    for (NoiseKind kind : kNoiseKinds) {
      const Noise noise{kind, 0.01f, 0xfeedfacecafebeef};
      for (uint64_t first : {uint64_t{0}, uint64_t{5}, uint64_t{1021},
                             (uint64_t{1} << 36) - 3}) {
        std::vector<int16_t> expected(5003);
        ref::NoiseOdds(noise, first, expected);
        std::vector<float> expected_values(5003);
        ref::NoiseValues(noise, first, expected_values);
        for (size_t n : TestLengths()) {
          std::vector<int16_t> odds(n + 1, 4);
          NoiseOdds(noise, first, std::span(odds).first(n));
          ASSERT_TRUE(
              std::equal(odds.begin(), odds.begin() + n, expected.begin()));
          ASSERT_EQ(odds[n], 4) << "wrote beyond the end";
          std::vector<float> values(n);
          NoiseValues(noise, first, values);
          ExpectSameBits(values, std::span(expected_values).first(n));
        }
      }
    }
  });
}

// The specification in numbers: these values are on the wire.
TEST(Noise, SpecifiedValues) {
  const auto first_odds = [](NoiseKind kind) {
    std::vector<int16_t> odds(8);
    NoiseOdds({kind, 1, 0}, 0, odds);
    return odds;
  };
  // Seed 0 starts with Philox block 6627e8d5 e169c58d ... (known answer).
  EXPECT_EQ(first_odds(NoiseKind::kUniform),
            (std::vector<int16_t>{2 * (0xd5 - 256) + 1, 2 * (0xe8 - 256) + 1,
                                  2 * 0x27 + 1, 2 * 0x66 + 1,
                                  2 * (0x8d - 256) + 1, 2 * (0xc5 - 256) + 1,
                                  2 * 0x69 + 1, 2 * (0xe1 - 256) + 1}));
  const int16_t* table = GaussianOdds();
  const auto gaussian = first_odds(NoiseKind::kGaussian);
  EXPECT_EQ(gaussian[0], table[0xe8d5]);
  EXPECT_EQ(gaussian[1], table[0x6627]);
  EXPECT_EQ(gaussian[2], table[0xc58d]);
  // 0xd5 = 11010101, least significant bit first.
  EXPECT_EQ(first_odds(NoiseKind::kBernoulli),
            (std::vector<int16_t>{1, -1, 1, -1, 1, -1, 1, 1}));
  // docs/wire-format.md quotes this.
  EXPECT_EQ(XXH64(table, 65536 * sizeof(int16_t), 0), 0xdbc0c33884cf3493u);
  EXPECT_EQ(table[32768], 1);
  EXPECT_EQ(table[65535], 17715);
}

// Every quantile against the math library's distribution function, which had
// no part in making the table; and with room to spare, so that neither its
// rounding nor ours can decide.
TEST(Noise, GaussianTableIsTheNormalQuantile) {
  const int16_t* table = GaussianOdds();
  const auto upper_tail = [](long double z) {
    return std::erfc(z / std::sqrt(2.0L)) / 2;
  };
  for (int k = 32768; k < 65536; ++k) {
    const int odd = table[k];
    ASSERT_EQ(odd % 2, 1) << k;
    ASSERT_EQ(table[65535 - k], -odd) << k;
    const long double tail = (65535.5L - k) / 65536;
    const int j = (odd - 1) / 2;
    ASSERT_GT(upper_tail(j / 2048.0L) - tail, 1e-10L * (j > 0)) << k;
    ASSERT_GT(tail - upper_tail((j + 1) / 2048.0L), 1e-10L) << k;
  }
}

TEST(Noise, HasTheMomentsOfItsDistribution) {
  constexpr size_t kCount = 1 << 20;
  const auto moments = [](NoiseKind kind) {
    std::vector<float> values(kCount);
    NoiseValues({kind, 1, 42}, 0, values);
    std::array<double, 4> m = {};
    for (float v : values) {
      EXPECT_NE(v, 0);
      double power = 1;
      for (double& sum : m) sum += power *= v;
    }
    for (double& sum : m) sum /= kCount;
    return m;
  };
  // Bands of five standard errors of the mean, sqrt(var / 2^20).
  const auto uniform = moments(NoiseKind::kUniform);
  EXPECT_NEAR(uniform[0], 0, 5 * 0.577 / 1024);
  EXPECT_NEAR(uniform[1], 1.0 / 3, 5 * 0.298 / 1024);
  EXPECT_NEAR(uniform[3], 1.0 / 5, 5 * 0.267 / 1024);
  const auto gaussian = moments(NoiseKind::kGaussian);
  EXPECT_NEAR(gaussian[0], 0, 5 * 1.0 / 1024);
  EXPECT_NEAR(gaussian[1], 1, 5 * 1.414 / 1024);
  EXPECT_NEAR(gaussian[3], 3, 5 * 9.8 / 1024);
  const auto bernoulli = moments(NoiseKind::kBernoulli);
  EXPECT_NEAR(bernoulli[0], 0, 5 * 1.0 / 1024);
  EXPECT_EQ(bernoulli[1], 1);
}

TEST(Noise, StaysInItsRange) {
  std::vector<float> values(1 << 16);
  for (NoiseKind kind : kNoiseKinds) {
    const Noise noise{kind, 0.005f, 3};
    NoiseValues(noise, 0, values);
    const float most = static_cast<float>(MaxOdd(kind)) *
                       NoiseUnit(noise.kind, noise.magnitude);
    for (float v : values) ASSERT_LE(std::fabs(v), most);
    if (kind != NoiseKind::kGaussian) {
      EXPECT_LE(most, 0.005f);
    } else {
      EXPECT_LE(most, 0.005f * 4.33f);
    }
  }
}

TEST(Noise, RefusesWhatIsNoNoise) {
  EXPECT_TRUE(IsValid({NoiseKind::kUniform, 0.01f, 0}));
  EXPECT_FALSE(IsValid({NoiseKind::kNone, 0.01f, 0}));
  EXPECT_FALSE(IsValid({static_cast<NoiseKind>(9), 0.01f, 0}));
  EXPECT_FALSE(IsValid({NoiseKind::kUniform, 0, 0}));
  EXPECT_FALSE(IsValid({NoiseKind::kUniform, -0.01f, 0}));
  EXPECT_FALSE(IsValid({NoiseKind::kUniform, NAN, 0}));
  EXPECT_FALSE(IsValid({NoiseKind::kUniform, INFINITY, 0}));
  EXPECT_FALSE(IsValid({NoiseKind::kUniform, 1e-30f, 0}));
}

}  // namespace
}  // namespace fedmrn
