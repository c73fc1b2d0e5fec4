// Checks of many floats in one pass at memory speed.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace fedmrn {

// The bits of the largest |value| of `count` float32 values at any alignment.
// Such bits compare like the magnitudes themselves, infinity and NaN on top.
uint32_t LargestMagnitude(const uint8_t* values, uint64_t count);

// Whether all |value| <= limit; false if one is NaN.
inline bool AllWithin(const uint8_t* values, uint64_t count, float limit) {
  return LargestMagnitude(values, count) <= std::bit_cast<uint32_t>(limit);
}

inline bool AllFinite(const uint8_t* values, uint64_t count) {
  return LargestMagnitude(values, count) < std::bit_cast<uint32_t>(INFINITY);
}

namespace ref {
uint32_t LargestMagnitude(const uint8_t* values, uint64_t count);
}  // namespace ref
}  // namespace fedmrn
