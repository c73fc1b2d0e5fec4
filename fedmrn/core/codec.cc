#include "fedmrn/core/codec.h"

#include <bit>
#include <cmath>
#include <limits>

#include "fedmrn/base/check.h"
#include "fedmrn/core/codec_rows.h"
#include "fedmrn/core/coded_mask.h"
#include "fedmrn/core/draws.h"
#include "fedmrn/core/scan.h"

namespace fedmrn {

// A codec's row stands in its file.
extern const Codec kFloat32Codec, kFloat16Codec;      // codec_float.cc
extern const Codec kMrnBinaryCodec, kMrnSignedCodec;  // codec_mrn.cc
extern const Codec kSignSgdCodec;                     // codec_signsgd.cc
extern const Codec kTopKCodec;                        // codec_topk.cc
extern const Codec kTernGradCodec;                    // codec_terngrad.cc
extern const Codec kDriveCodec, kEdenCodec;           // codec_rotation.cc
extern const Codec kMaskCodec;                        // codec_mask.cc

std::span<const Codec> Codecs() {
  static const Codec kTable[] = {
      kFloat32Codec, kFloat16Codec, kMrnBinaryCodec, kMrnSignedCodec,
      kSignSgdCodec, kTopKCodec,    kTernGradCodec,  kDriveCodec,
      kEdenCodec,    kMaskCodec,
  };
  return kTable;
}

const Codec* FindCodec(CodecId id) {
  for (const Codec& codec : Codecs()) {
    if (codec.id == id) return &codec;
  }
  return nullptr;
}

const Codec* FindCodec(std::string_view name) {
  for (const Codec& codec : Codecs()) {
    if (codec.name == name) return &codec;
  }
  return nullptr;
}

ByteView PayloadItself(const FrameView& frame, Bytes&) { return frame.payload; }

Status CheckPayloadBytes(const FrameView& frame, uint64_t expected) {
  if (frame.payload.size() == expected) return Ok();
  return PayloadError(frame, ErrorCode::kBadFormat, 0,
                      "the payload has " +
                          std::to_string(frame.payload.size()) +
                          " bytes instead of " + std::to_string(expected));
}

void AppendBits(const EncodeOptions& options, const BitsKind& kind,
                std::span<const uint32_t> tensors, ByteView bits,
                FrameHeader& header, Bytes& payload) {
  if (options.entropy) {
    const size_t at = payload.size();
    AppendCodedMask(kind.mask, kind.noise, tensors, bits, payload);
    if (payload.size() - at < bits.size()) {
      header.codec_param = kCodedBits;
      return;
    }
    payload.resize(at);
  }
  header.codec_param = kPlainBits;
  payload.insert(payload.end(), bits.begin(), bits.end());
}

Status CheckBits(const FrameView& frame, size_t at, const BitsKind& kind,
                 std::span<uint8_t> bits) {
  if (frame.codec_param > (frame.version == 1 ? kPlainBits : kCodedBits)) {
    return Error{ErrorCode::kBadValue,
                 "the coding of bits is 0 or 1, and 0 in version 1",
                 wire::kCodecParam.offset};
  }
  if (frame.codec_param == kPlainBits) {
    FEDMRN_TRY(CheckPayloadBytes(frame, at + BytesForBits(frame.params)));
    if (PaddingIsZero(frame.payload, frame.params)) return Ok();
    return PayloadError(frame, ErrorCode::kBadFormat, frame.payload.size() - 1,
                        "bits behind the last parameter are set");
  }
  const Result<uint64_t> ones = DecodeMask(kind.mask, kind.noise, frame.params,
                                           frame.payload.subspan(at), bits);
  if (ones) return Ok();
  return PayloadError(frame, ones.error().code, at + ones.error().offset,
                      ones.error().message);
}

ByteView UnpackBits(const FrameView& frame, size_t at, const BitsKind& kind,
                    Bytes& scratch) {
  if (frame.codec_param == kPlainBits) return frame.payload.subspan(at);
  if (!frame.unpacked.empty()) return frame.unpacked;
  scratch.resize(BytesForBits(frame.params));
  FEDMRN_CHECK(CheckBits(frame, at, kind, scratch).ok());
  return scratch;
}

double CountOnes(const FrameView& frame, size_t at, const BitsKind& kind) {
  if (frame.codec_param == kCodedBits) {
    return static_cast<double>(DecodeMask(kind.mask, kind.noise, frame.params,
                                          frame.payload.subspan(at), {})
                                   .value());
  }
  return static_cast<double>(
      CountBits(frame.payload.data() + at, 0, frame.params));
}

double CountTensors(const FrameView& frame, size_t at) {
  return frame.codec_param == kPlainBits
             ? 1.0
             : static_cast<double>(CodedTensors(frame.payload.subspan(at)));
}

ParamText DescribeBits(uint32_t param) {
  return {"coding", param == kPlainBits   ? "one bit a parameter"
                    : param == kCodedBits ? "entropy-coded"
                                          : "unknown"};
}

Bytes DrawPrivateBits(const EncodeOptions& options, Below below,
                      std::span<const uint32_t> segments,
                      std::span<const float> scales,
                      std::span<const float> values) {
  const PhiloxStream stream{options.draw_seed, Purpose::kEncode, 0};
  const auto pack = below == Below::kValues ? PackUniform : PackUniformFarther;
  return DrawBits(segments, scales, values,
                  [&](size_t first, const float* of_values,
                      std::span<const float> some, uint8_t* bits) {
                    alignas(64) uint32_t words[kTile];
                    PhiloxWords(stream, first / 4, words);
                    pack(words, of_values, some, bits);
                  });
}

float LargestOf(std::span<const float> values) {
  return std::bit_cast<float>(LargestMagnitude(
      reinterpret_cast<const uint8_t*>(values.data()), values.size()));
}

Status CheckFloats(const FrameView& frame, size_t offset, uint64_t count) {
  const uint8_t* at = frame.payload.data() + offset;
  if (AllFinite(at, count)) return Ok();
  uint64_t i = 0;
  while (std::isfinite(LoadLe<float>(at + 4 * i))) ++i;
  return PayloadError(frame, ErrorCode::kBadValue, offset + 4 * i,
                      "value " + std::to_string(i) + " is not finite");
}

Result<std::vector<uint32_t>> SegmentsFor(const EncodeOptions& options,
                                          uint64_t params) {
  uint64_t sum = 0;
  for (uint32_t length : options.segments) {
    if (length == 0) return Error{ErrorCode::kBadValue, "a segment is empty"};
    sum += length;
  }
  if (options.segments.empty()) {
    if (params > std::numeric_limits<uint32_t>::max()) {
      return Error{ErrorCode::kBadValue, "a segment exceeds 2^32 - 1 values"};
    }
    return std::vector<uint32_t>{static_cast<uint32_t>(params)};
  }
  if (sum != params) {
    return Error{ErrorCode::kBadValue,
                 "the segments sum to " + std::to_string(sum) +
                     " instead of the update's " + std::to_string(params)};
  }
  return std::vector<uint32_t>(options.segments.begin(),
                               options.segments.end());
}

Status AppendSegments(std::span<const uint32_t> segments,
                      std::span<const float> scales, Bytes& payload) {
  for (float scale : scales) {
    if (!(scale <= kMaxScale)) {
      return Error{ErrorCode::kBadValue, "the update's scale exceeds 2^64"};
    }
  }
  AppendLe(static_cast<uint32_t>(segments.size()), payload);
  AppendLe(segments, payload);
  AppendLe(scales, payload);
  return Ok();
}

Result<SegmentedPayload> ReadSegments(const FrameView& frame, ScalePer per,
                                      uint64_t packed_bytes) {
  const ByteView payload = frame.payload;
  if (payload.size() < 4) {
    return PayloadError(frame, ErrorCode::kTruncated, payload.size(),
                        "the payload ends before its segment count");
  }
  SegmentedPayload result;
  result.count = LoadLe<uint32_t>(payload.data());
  const uint64_t lengths_end = 4 + uint64_t{4} * result.count;
  if (result.count == 0 || lengths_end > payload.size()) {
    return PayloadError(
        frame, ErrorCode::kBadFormat, 0,
        std::to_string(result.count) + " segments do not fit the payload");
  }
  result.lengths = payload.data() + 4;
  uint64_t sum = 0;
  uint64_t scales = 0;
  for (uint32_t s = 0; s < result.count; ++s) {
    const uint32_t length = result.length(s);
    if (length == 0) {
      return PayloadError(frame, ErrorCode::kBadValue, 4 + size_t{4} * s,
                          "segment " + std::to_string(s) + " is empty");
    }
    sum += length;
    scales += per == ScalePer::kSegment ? 1 : std::popcount(length);
  }
  if (sum != frame.params) {
    return PayloadError(frame, ErrorCode::kBadFormat, 4,
                        "the segments sum to " + std::to_string(sum) +
                            " instead of " + std::to_string(frame.params));
  }
  const uint64_t scales_end = lengths_end + 4 * scales;
  if (packed_bytes != kTheRest) {
    FEDMRN_TRY(CheckPayloadBytes(frame, scales_end + packed_bytes));
  } else if (payload.size() < scales_end) {
    return PayloadError(frame, ErrorCode::kTruncated, payload.size(),
                        "the payload ends before its scales");
  }
  FEDMRN_TRY(CheckFloats(frame, lengths_end, scales));
  result.scales = payload.data() + lengths_end;
  for (uint64_t s = 0; s < scales; ++s) {
    if (std::signbit(result.scale(s)) || result.scale(s) > kMaxScale) {
      return PayloadError(
          frame, ErrorCode::kBadValue, lengths_end + 4 * s,
          "scale " + std::to_string(s) + " is negative or exceeds 2^64");
    }
  }
  result.packed = payload.subspan(scales_end);
  return result;
}

}  // namespace fedmrn
