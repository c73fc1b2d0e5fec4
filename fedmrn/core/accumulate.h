// Inside the core (and its benchmark) only: the loops that add updates to an
// integer sum. aggregate.h is the interface.
#pragma once

#include <cstdint>
#include <span>

#include "fedmrn/core/mask.h"
#include "fedmrn/core/noise.h"
#include "fedmrn/core/tile.h"

namespace fedmrn {

// A client's masked noise.
struct MaskedUpdate {
  Noise noise;
  const uint8_t* bits;  // packed mask, BytesForBits(params) bytes
  uint64_t weight;
};

// A client's plain update: float32 values, at any alignment. All
// |value * scale| < 2^51.
struct FloatUpdate {
  const uint8_t* values;
  double scale;
};

// Masked noise is summed in int32 first: half the memory traffic of int64, and
// enough for a usual round. The TilesFor(params) small tiles start as zeros and
// stand in an order of their own; DrainMasked empties them into an int64 sum in
// the order of the parameters.
struct alignas(64) SmallTile {
  int32_t sums[kTile];
};

// What the weights may add up to between two drains.
uint64_t MaxSmallWeight(NoiseKind kind);

// Tiles [first_tile, end_tile) of small[i] += sum_k weight_k * odd_ki * m_ki.
// All updates have the same kind of noise.
void AddMasked(MaskKind mask, std::span<const MaskedUpdate> updates,
               uint64_t first_tile, uint64_t end_tile, uint64_t params,
               std::span<SmallTile> small);

// Tiles of sum[i] += factor * small[i], small[i] = 0.
void DrainMasked(NoiseKind kind, int64_t factor, uint64_t first_tile,
                 uint64_t end_tile, std::span<SmallTile> small,
                 std::span<int64_t> sum);

// Tiles of sum[i] += sum_k round(scale_k * value_ki), ties to even.
void AddFloats(std::span<const FloatUpdate> updates, uint64_t first_tile,
               uint64_t end_tile, std::span<int64_t> sum);

namespace ref {

// AddMasked and DrainMasked in one.
void AddMasked(MaskKind mask, std::span<const MaskedUpdate> updates,
               uint64_t first_tile, uint64_t end_tile, std::span<int64_t> sum);
void AddFloats(std::span<const FloatUpdate> updates, uint64_t first_tile,
               uint64_t end_tile, std::span<int64_t> sum);

}  // namespace ref
}  // namespace fedmrn
