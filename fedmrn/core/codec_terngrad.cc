// terngrad: per segment, clip to c standard deviations, then
//   u_hat = s*t,  t = sign(u) * Bernoulli(|u|/s),  s = max|clipped u|,
// as five trits a byte: byte = sum_j (t_j + 1) * 3^j, the last one padded with
// zero trits; or, codec_param 1 and usually shorter,
//   u8 share of non-zeros * segments | u32 bytes | t != 0, coded (rans.h)
//   | t > 0 of those that are not zero, packed bits
#include <algorithm>
#include <cmath>

#include "fedmrn/core/bit_context.h"
#include "fedmrn/core/codec_rows.h"
#include "fedmrn/core/coded_mask.h"
#include "fedmrn/core/draws.h"
#include "fedmrn/core/rans.h"
#include "fedmrn/core/tile.h"

namespace fedmrn {
namespace {

constexpr uint32_t kTritsPerByte = 5;
constexpr uint8_t kZeroTrits = 1 + 3 + 9 + 27 + 81;  // five trits of value 0
constexpr uint8_t kPowers[] = {1, 3, 9, 27, 81};

uint64_t TritBytes(uint64_t params) {
  return params / kTritsPerByte + (params % kTritsPerByte != 0);
}

int Trit(uint8_t byte, size_t j) { return byte / kPowers[j] % 3 - 1; }

constexpr uint32_t kPacked = 0, kCoded = 1;

Bytes PackTrits(std::span<const int8_t> trits) {
  Bytes packed(TritBytes(trits.size()), kZeroTrits);
  for (size_t i = 0; i < trits.size(); ++i) {
    uint8_t& byte = packed[i / kTritsPerByte];
    byte = static_cast<uint8_t>(byte + trits[i] * kPowers[i % kTritsPerByte]);
  }
  return packed;
}

Bytes CodeTrits(std::span<const uint32_t> segments,
                std::span<const int8_t> trits) {
  Bytes coded, kept(BytesForBits(trits.size())), signs;
  std::vector<RansOnes> ones(trits.size());
  {
    BitWriter sign_bits(signs);
    size_t i = 0;
    for (uint32_t length : segments) {
      uint64_t nonzero = 0;
      for (size_t j = i; j < i + length; ++j) {
        if (trits[j] == 0) continue;
        ++nonzero;
        kept[j / 8] |= static_cast<uint8_t>(1u << j % 8);
        sign_bits.Put(trits[j] > 0, 1);
      }
      coded.push_back(BestTableByte(length - nonzero, nonzero));
      std::fill_n(ones.begin() + i, length, OnesOfByte(coded.back()));
      i += length;
    }
  }
  RansEncoder encoder;
  encoder.Put(0, ones, kept.data());
  Bytes kept_coded;
  encoder.Finish(kept_coded);
  AppendLe(static_cast<uint32_t>(kept_coded.size()), coded);
  coded.insert(coded.end(), kept_coded.begin(), kept_coded.end());
  coded.insert(coded.end(), signs.begin(), signs.end());
  return coded;
}

Status Encode(FrameHeader& header, const EncodeOptions& options,
              std::span<const float> update, Bytes& payload) {
  if (!(options.clip >= 0)) {
    return Error{ErrorCode::kBadValue, "the clip must be >= 0"};
  }
  const std::vector<uint32_t> segments =
      FEDMRN_TRY(SegmentsFor(options, update.size()));
  std::vector<float> scales;
  size_t first = 0;
  for (uint32_t length : segments) {
    const std::span<const float> u = update.subspan(first, length);
    float largest = 0;
    for (float value : u) largest = std::max(largest, std::fabs(value));
    if (options.clip > 0) {
      const double mean =
          LaneSum(u, [](float x) { return double{x}; }) / length;
      const double variance =
          LaneSum(u,
                  [&](float x) {
                    return (double{x} - mean) * (double{x} - mean);
                  }) /
          length;
      largest = std::min(
          largest, static_cast<float>(options.clip * std::sqrt(variance)));
    }
    scales.push_back(largest);
    first += length;
  }
  FEDMRN_TRY(AppendSegments(segments, scales, payload));

  DrawReader draws({options.draw_seed, Purpose::kEncode, 0});
  std::vector<int8_t> trits(update.size());
  size_t i = 0;
  for (size_t s = 0; s < segments.size(); ++s) {
    for (const size_t end = i + segments[s]; i < end; ++i) {
      const float u = update[i];
      // |u| beyond the scale is clipped: the draw is then always below it.
      if (UniformFromWord(draws.Next()) * scales[s] < std::fabs(u)) {
        trits[i] = u > 0 ? 1 : -1;
      }
    }
  }
  Bytes packed = PackTrits(trits);
  header.codec_param = kPacked;
  if (options.entropy) {
    Bytes coded = CodeTrits(segments, trits);
    if (coded.size() < packed.size()) {
      header.codec_param = kCoded;
      packed = std::move(coded);
    }
  }
  payload.insert(payload.end(), packed.begin(), packed.end());
  return Ok();
}

Result<SegmentedPayload> Read(const FrameView& frame) {
  uint64_t packed_bytes = TritBytes(frame.params);
  if (frame.codec_param == kCoded && frame.payload.size() >= 4) {
    // As long as it may be: what is in it says how long it is.
    const uint64_t scales_end =
        4 + uint64_t{8} * LoadLe<uint32_t>(frame.payload.data());
    packed_bytes = frame.payload.size() -
                   std::min<uint64_t>(frame.payload.size(), scales_end);
  }
  return ReadSegments(frame, ScalePer::kSegment, packed_bytes);
}

// Calls visit(i, scale, trit) for the parameters in order. Fails where the
// coded trits do not fit the payload.
template <typename Visit>
Status ForEachCodedTrit(const FrameView& frame, const SegmentedPayload& payload,
                        Visit visit) {
  const size_t start = frame.payload.size() - payload.packed.size();
  const auto fail = [&](ErrorCode code, size_t offset, const char* message) {
    return PayloadError(frame, code, start + offset, message);
  };
  const size_t coded_at = size_t{payload.count} + 4;
  if (payload.packed.size() < coded_at ||
      LoadLe<uint32_t>(payload.packed.data() + payload.count) >
          payload.packed.size() - coded_at) {
    return fail(ErrorCode::kBadFormat,
                std::min<size_t>(payload.count, payload.packed.size()),
                "the coded trits do not fit the payload");
  }
  const size_t coded_bytes =
      LoadLe<uint32_t>(payload.packed.data() + payload.count);
  Result<RansDecoder> decoder =
      RansDecoder::Create(payload.packed.subspan(coded_at, coded_bytes));
  if (!decoder) {
    return PayloadError(frame, decoder.error().code,
                        start + coded_at + decoder.error().offset,
                        decoder.error().message);
  }
  const ByteView sign_bytes = payload.packed.subspan(coded_at + coded_bytes);
  BitReader signs(sign_bytes);
  RansOnes ones[kTile];
  uint8_t kept[kTile / 8];
  uint32_t segment = 0, left = payload.length(0);
  for (uint64_t first = 0; first < frame.params; first += kTile) {
    const size_t count = std::min<uint64_t>(kTile, frame.params - first);
    float scales[kTile];
    for (size_t i = 0; i < count; ++i, --left) {
      if (left == 0) left = payload.length(++segment);
      ones[i] = OnesOfByte(payload.packed[segment]);
      scales[i] = payload.scale(segment);
    }
    if (!decoder->Get({ones, count}, {kept, BytesForBits(count)})) {
      return fail(ErrorCode::kTruncated, coded_at + coded_bytes,
                  "the coded trits end too early");
    }
    for (size_t i = 0; i < count; ++i) {
      const int trit = !TestBit(kept, i) ? 0 : signs.Get(1) == 1 ? 1 : -1;
      visit(first + i, scales[i], trit);
    }
  }
  if (!decoder->AtEnd()) {
    return fail(ErrorCode::kBadFormat, coded_at,
                "the coded trits do not end where the vector does");
  }
  if (signs.overrun() || BytesForBits(signs.position()) != sign_bytes.size() ||
      !PaddingIsZero(sign_bytes, signs.position())) {
    return fail(ErrorCode::kBadFormat, coded_at + coded_bytes,
                "there are not as many signs as trits that are not zero");
  }
  return Ok();
}

Status Check(const FrameView& frame) {
  if (frame.codec_param > (frame.version == 1 ? kPacked : kCoded)) {
    return Error{ErrorCode::kBadValue,
                 "the coding of trits is 0 or 1, and 0 in version 1",
                 wire::kCodecParam.offset};
  }
  const SegmentedPayload payload = FEDMRN_TRY(Read(frame));
  if (frame.codec_param == kCoded) {
    return ForEachCodedTrit(frame, payload, [](size_t, float, int) {});
  }
  const size_t start = frame.payload.size() - payload.packed.size();
  for (size_t b = 0; b < payload.packed.size(); ++b) {
    if (payload.packed[b] > 2 * kZeroTrits) {
      return PayloadError(frame, ErrorCode::kBadValue, start + b,
                          "a byte of trits exceeds 242");
    }
  }
  const size_t used = frame.params % kTritsPerByte;
  for (size_t j = used; used != 0 && j < kTritsPerByte; ++j) {
    if (Trit(payload.packed.back(), j) != 0) {
      return PayloadError(frame, ErrorCode::kBadFormat,
                          frame.payload.size() - 1,
                          "trits behind the last parameter are set");
    }
  }
  return Ok();
}

// The same for a frame that has passed the check.
template <typename Visit>
void ForEachTrit(const FrameView& frame, Visit visit) {
  const SegmentedPayload payload = Read(frame).value();
  if (frame.codec_param == kCoded) {
    (void)ForEachCodedTrit(frame, payload, visit).value();
    return;
  }
  size_t i = 0;
  for (uint32_t s = 0; s < payload.count; ++s) {
    const float scale = payload.scale(s);
    for (const size_t end = i + payload.length(s); i < end; ++i) {
      visit(i, scale,
            Trit(payload.packed[i / kTritsPerByte], i % kTritsPerByte));
    }
  }
}

void Decode(const FrameView& frame, std::span<float> out) {
  ForEachTrit(frame, [&](size_t i, float scale, int trit) {
    out[i] = scale * static_cast<float>(trit);
  });
}

double CountKept(const FrameView& frame) {
  uint64_t kept = 0;
  ForEachTrit(frame, [&](size_t, float scale, int trit) {
    kept += scale != 0 && trit != 0;
  });
  return static_cast<double>(kept);
}

ParamText DescribeCoding(uint32_t param) {
  return {"coding", param == kPacked  ? "five trits a byte"
                    : param == kCoded ? "entropy-coded"
                                      : "unknown"};
}

constexpr PayloadFact kFacts[] = {KeptFact(CountKept), kSegmentsFact<Read>,
                                  kLargestScaleFact<Read>};

}  // namespace

extern const Codec kTernGradCodec = {
    .id = CodecId::kTernGrad,
    .name = "terngrad",
    .summary = "stochastic trits, at most 1.6 bits each",
    .uses_param = true,
    .encode = Encode,
    .validate = Validate<Check>,
    .decode = Decode,
    .addend = DecodedValues<Decode>,
    .describe_param = DescribeCoding,
    .facts = kFacts,
};

}  // namespace fedmrn
