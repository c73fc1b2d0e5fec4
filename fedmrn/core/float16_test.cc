#include "fedmrn/core/float16.h"

#include <random>

#include "fedmrn/base/bytes.h"
#include "fedmrn/core/test_util.h"

namespace fedmrn {
namespace {

TEST(Float16, KnownValues) {
  // IEEE 754-2008 binary16.
  EXPECT_EQ(Float16FromFloat(1.0f), 0x3C00);
  EXPECT_EQ(Float16FromFloat(-2.0f), 0xC000);
  EXPECT_EQ(Float16FromFloat(65504.0f), 0x7BFF);
  EXPECT_EQ(Float16FromFloat(65519.996f), 0x7BFF);
  EXPECT_EQ(Float16FromFloat(65520.0f), 0x7C00);
  EXPECT_EQ(Float16FromFloat(0x1p-14f), 0x0400);
  EXPECT_EQ(Float16FromFloat(0x1p-24f), 0x0001);
  EXPECT_EQ(Float16FromFloat(0x1p-25f), 0x0000);  // tie to even
  EXPECT_EQ(Float16FromFloat(0x1.8p-25f), 0x0001);
  EXPECT_EQ(Float16FromFloat(-0.0f), 0x8000);
  EXPECT_EQ(Float16FromFloat(1.0f / 3), 0x3555);
  EXPECT_EQ(Float16FromFloat(1.0f + 0x1p-11f), 0x3C00);    // tie to even
  EXPECT_EQ(Float16FromFloat(1.0f + 0x1.8p-10f), 0x3C02);  // tie to even
  EXPECT_EQ(Float16FromFloat(INFINITY), 0x7C00);
  EXPECT_TRUE(std::isnan(FloatFromFloat16(Float16FromFloat(NAN))));
}

TEST(Float16, EveryValueRoundTrips) {
  for (uint32_t half = 0; half < 65536; ++half) {
    const uint16_t h = static_cast<uint16_t>(half);
    const float value = FloatFromFloat16(h);
    if (std::isnan(value)) continue;
    ASSERT_EQ(Float16FromFloat(value), h);
  }
}

// No float16 is nearer than the one chosen.
TEST(Float16, RoundsToNearest) {
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    const float x =
        std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random),
                   static_cast<int>(random() % 42) - 26);
    const uint16_t h = Float16FromFloat(x);
    const double error = std::fabs(double{FloatFromFloat16(h)} - x);
    for (int step : {-1, 1}) {
      const uint16_t neighbour = static_cast<uint16_t>(h + step);
      if ((neighbour & 0x7FFF) >= 0x7C00) continue;
      ASSERT_LE(error, std::fabs(double{FloatFromFloat16(neighbour)} - x));
    }
  }
}

TEST(Float16, VectorsEqualDefinition) {
  // Every half, and floats at and beside each of them; an odd byte away.
  Bytes halves(1);
  std::vector<float> floats;
  for (uint32_t half = 0; half < 65536; ++half) {
    AppendLe(static_cast<uint16_t>(half), halves);
    const auto bits =
        std::bit_cast<uint32_t>(FloatFromFloat16(static_cast<uint16_t>(half)));
    for (uint32_t off : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u}) {
      floats.push_back(std::bit_cast<float>(bits + off));
    }
  }
  floats.insert(floats.end(), {NAN, INFINITY, -INFINITY, 1e38f, 1e-45f});
  ForEachTarget([&] {
    std::vector<float> values(65536), expected(65536);
    FloatsFromFloat16s(halves.data() + 1, values);
    ref::FloatsFromFloat16s(halves.data() + 1, expected);
    ExpectSameBits(values, expected);
    Bytes packed(2 * floats.size() + 1), expected_bytes = packed;
    Float16sFromFloats(floats, packed.data() + 1);
    ref::Float16sFromFloats(floats, expected_bytes.data() + 1);
    ASSERT_EQ(packed, expected_bytes);
    for (size_t n : TestLengths()) {
      values.assign(n, 9.0f);
      expected.assign(n, 9.0f);
      FloatsFromFloat16s(halves.data() + 1, values);
      ref::FloatsFromFloat16s(halves.data() + 1, expected);
      ExpectSameBits(values, expected);
      // A byte more, which nobody may touch.
      packed.assign(2 * n + 1, 0x5A);
      expected_bytes = packed;
      Float16sFromFloats(std::span(floats).subspan(1, n), packed.data());
      ref::Float16sFromFloats(std::span(floats).subspan(1, n),
                              expected_bytes.data());
      ASSERT_EQ(packed, expected_bytes);
    }
  });
}

}  // namespace
}  // namespace fedmrn
