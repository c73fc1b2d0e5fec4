// The fused kernels walk a flat buffer tile by tile: a tile of every operand
// fits L1, and whatever is generated for it (noise, draws) never leaves L1.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fedmrn {

// Parameters per tile. A multiple of all vector lengths, of a byte of mask bits
// and of what eight Philox blocks feed.
inline constexpr size_t kTile = 1024;

constexpr uint64_t TilesFor(uint64_t params) {
  return params / kTile + (params % kTile != 0);
}

}  // namespace fedmrn
