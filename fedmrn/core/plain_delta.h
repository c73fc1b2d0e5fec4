// The plain section as differences to the values that the model had when it was
// sent out, quantised with a subtractive dither:
//
//   u32 tensors | u32 length * tensors | f32 step * tensors | u8 p * tensors
//   | Rice-coded integers
//
// Value j of a tensor with step s is reference_j + (q_j - d_j) * s, with a
// dither d_j in (-1/2, 1/2) that both sides know; its error is uniform within
// half a step and independent of the value, so that means are unbiased. Integer
// q is coded as z = q >= 0 ? 2q : -2q - 1: z >> p one bits, a zero bit, then
// the p low bits of z. docs/wire-format.md is the specification.
#pragma once

#include <cstdint>
#include <span>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"

namespace fedmrn {

// Appends `values` of tensors with these lengths, which sum to their number. A
// step is an eighth of the root mean square of the tensor's differences. A
// tensor whose values are all positive, and were, stays so: variances do. No
// value is larger than kMaxPlainValue.
void AppendDeltas(uint64_t dither_seed, std::span<const uint32_t> tensors,
                  std::span<const float> reference,
                  std::span<const float> values, Bytes& out);

// Checks a section of `count` values; an error's offset is into it. Allocates
// nothing unless it fails.
Status CheckDeltas(ByteView section, uint64_t count);

// The values of a section that has passed the check. An empty reference stands
// for zeros.
void ReadDeltas(uint64_t dither_seed, ByteView section,
                std::span<const float> reference, std::span<float> values);

}  // namespace fedmrn
