// A mask in fewer bits than parameters: each bit is coded with the probability
// that bits of its context have in its tensor,
//
//   u32 tensors | u32 length * tensors | table * tensors | coded bits (rans.h)
//   table = u8 n | n bytes,  n = 0 to 64
//
// A table's bytes (OnesOfByte) are for the n highest contexts (bit_context.h),
// from the lowest of these on; all contexts below share the first byte. An
// empty table stands for one half throughout: the tensor's bits as they are.
// docs/wire-format.md is the specification.
#pragma once

#include <cstdint>
#include <span>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"
#include "fedmrn/core/mask.h"
#include "fedmrn/core/noise.h"

namespace fedmrn {

// The table's byte that codes so many zeros and ones in the fewest bits.
uint8_t BestTableByte(uint64_t zeros, uint64_t ones);

// Appends the mask `bits`, which was drawn from this noise and its dither.
// `tensors` are lengths that sum to the number of bits.
void AppendCodedMask(MaskKind mask, const Noise& noise,
                     std::span<const uint32_t> tensors, ByteView bits,
                     Bytes& out);

// Adds to beyond[t] how many updates of tensor t lie beyond their thresholds
// (bit_context.h), for tensors of noise.magnitudes' lengths: the ones of a
// binary mask; of a signed one, half of whose bits are ones whatever its noise,
// as many as a binary mask of the same noise and update would have.
void CountBeyond(MaskKind mask, const Noise& noise, const uint8_t* bits,
                 std::span<uint64_t> beyond);

// Number of tensors of a coded mask of at least 4 bytes.
uint32_t CodedTensors(ByteView coded);

// Checks a coded mask of `params` bits and writes them to `bits`, or nowhere if
// that is empty; returns the number of ones. An error's offset is into `coded`.
// Allocates nothing unless it fails, and takes time linear in `params`.
Result<uint64_t> DecodeMask(MaskKind mask, const Noise& noise, uint64_t params,
                            ByteView coded, std::span<uint8_t> bits);

}  // namespace fedmrn
