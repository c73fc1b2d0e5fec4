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
#include "fedmrn/core/mask.h"
#include "fedmrn/core/pack.h"
#include "fedmrn/core/tile.h"
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

// Payloads that end in a bit of each parameter, either as they are, the last
// byte padded with zeros (codec_param 0), or coded (coded_mask.h, codec_param
// 1). The bits begin `at` bytes into the payload.
inline constexpr uint32_t kPlainBits = 0, kCodedBits = 1;

// What is known of coded bits; see BitContextsOf.
struct BitsKind {
  MaskKind mask;
  Noise noise;
};
inline constexpr BitsKind kBitsAlone = {MaskKind::kBinary,
                                        {NoiseKind::kNone, 0, 0}};

// Appends them coded, if they may be and that is shorter, or as they are; sets
// header.codec_param.
void AppendBits(const EncodeOptions& options, const BitsKind& kind,
                std::span<const uint32_t> tensors, ByteView bits,
                FrameHeader& header, Bytes& payload);
// Whether they are sound; writes them to `bits`, if that is not empty, where
// they are coded.
Status CheckBits(const FrameView& frame, size_t at, const BitsKind& kind,
                 std::span<uint8_t> bits);
// The same for a frame that has passed the check: part of it, or `scratch`.
ByteView UnpackBits(const FrameView& frame, size_t at, const BitsKind& kind,
                    Bytes& scratch);
// Those that are 1.
double CountOnes(const FrameView& frame, size_t at, const BitsKind& kind);
ParamText DescribeBits(uint32_t param);
// The tensors of coded bits; those that are not coded are one.
double CountTensors(const FrameView& frame, size_t at);

constexpr PayloadFact OnesFact(double (*count)(const FrameView&)) {
  return {"ones", "share of ones", PayloadFact::Kind::kParams, count};
}
constexpr PayloadFact SegmentsFact(double (*count)(const FrameView&)) {
  return {"segments", "segments", PayloadFact::Kind::kCount, count};
}

// Bits of the values, each 1 where its draw times the scale of its segment is
// below it. pack(first, scales, values, bits) does that for a tile's values, of
// which `first` is the first.
template <typename Pack>
Bytes DrawBits(std::span<const uint32_t> segments,
               std::span<const float> scales, std::span<const float> values,
               Pack pack) {
  Bytes bits(BytesForBits(values.size()));
  size_t segment = 0, left = segments[0];
  float of_values[kTile];
  bool filled = false;  // all of these, with the segment's
  for (size_t first = 0; first < values.size(); first += kTile) {
    const size_t count = std::min(kTile, values.size() - first);
    for (size_t i = 0; i < count;) {
      if (left == 0) {
        left = segments[++segment];
        filled = false;
      }
      const size_t run = std::min(left, count - i);
      if (!filled) std::fill_n(of_values + i, run, scales[segment]);
      if (run == kTile) filled = true;
      left -= run;
      i += run;
    }
    pack(first, of_values, values.subspan(first, count),
         bits.data() + first / 8);
  }
  return bits;
}

// The same with the client's own draws, in (0, 1); kMagnitudes: below the
// values' magnitudes.
enum class Below : uint8_t { kValues, kMagnitudes };
Bytes DrawPrivateBits(const EncodeOptions& options, Below below,
                      std::span<const uint32_t> segments,
                      std::span<const float> scales,
                      std::span<const float> values);

// The largest magnitude among values.
float LargestOf(std::span<const float> values);

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

// Reads and checks all of it; `packed_bytes` must be what is left, unless it is
// kTheRest.
inline constexpr uint64_t kTheRest = ~uint64_t{0};
Result<SegmentedPayload> ReadSegments(const FrameView& frame, ScalePer per,
                                      uint64_t packed_bytes);

// The facts of segmented payloads; kRead is the codec's ReadSegments.
template <Result<SegmentedPayload> (*kRead)(const FrameView&)>
inline constexpr PayloadFact kSegmentsFact =
    SegmentsFact([](const FrameView& frame) {
      return static_cast<double>(kRead(frame)->count);
    });
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

}  // namespace fedmrn
