// IEEE 754 binary16, by integer operations: the same on every machine.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace fedmrn {

inline constexpr float kMaxFloat16 = 65504.0f;

// Round to nearest, ties to even. Values beyond kMaxFloat16 become infinite;
// encoders refuse them first.
inline uint16_t Float16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return sign | 0x7E00;   // NaN
  if (magnitude >= 0x477FF000) return sign | 0x7C00;  // rounds to >= 65520
  if (magnitude >= 0x38800000) {                      // normal
    const uint32_t rebased = magnitude - 0x38000000;
    const uint32_t rounded = rebased + 0xFFF + (rebased >> 13 & 1);
    return static_cast<uint16_t>(sign | rounded >> 13);
  }
  // Subnormal: the float unit's own rounding does the work, in steps of 2^-24.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
  const float rounded = (scaled + 0x1p23f) - 0x1p23f;
  return static_cast<uint16_t>(sign | static_cast<uint16_t>(rounded));
}

inline float FloatFromFloat16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t rest = half & 0x7FFF;
  if (rest >= 0x7C00) {  // infinite or NaN
    return std::bit_cast<float>(sign | 0x7F800000 | (rest & 0x3FF) << 13);
  }
  if (rest >= 0x400) {
    return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000));
  }
  const float value = static_cast<float>(rest) * 0x1p-24f;
  return sign != 0 ? -value : value;
}

}  // namespace fedmrn
