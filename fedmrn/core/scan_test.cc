#include "fedmrn/core/scan.h"

#include <cstring>

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

}  // namespace
}  // namespace fedmrn
