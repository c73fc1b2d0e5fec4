// Bits of known probability as few bytes: static range asymmetric numeral
// systems (Duda, 2013), with 32 states side by side so that vectors can decode
// them, in integers alone. Bit i belongs to state i mod 32. Decoding a bit that
// is one with probability ones/4096 takes, for its state x,
//
//   slot = x mod 4096;  bit = slot < ones
//   x = bit ? ones * (x div 4096) + slot
//           : (4096 - ones) * (x div 4096) + slot - ones
//   if x < 2^15: x = 2^16 * x + the next 16-bit word
//
// and the encoder undoes it, from the last bit to the first. All states start
// (in the encoder) and so end (in the decoder) at 2^15, and stay below 2^31.
// This is part of the wire format (docs/wire-format.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"

namespace fedmrn {

inline constexpr size_t kRansStates = 32;
inline constexpr uint32_t kRansScale = 4096;  // probability 1
inline constexpr uint32_t kRansLow = 1u << 15, kRansHigh = 1u << 31;
inline constexpr size_t kRansStateBytes = 4 * kRansStates;

// A probability of one, in 1/4096.
using RansOnes = uint16_t;

class RansEncoder {
 public:
  RansEncoder() { states_.fill(kRansLow); }

  // Codes packed bits, of which the first is bit `first` of the whole string, a
  // multiple of kRansStates. Calls go from the string's end to its start, and
  // all but the first are for a multiple of kRansStates bits.
  void Put(size_t first, std::span<const RansOnes> ones, const uint8_t* bits);

  // Appends states and words.
  void Finish(Bytes& out) const;

 private:
  std::array<uint32_t, kRansStates> states_;
  Bytes words_;        // filled from the end
  size_t unused_ = 0;  // bytes at the start of words_
};

// Reads what an encoder wrote, or whatever else it is given: it never reads
// beyond it, and a wrong string costs no more than a good one.
class RansDecoder {
 public:
  // Fails if there is no room for the states, if one is out of range, or if the
  // words are not whole. An error's offset is into `coded`.
  static Result<RansDecoder> Create(ByteView coded);

  // The next ones.size() bits, packed; those behind them in the last byte are
  // zero. All calls but the last are for a multiple of kRansStates bits. False
  // if the words have ended too early.
  [[nodiscard]] bool Get(std::span<const RansOnes> ones,
                         std::span<uint8_t> bits);

  // Whether the string ends here: no word is left, all states are back.
  bool AtEnd() const;

 private:
  RansDecoder() = default;

  std::array<uint32_t, kRansStates> states_;
  ByteView words_;  // not yet read
};

// The loops of both, for a multiple of kRansStates bits.

// `words` has room for as many words as bits, and a vector more, to be read
// whether used or not. Returns the number of words used.
size_t RansDecodeSteps(std::span<uint32_t, kRansStates> states,
                       std::span<const RansOnes> ones, const uint8_t* words,
                       uint8_t* bits);
// Writes words backwards, up to `words_end`, before which there is room for as
// many words as bits, and a vector more. Returns the number of words written.
size_t RansEncodeSteps(std::span<uint32_t, kRansStates> states,
                       std::span<const RansOnes> ones, const uint8_t* bits,
                       uint8_t* words_end);

namespace ref {

// The same for any number of bits.
size_t RansDecodeSteps(std::span<uint32_t, kRansStates> states,
                       std::span<const RansOnes> ones, const uint8_t* words,
                       uint8_t* bits);
size_t RansEncodeSteps(std::span<uint32_t, kRansStates> states,
                       std::span<const RansOnes> ones, const uint8_t* bits,
                       uint8_t* words_end);

}  // namespace ref
}  // namespace fedmrn
