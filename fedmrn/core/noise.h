// G(seed): the random noise that a client masks and the server regenerates
// (paper, Section 3.1). Every noise value is an odd integer times a unit,
//
//   G(seed)[i] = odd_i * unit,   odd_i in {..., -3, -1, 1, 3, ...},
//
// so it is symmetric, never zero, exact but for one rounding, and a server can
// sum masked noise in integers, without any rounding at all. Parameter i takes
// its odd integer from fixed bits of the seed's Philox stream (byte order as on
// the wire):
//
//   kind       bits                    odd_i                  unit
//   uniform    byte i, as int8 k       2k + 1                 magnitude / 256
//   gaussian   16-bit word i, k        GaussianOdds()[k]      magnitude / 4096
//   bernoulli  bit i, b                b ? 1 : -1             magnitude
//
// This is part of the wire format (docs/wire-format.md).
#pragma once

#include <cstdint>
#include <span>

#include "fedmrn/core/magnitude.h"
#include "fedmrn/core/tile.h"

namespace fedmrn {

// On the wire: never renumber.
enum class NoiseKind : uint8_t {
  kNone = 0,
  kUniform = 1,    // [-magnitude, magnitude], on 256 levels
  kGaussian = 2,   // standard deviation = magnitude
  kBernoulli = 3,  // {-magnitude, magnitude}
};

struct Noise {
  NoiseKind kind = NoiseKind::kUniform;
  float magnitude = 0.01f;  // of all; 0 if `magnitudes` are there
  uint64_t seed = 0;
  MagnitudesView magnitudes = {};  // of each tensor, or none
};

// What a sound magnitude is: finite, and no unit or weighted sum of it can
// leave the normal floats.
inline constexpr float kMinMagnitude = 0x1p-64f, kMaxMagnitude = 0x1p10f;
bool IsValid(const Noise& noise);

// The noise of odd integer 1. Exact: a magnitude times a power of two.
float NoiseUnit(NoiseKind kind, float magnitude);

// The units of a tile's parameters, for tiles in rising order. Not thread-safe.
class UnitTiles {
 public:
  explicit UnitTiles(const Noise& noise);
  // kTile units, valid until the next call. Behind the last tensor its unit
  // goes on.
  const float* At(uint64_t tile);

 private:
  Noise noise_;
  size_t next_ = 0;      // tensor
  uint64_t end_ = 0;     // of the one before it
  float unit_;           // its
  uint64_t filled_ = 0;  // units_ are those of all tiles that end by here
  alignas(64) float units_[kTile];
};

// The largest |odd_i| of a kind.
int32_t MaxOdd(NoiseKind kind);

// odd_i for i = first, first + 1, ... Bit-identical on every CPU.
void NoiseOdds(const Noise& noise, uint64_t first, std::span<int16_t> odds);

// G(seed)[i] for i = first, first + 1, ...
void NoiseValues(const Noise& noise, uint64_t first, std::span<float> values);

// The 65536 equally likely standard normal values, in units of 1/4096: entry k
// is the odd integer 2j + 1 for which j/2048 <= z < (j + 1)/2048, where z is
// the normal quantile of (k + 1/2) / 65536.
const int16_t* GaussianOdds();

namespace ref {

void NoiseOdds(const Noise& noise, uint64_t first, std::span<int16_t> odds);
void NoiseValues(const Noise& noise, uint64_t first, std::span<float> values);

}  // namespace ref
}  // namespace fedmrn
