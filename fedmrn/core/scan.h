// Many floats in one pass at memory speed: checks, sums, a narrow choice.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
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

// Writes those magnitudes' bits that are at least `low` and below `high`, at
// most 2^31 - 1, in order, to `between`, which has room for all values and 16
// more; returns how many. Adds to `above` how many are `high` or more.
size_t MagnitudesBetween(std::span<const float> values, uint32_t low,
                         uint32_t high, uint32_t* between, size_t& above);

// Sums in double over eight fixed lanes, value i in lane i mod 8, which are
// added ((0+4) + (2+6)) + ((1+5) + (3+7)): the same on every machine.
double LaneSum(std::span<const float> values);
double LaneSumOfMagnitudes(std::span<const float> values);
// The same sum of (value - centre)^2.
double LaneSumOfSquares(std::span<const float> values, double centre);

namespace ref {
uint32_t LargestMagnitude(const uint8_t* values, uint64_t count);
size_t MagnitudesBetween(std::span<const float> values, uint32_t low,
                         uint32_t high, uint32_t* between, size_t& above);
double LaneSum(std::span<const float> values);
double LaneSumOfMagnitudes(std::span<const float> values);
double LaneSumOfSquares(std::span<const float> values, double centre);
}  // namespace ref
}  // namespace fedmrn
