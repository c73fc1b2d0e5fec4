// How draws turn into uniform numbers. Plain definitions;
// the kernels do the same on vectors. All are symmetric about their middle,
// never hit an end, and are exact in float32.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fedmrn/core/philox.h"

namespace fedmrn {

// Word i of the stream.
inline uint32_t DrawWord(const PhiloxStream& stream, uint64_t i) {
  uint32_t block[4];
  ref::PhiloxWords(stream, i / 4, block);
  return block[i % 4];
}

// In (0, 1), from 22 bits of word i: coarse enough for U*a < a to hold after
// rounding, fine enough for a probability of one in four million.
inline float UniformFromWord(uint32_t word) {
  // Through a signed integer, which vectors convert faster.
  return static_cast<float>(static_cast<int32_t>(2 * (word >> 10) + 1)) *
         0x1p-23f;
}
inline float DrawUniform(const PhiloxStream& stream, uint64_t i) {
  return UniformFromWord(DrawWord(stream, i));
}

// In (-1, 1): 2*U - 1.
inline float CentredFromWord(uint32_t word) {
  const int32_t odd = static_cast<int32_t>(2 * (word >> 10) + 1);
  return static_cast<float>(odd - (1 << 22)) * 0x1p-22f;
}

// The i-th 16-bit half word.
inline uint32_t HalfWord(const PhiloxStream& stream, uint64_t i) {
  return DrawWord(stream, i / 2) >> (i % 2 * 16) & 0xFFFF;
}

// In (-1, 1), from a half word.
inline float CentredFromHalfWord(uint32_t half_word) {
  return static_cast<float>(static_cast<int32_t>(2 * half_word + 1)) *
             0x1p-16f -
         1;
}

// In (0, 65536), from the i-th half word: fine enough for one local step, whose
// masks are drawn anew in the next.
inline float DrawHalfWord(const PhiloxStream& stream, uint64_t i) {
  return static_cast<float>(HalfWord(stream, i)) + 0.5f;
}

// Words 0, 1, 2, ... of a stream, in order.
class DrawReader {
 public:
  explicit DrawReader(const PhiloxStream& stream) : stream_(stream) {}

  uint32_t Next() { return Next(1)[0]; }

  // At least one and at most so many of those that come next; they stay valid
  // until the next call.
  std::span<const uint32_t> Next(size_t most) {
    if (next_ == kWords) {
      PhiloxWords(stream_, block_, words_);
      block_ += kWords / 4;
      next_ = 0;
    }
    const size_t count = std::min(most, kWords - next_);
    next_ += count;
    return {words_ + next_ - count, count};
  }

 private:
  static constexpr size_t kWords = 256;
  PhiloxStream stream_;
  uint64_t block_ = 0;
  size_t next_ = kWords;
  // Zeros only for g++, which warns about what it cannot see being filled.
  uint32_t words_[kWords] = {};
};

}  // namespace fedmrn
