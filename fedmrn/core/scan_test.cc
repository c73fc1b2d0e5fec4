#include "fedmrn/core/scan.h"

#include <cstring>
#include <utility>

#include "fedmrn/base/bytes.h"
#include "fedmrn/core/test_util.h"

namespace fedmrn {
namespace {

TEST(Scan, VectorsEqualDefinition) {
  const std::vector<float> x = Normal(1, 5003);
  ForEachTarget([&] {
    for (size_t n : TestLengths()) {
      Bytes bytes(4 * n + 1);
      if (n > 0) std::memcpy(bytes.data() + 1, x.data(), 4 * n);
      ASSERT_EQ(LargestMagnitude(bytes.data() + 1, n),
                ref::LargestMagnitude(bytes.data() + 1, n));
    }
  });
}

TEST(Scan, OneBadValueAnywhereIsFound) {
  ForEachTarget([&] {
    for (size_t n : {1, 7, 33, 200}) {
      for (size_t bad = 0; bad < n; ++bad) {
        for (float value : {NAN, INFINITY, -INFINITY, 2.5f, -2.5f}) {
          std::vector<float> x(n, -1.0f);
          const auto* bytes = reinterpret_cast<const uint8_t*>(x.data());
          ASSERT_TRUE(AllWithin(bytes, n, 1.0f));
          x[bad] = value;
          ASSERT_FALSE(AllWithin(bytes, n, 2.0f));
          ASSERT_EQ(AllFinite(bytes, n), std::isfinite(value));
          ASSERT_EQ(AllWithin(bytes, n, 2.5f), std::isfinite(value));
        }
      }
    }
  });
}

TEST(Scan, MagnitudesBetweenEqualDefinition) {
  std::vector<float> x = Normal(2, 5004);
  for (size_t i = 0; i < x.size(); i += 7) x[i] = i % 2 == 0 ? 0.0f : -0.0f;
  const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  ForEachTarget([&] {
    for (size_t n : TestLengths()) {
      const auto some = std::span(x).subspan(1, n);
      for (const auto& [low, high] :
           {std::pair(0.5f, 0.75f), std::pair(0.0f, 0.25f),
            std::pair(1.5f, INFINITY), std::pair(0.0f, INFINITY),
            std::pair(std::fabs(x[2]), std::fabs(x[2]))}) {
        std::vector<uint32_t> fast(n + 16), plain(n + 16);
        size_t above = 3, expected_above = 3;
        fast.resize(
            MagnitudesBetween(some, bits(low), bits(high), fast.data(), above));
        plain.resize(ref::MagnitudesBetween(some, bits(low), bits(high),
                                            plain.data(), expected_above));
        ASSERT_EQ(fast, plain) << n;
        ASSERT_EQ(above, expected_above) << n;
      }
    }
  });
}

TEST(Scan, SumsEqualDefinition) {
  const std::vector<float> x = Normal(3, 5004);
  ForEachTarget([&] {
    for (size_t n : TestLengths()) {
      const auto some = std::span(x).subspan(1, n);
      ASSERT_EQ(LaneSum(some), ref::LaneSum(some)) << n;
      ASSERT_EQ(LaneSumOfMagnitudes(some), ref::LaneSumOfMagnitudes(some)) << n;
      for (double centre : {0.0, 0.3}) {
        ASSERT_EQ(LaneSumOfSquares(some, centre),
                  ref::LaneSumOfSquares(some, centre))
            << n;
      }
    }
  });
}

}  // namespace
}  // namespace fedmrn
