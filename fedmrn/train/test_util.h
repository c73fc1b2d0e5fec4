// Shared by the tests of the networks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "gtest/gtest.h"

namespace fedmrn::train {

// |a - b| within `tolerance` of the largest |b|.
inline void ExpectClose(std::span<const float> a, std::span<const float> b,
                        double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  double largest = 1e-6;
  for (float v : b) largest = std::max(largest, std::abs(double{v}));
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance * largest) << "at " << i;
  }
}

struct BlockCase {
  uint32_t images, channels, height, width;
};

// Every shape of both networks, odd sizes, a single image.
inline constexpr BlockCase kBlockCases[] = {
    {3, 32, 28, 28}, {3, 64, 14, 14}, {3, 128, 7, 7},  {3, 256, 3, 3},
    {2, 32, 32, 32}, {2, 64, 16, 16}, {2, 128, 8, 8},  {2, 256, 4, 4},
    {1, 16, 5, 3},   {1, 48, 2, 9},   {5, 16, 11, 13}, {1, 256, 3, 3},
};

}  // namespace fedmrn::train
