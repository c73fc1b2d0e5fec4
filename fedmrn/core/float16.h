// IEEE 754 binary16, by integer operations: the same on every machine.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace fedmrn {

inline constexpr float kMaxFloat16 = 65504.0f;

// Both compute all cases and choose between them, without branches, as the
// vectors below do.

// Round to nearest, ties to even. Values beyond kMaxFloat16 become infinite;
// encoders refuse them first.
inline uint16_t Float16FromFloat(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  const int32_t sign = bits >> 16 & 0x8000;
  const int32_t magnitude = bits & 0x7FFFFFFF;
  const int32_t rebased = magnitude - 0x38000000;
  const int32_t normal = (rebased + 0xFFF + (rebased >> 13 & 1)) >> 13;
  // Subnormal: the float unit's own rounding does the work, in steps of 2^-24;
  // the sum's mantissa is the rounded number of steps.
  const float steps = std::bit_cast<float>(magnitude) * 0x1p24f + 0x1p23f;
  const int32_t subnormal = std::bit_cast<int32_t>(steps) & 0x7FFFFF;
  int32_t half = magnitude >= 0x38800000 ? normal : subnormal;
  half = magnitude >= 0x477FF000 ? 0x7C00 : half;  // rounds to >= 65520
  half = magnitude > 0x7F800000 ? 0x7E00 : half;   // NaN
  return static_cast<uint16_t>(sign | half);
}

inline float FloatFromFloat16(uint16_t half) {
  const int32_t sign = static_cast<int32_t>(half & 0x8000) << 16;
  const int32_t rest = half & 0x7FFF;
  const int32_t normal = (rest << 13) + 0x38000000;
  const auto subnormal =
      std::bit_cast<int32_t>(static_cast<float>(rest) * 0x1p-24f);
  int32_t magnitude = rest >= 0x400 ? normal : subnormal;
  // Infinite or NaN.
  magnitude = rest >= 0x7C00 ? 0x7F800000 | (rest & 0x3FF) << 13 : magnitude;
  return std::bit_cast<float>(sign | magnitude);
}

// Many of them, as little-endian bytes at any alignment.
void Float16sFromFloats(std::span<const float> values, uint8_t* halves);
void FloatsFromFloat16s(const uint8_t* halves, std::span<float> values);

namespace ref {
void Float16sFromFloats(std::span<const float> values, uint8_t* halves);
void FloatsFromFloat16s(const uint8_t* halves, std::span<float> values);
}  // namespace ref

}  // namespace fedmrn
