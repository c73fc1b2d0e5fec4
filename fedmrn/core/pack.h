// Comparisons of floats as packed bits, and bits as one of two floats: what
// codecs that send a bit a parameter share. Bit i is bit i mod 8 of byte i / 8.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fedmrn/base/bytes.h"

namespace fedmrn {

// Bit i is x[i] > threshold. The last byte is padded with zeros.
void PackAbove(std::span<const float> x, float threshold, uint8_t* bits);
// Bit i is |x[i]| > threshold.
void PackFarther(std::span<const float> x, float threshold, uint8_t* bits);

// Bit i is U * scales[i] < x[i], U in (0, 1) from word i (UniformFromWord), or
// < |x[i]|.
void PackUniform(const uint32_t* words, const float* scales,
                 std::span<const float> x, uint8_t* bits);
void PackUniformFarther(const uint32_t* words, const float* scales,
                        std::span<const float> x, uint8_t* bits);
// The same with the i-th half word, as a number in (-1, 1) (draws.h).
void PackCentred(const uint32_t* words, const float* scales,
                 std::span<const float> x, uint8_t* bits);

// out[i] = bit first + i ? one : zero.
void SelectByBits(const uint8_t* bits, uint64_t first, float zero, float one,
                  std::span<float> out);
// out[i] = bit first + i of `kept` ? (that of `positive` ? scale : -scale) : 0.
void SelectTrits(const uint8_t* kept, const uint8_t* positive, uint64_t first,
                 float scale, std::span<float> out);

// The ones among bits [from, to).
uint64_t CountBits(const uint8_t* bits, uint64_t from, uint64_t to);

// Calls visit(i) for the ones among packed bits, in order.
template <typename Visit>
void ForEachOne(ByteView bits, Visit visit) {
  const auto visit_ones = [&](size_t first, uint64_t left) {
    for (; left != 0; left &= left - 1) {
      visit(first + static_cast<size_t>(std::countr_zero(left)));
    }
  };
  size_t b = 0;
  for (; b + 8 <= bits.size(); b += 8) {
    visit_ones(8 * b, LoadLe<uint64_t>(bits.data() + b));
  }
  for (; b < bits.size(); ++b) visit_ones(8 * b, bits[b]);
}

namespace ref {

void PackAbove(std::span<const float> x, float threshold, uint8_t* bits);
void PackFarther(std::span<const float> x, float threshold, uint8_t* bits);
void PackUniform(const uint32_t* words, const float* scales,
                 std::span<const float> x, uint8_t* bits);
void PackUniformFarther(const uint32_t* words, const float* scales,
                        std::span<const float> x, uint8_t* bits);
void PackCentred(const uint32_t* words, const float* scales,
                 std::span<const float> x, uint8_t* bits);
void SelectByBits(const uint8_t* bits, uint64_t first, float zero, float one,
                  std::span<float> out);
void SelectTrits(const uint8_t* kept, const uint8_t* positive, uint64_t first,
                 float scale, std::span<float> out);
uint64_t CountBits(const uint8_t* bits, uint64_t from, uint64_t to);

}  // namespace ref
}  // namespace fedmrn
