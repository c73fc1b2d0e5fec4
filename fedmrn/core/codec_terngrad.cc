// terngrad: per segment, clip to c standard deviations, then
//   u_hat = s*t,  t = sign(u) * Bernoulli(|u|/s),  s = max|clipped u|,
// as five trits a byte: byte = sum_j (t_j + 1) * 3^j, the last one padded with
// zero trits; or, codec_param 1 and usually shorter,
//   u8 share of non-zeros * segments | u32 bytes | t != 0, coded (rans.h)
//   | t > 0 of those that are not zero, packed bits
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "fedmrn/core/bit_context.h"
#include "fedmrn/core/codec_rows.h"
#include "fedmrn/core/coded_mask.h"
#include "fedmrn/core/rans.h"

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

// Trits as bits: which are not zero, and which of all values are positive.
struct Trits {
  Bytes kept, positive;
};

Bytes PackTrits(uint64_t params, const Trits& trits) {
  Bytes packed(TritBytes(params), kZeroTrits);
  for (size_t i = 0; i < params; ++i) {
    if (!TestBit(trits.kept.data(), i)) continue;
    const uint8_t power = kPowers[i % kTritsPerByte];
    uint8_t& byte = packed[i / kTritsPerByte];
    byte = static_cast<uint8_t>(
        TestBit(trits.positive.data(), i) ? byte + power : byte - power);
  }
  return packed;
}

// [kept][bits]: those of four bits that are kept, side by side.
constexpr auto kKeptBits = [] {
  std::array<std::array<uint8_t, 16>, 16> table{};
  for (unsigned kept = 0; kept < 16; ++kept) {
    for (unsigned bits = 0; bits < 16; ++bits) {
      int at = 0;
      for (int i = 0; i < 4; ++i) {
        if ((kept >> i & 1) == 0) continue;
        table[kept][bits] |= static_cast<uint8_t>((bits >> i & 1) << at++);
      }
    }
  }
  return table;
}();

Bytes CodeTrits(std::span<const uint32_t> segments, const Trits& trits) {
  Bytes coded, signs;
  {
    BitWriter sign_bits(signs);
    for (size_t b = 0; b < trits.kept.size(); ++b) {
      const unsigned kept = trits.kept[b], positive = trits.positive[b];
      const int low = std::popcount(kept & 15);
      sign_bits.Put(kKeptBits[kept & 15][positive & 15] |
                        kKeptBits[kept >> 4][positive >> 4] << low,
                    std::popcount(kept));
    }
  }
  std::vector<RansOnes> ones;
  for (uint32_t length : segments) {
    const uint64_t nonzero =
        CountBits(trits.kept.data(), ones.size(), ones.size() + length);
    coded.push_back(BestTableByte(length - nonzero, nonzero));
    ones.insert(ones.end(), length, OnesOfByte(coded.back()));
  }
  RansEncoder encoder;
  encoder.Put(0, ones, trits.kept.data());
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
    float largest = LargestOf(u);
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

  Trits trits;
  trits.positive.resize(BytesForBits(update.size()));
  PackAbove(update, 0, trits.positive.data());
  std::vector<float> magnitudes(update.size());
  for (size_t i = 0; i < update.size(); ++i) {
    magnitudes[i] = std::fabs(update[i]);
  }
  // |u| beyond the scale is clipped: the draw is then always below it.
  trits.kept = DrawBits(segments, scales, magnitudes,
                        [&](size_t at, std::span<float> draws) {
                          PrivateDraws(options, at, draws);
                        });
  Bytes packed;
  header.codec_param = kPacked;
  if (options.entropy) {
    packed = CodeTrits(segments, trits);
    if (packed.size() < TritBytes(update.size())) header.codec_param = kCoded;
  }
  if (header.codec_param == kPacked) packed = PackTrits(update.size(), trits);
  payload.insert(payload.end(), packed.begin(), packed.end());
  return Ok();
}

Result<SegmentedPayload> Read(const FrameView& frame) {
  return ReadSegments(
      frame, ScalePer::kSegment,
      frame.codec_param == kCoded ? kTheRest : TritBytes(frame.params));
}

// Where the parts of coded trits are, once they are known to be there.
struct CodedTrits {
  size_t coded_at;  // in payload.packed
  ByteView coded;   // which are not zero
  ByteView signs;   // of these
};

Result<CodedTrits> FindCodedTrits(const FrameView& frame,
                                  const SegmentedPayload& payload) {
  const size_t at = size_t{payload.count} + 4;
  if (payload.packed.size() >= at) {
    const auto bytes = LoadLe<uint32_t>(payload.packed.data() + payload.count);
    if (bytes <= payload.packed.size() - at) {
      return CodedTrits{at, payload.packed.subspan(at, bytes),
                        payload.packed.subspan(at + bytes)};
    }
  }
  return PayloadError(
      frame, ErrorCode::kBadFormat,
      frame.payload.size() - payload.packed.size() +
          std::min<size_t>(payload.count, payload.packed.size()),
      "the coded trits do not fit the payload");
}

// Calls visit(i) for the coded trits that are not zero, in order. Fails where
// the trits do not fit the payload.
template <typename Visit>
Status ForEachCodedTrit(const FrameView& frame, const SegmentedPayload& payload,
                        Visit visit) {
  const CodedTrits trits = FEDMRN_TRY(FindCodedTrits(frame, payload));
  const size_t coded_at =
      frame.payload.size() - payload.packed.size() + trits.coded_at;
  const auto fail = [&](ErrorCode code, size_t offset, std::string message) {
    return PayloadError(frame, code, coded_at + offset, std::move(message));
  };
  Result<RansDecoder> decoder = RansDecoder::Create(trits.coded);
  if (!decoder) {
    const Error& error = decoder.error();
    return fail(error.code, error.offset, error.message);
  }
  RansOnes ones[kTile];
  uint8_t kept[kTile / 8];
  uint64_t signs = 0;
  uint32_t segment = 0;
  size_t left = payload.length(0);
  for (uint64_t first = 0; first < frame.params; first += kTile) {
    const size_t count = std::min<uint64_t>(kTile, frame.params - first);
    for (size_t i = 0; i < count;) {
      if (left == 0) left = payload.length(++segment);
      const size_t run = std::min(left, count - i);
      std::fill_n(ones + i, run, OnesOfByte(payload.packed[segment]));
      left -= run;
      i += run;
    }
    const std::span<uint8_t> bits(kept, BytesForBits(count));
    if (!decoder->Get({ones, count}, bits)) {
      return fail(ErrorCode::kTruncated, trits.coded.size(),
                  "the coded trits end too early");
    }
    signs += CountBits(kept, 0, count);
    ForEachOne(bits, [&](size_t i) { visit(first + i); });
  }
  if (!decoder->AtEnd()) {
    return fail(ErrorCode::kBadFormat, 0,
                "the coded trits do not end where the vector does");
  }
  if (BytesForBits(signs) != trits.signs.size() ||
      !PaddingIsZero(trits.signs, signs)) {
    return fail(ErrorCode::kBadFormat, trits.coded.size(),
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
    return ForEachCodedTrit(frame, payload, [](size_t) {});
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

// For a frame that has passed the check: calls visit(i, scale, positive) for
// the trits that are not zero, in order.
template <typename Visit>
void ForEachTrit(const FrameView& frame, Visit visit) {
  const SegmentedPayload payload = Read(frame).value();
  uint32_t segment = 0;
  uint64_t end = payload.length(0);
  const auto with_scale = [&](size_t i, bool positive) {
    while (i >= end) end += payload.length(++segment);
    visit(i, payload.scale(segment), positive);
  };
  if (frame.codec_param == kCoded) {
    const uint8_t* signs = FindCodedTrits(frame, payload).value().signs.data();
    uint64_t sign = 0;
    (void)ForEachCodedTrit(frame, payload, [&](size_t i) {
      with_scale(i, TestBit(signs, sign++));
    }).value();
    return;
  }
  for (size_t i = 0; i < frame.params; ++i) {
    const int trit = Trit(payload.packed[i / kTritsPerByte], i % kTritsPerByte);
    if (trit != 0) with_scale(i, trit > 0);
  }
}

void Decode(const FrameView& frame, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0f);
  ForEachTrit(frame, [&](size_t i, float scale, bool positive) {
    out[i] = positive ? scale : -scale;
  });
}

double CountKept(const FrameView& frame) {
  uint64_t kept = 0;
  ForEachTrit(frame, [&](size_t, float scale, bool) { kept += scale != 0; });
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
