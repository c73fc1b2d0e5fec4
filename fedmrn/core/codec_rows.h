// Inside the core only: what the rows of the codec table share.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fedmrn/core/codec.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/wire.h"

namespace fedmrn {

// An error at `offset` bytes into the payload.
inline Error PayloadError(const FrameView& frame, ErrorCode code, size_t offset,
                          std::string message) {
  return Error{code, std::move(message), frame.payload_at + offset};
}

// For rows whose check unpacks nothing.
template <Status (*kCheck)(const FrameView&)>
Status Validate(FrameView& frame, Bytes*) {
  return kCheck(frame);
}

// The addend of a codec whose payload is one already.
ByteView PayloadItself(const FrameView& frame, Bytes& scratch);

// The addend of all others: the decoded values.
template <void (*kDecode)(const FrameView&, std::span<float>)>
ByteView DecodedValues(const FrameView& frame, Bytes& scratch) {
  scratch.resize(4 * frame.params);
  kDecode(frame, {reinterpret_cast<float*>(scratch.data()), frame.params});
  return scratch;
}

// Whether a payload of `expected` bytes is there.
Status CheckPayloadBytes(const FrameView& frame, uint64_t expected);

// Whether the payload is one bit a parameter, the last byte padded with zeros.
Status CheckPackedBits(const FrameView& frame);

// For payloads that end in one bit a parameter: those that are 1.
double CountOnes(const FrameView& frame);
inline constexpr PayloadFact kOnesFact = {
    "ones", "share of ones", PayloadFact::Kind::kParams, CountOnes};

// For sparse payloads: the parameters that were kept.
constexpr PayloadFact KeptFact(double (*count)(const FrameView&)) {
  return {"kept", "kept", PayloadFact::Kind::kParams, count};
}

// Whether `count` float32 values at payload byte `offset` are all finite.
Status CheckFloats(const FrameView& frame, size_t offset, uint64_t count);

// Payloads with scales, each scale for a segment of the vector:
//   u32 count | u32 length * count | f32 scale * scales | packed bytes
// A scale is 0 to kMaxScale, so that no frame decodes to infinity.
inline constexpr float kMaxScale = 0x1p64f;
struct SegmentedPayload {
  uint32_t count = 0;
  const uint8_t* lengths = nullptr;
  const uint8_t* scales = nullptr;
  ByteView packed;

  uint32_t length(uint32_t s) const {
    return LoadLe<uint32_t>(lengths + size_t{4} * s);
  }
  float scale(uint64_t s) const { return LoadLe<float>(scales + 4 * s); }
  uint64_t scale_count() const {
    return static_cast<uint64_t>(packed.data() - scales) / 4;
  }
};

enum class ScalePer : uint8_t {
  kSegment,
  kBlock,  // one for each binary digit of the segment's length
};

// The segments to encode with: options.segments, or one for all. Fails if they
// do not sum to `params`, hold a zero, or if a length exceeds 32 bits.
Result<std::vector<uint32_t>> SegmentsFor(const EncodeOptions& options,
                                          uint64_t params);

// Appends all of a segmented payload but its packed bytes. Fails if a scale
// exceeds kMaxScale.
Status AppendSegments(std::span<const uint32_t> segments,
                      std::span<const float> scales, Bytes& payload);

// Reads and checks all of it; `packed_bytes` must be what is left.
Result<SegmentedPayload> ReadSegments(const FrameView& frame, ScalePer per,
                                      uint64_t packed_bytes);

// The facts of segmented payloads; kRead is the codec's ReadSegments.
template <Result<SegmentedPayload> (*kRead)(const FrameView&)>
inline constexpr PayloadFact kSegmentsFact = {
    "segments", "segments", PayloadFact::Kind::kCount,
    [](const FrameView& frame) {
      return static_cast<double>(kRead(frame)->count);
    }};
template <Result<SegmentedPayload> (*kRead)(const FrameView&)>
inline constexpr PayloadFact kLargestScaleFact = {
    "largest_scale", "largest scale", PayloadFact::Kind::kValue,
    [](const FrameView& frame) {
      const SegmentedPayload payload = kRead(frame).value();
      float largest = 0;
      for (uint64_t s = 0; s < payload.scale_count(); ++s) {
        largest = std::max(largest, payload.scale(s));
      }
      return double{largest};
    }};

// Calls fn(offset, length) for the power-of-two blocks of a vector of `length`:
// its binary digits, longest block first. No padding, so 1 bit stays 1 bit.
template <typename Fn>
void ForEachBlock(uint64_t length, Fn fn) {
  uint64_t offset = 0;
  while (length > 0) {
    const uint64_t block = std::bit_floor(length);
    fn(offset, block);
    offset += block;
    length -= block;
  }
}

// Sums over eight fixed lanes: vectorisable, and the same on every machine.
template <typename Term>
double LaneSum(std::span<const float> values, Term term) {
  double lanes[8] = {};
  size_t i = 0;
  for (; i + 8 <= values.size(); i += 8) {
    for (size_t j = 0; j < 8; ++j) lanes[j] += term(values[i + j]);
  }
  for (size_t j = 0; i + j < values.size(); ++j) {
    lanes[j] += term(values[i + j]);
  }
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

}  // namespace fedmrn
