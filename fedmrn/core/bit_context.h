// What sender and receiver of a mask both know about each of its bits before
// the bit is drawn. A final mask is drawn with a dither of the frame's own
// seed,
//
//   w_i = 2*k_i + 1,  k_i the i-th 16-bit half word of the dither's stream,
//   m_i = 1 where u_i, along the noise, lies beyond the threshold
//
// of |n_i| * w_i / 2^17 (binary masks), or of |n_i| * (w_i - 2^16) / 2^16
// (signed masks: u_i itself, whichever way the noise points). Small thresholds
// are often passed, large ones hardly ever; so a bit is told as "beyond the
// threshold, away from zero", which is rare or as likely as not, with the size
// of the threshold as its context:
//
//   r = w_i * |odd_i| >> s          (signed: |2*w_i - 2^17| * |odd_i| >> s)
//   context = 0 if r < 2, else 4*(e - 1) + the two bits below r's leading one,
//             e = floor(log2 r)
//
// with s = 8, 15, 0 for uniform, gaussian and Bernoulli noise, so that r is
// below 2^17 and a context below 64: four to an octave. Without noise
// (NoiseKind::kNone) signs have thresholds of the dither alone, odd_i = 1 and s
// = 0, and other bits none: all have context 0. This is part of the wire format
// (docs/wire-format.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fedmrn/core/mask.h"
#include "fedmrn/core/noise.h"
#include "fedmrn/core/rans.h"
#include "fedmrn/core/tile.h"

namespace fedmrn {

inline constexpr size_t kBitContexts = 64;

// What is drawn for a tile of parameters.
struct BitContexts {
  alignas(64) uint8_t contexts[kTile];
  // Mask bit = "beyond" bit ^ flip: 1 where the threshold of a signed mask and
  // the noise have different signs. There is room behind the last byte, since
  // a target may store more than it means.
  alignas(64) uint8_t flips[kTile / 8 + 64];
};

void BitContextsOf(MaskKind mask, const Noise& noise, uint64_t tile,
                   BitContexts& out);

// Whether there is more than context 0.
inline bool HasContexts(MaskKind mask, const Noise& noise) {
  return noise.kind != NoiseKind::kNone || mask == MaskKind::kSigned;
}

// A probability of ones as a byte: 1 to 4095 of 4096, finer towards both ends.
constexpr RansOnes OnesOfByte(uint8_t byte) {
  const uint32_t h = byte < 128 ? byte + 1u : 256u - byte;
  const uint32_t below_half = h + (h * h >> 3) - (h * h >> 7);
  return static_cast<RansOnes>(byte < 128 ? below_half
                                          : kRansScale - below_half);
}

// The probability of each context, as the low and high bytes that vectors look
// up.
struct ContextOnes {
  uint8_t low[kBitContexts], high[kBitContexts];

  void Set(size_t context, RansOnes ones) {
    low[context] = static_cast<uint8_t>(ones);
    high[context] = static_cast<uint8_t>(ones >> 8);
  }
  RansOnes operator[](size_t context) const {
    return static_cast<RansOnes>(low[context] | high[context] << 8);
  }
};

// ones[i] = table[contexts[i]].
void OnesOfContexts(const ContextOnes& table, std::span<const uint8_t> contexts,
                    RansOnes* ones);

namespace ref {

void OnesOfContexts(const ContextOnes& table, std::span<const uint8_t> contexts,
                    RansOnes* ones);

void BitContextsOf(MaskKind mask, const Noise& noise, uint64_t tile,
                   BitContexts& out);

}  // namespace ref
}  // namespace fedmrn
