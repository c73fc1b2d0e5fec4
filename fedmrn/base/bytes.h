// Little-endian bytes and packed bits: the only representation on the wire.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "fedmrn/base/check.h"

namespace fedmrn {

// Frames are read in place, so that a float32 payload is never copied.
static_assert(std::endian::native == std::endian::little,
              "the core reads frames in place on little-endian hosts only");

using Bytes = std::vector<uint8_t>;
using ByteView = std::span<const uint8_t>;

template <typename T>
T LoadLe(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
void StoreLe(T value, uint8_t* to) {
  std::memcpy(to, &value, sizeof(T));
}

template <typename T>
void AppendLe(T value, Bytes& to) {
  to.resize(to.size() + sizeof(T));
  StoreLe(value, to.data() + to.size() - sizeof(T));
}

template <typename T>
void AppendLe(std::span<const T> values, Bytes& to) {
  if (values.empty()) return;
  const size_t at = to.size();
  to.resize(at + values.size_bytes());
  std::memcpy(to.data() + at, values.data(), values.size_bytes());
}

// Bytes that hold `bits` bits.
constexpr uint64_t BytesForBits(uint64_t bits) {
  return bits / 8 + (bits % 8 != 0);
}

// Bit i of a packed mask: bit i%8 (least significant first) of byte i/8.
inline bool TestBit(const uint8_t* bits, uint64_t i) {
  return (bits[i / 8] >> (i % 8)) & 1;
}

// True if the bits behind the first `bits` ones of the last byte are all zero:
// a message has exactly one encoding.
inline bool PaddingIsZero(ByteView bytes, uint64_t bits) {
  return bits % 8 == 0 || (bytes.back() >> (bits % 8)) == 0;
}

// Appends fields of up to 32 bits, least significant bit first.
class BitWriter {
 public:
  explicit BitWriter(Bytes& to) : to_(to) {}
  // Flushes the last, zero-padded byte.
  ~BitWriter() {
    if (held_ > 0) to_.push_back(static_cast<uint8_t>(word_));
  }
  BitWriter(const BitWriter&) = delete;
  BitWriter& operator=(const BitWriter&) = delete;

  void Put(uint32_t value, int bits) {
    word_ |= static_cast<uint64_t>(value) << held_;
    held_ += bits;
    while (held_ >= 8) {
      to_.push_back(static_cast<uint8_t>(word_));
      word_ >>= 8;
      held_ -= 8;
    }
  }

 private:
  Bytes& to_;
  uint64_t word_ = 0;
  int held_ = 0;
};

// Reads what BitWriter wrote; past the end it returns zeros and says so.
class BitReader {
 public:
  explicit BitReader(ByteView from) : from_(from) {}

  uint32_t Get(int bits) {
    if (bits == 0) return 0;
    if (position_ + static_cast<uint64_t>(bits) > from_.size() * 8) {
      overrun_ = true;
      return 0;
    }
    const size_t byte = position_ / 8;
    uint64_t word = 0;
    std::memcpy(&word, from_.data() + byte,
                byte + 8 <= from_.size() ? 8 : from_.size() - byte);
    const uint64_t value = word >> (position_ % 8);
    position_ += static_cast<uint64_t>(bits);
    return static_cast<uint32_t>(value & ((uint64_t{1} << bits) - 1));
  }
  uint64_t position() const { return position_; }
  bool overrun() const { return overrun_; }

 private:
  ByteView from_;
  uint64_t position_ = 0;
  bool overrun_ = false;
};

}  // namespace fedmrn
