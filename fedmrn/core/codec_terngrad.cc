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
#include "fedmrn/core/scan.h"

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

// [kept][bits], of four bits each: those bits that are kept, side by side, and
// the other way round, bits side by side to where they are kept.
using FourBitTable = std::array<std::array<uint8_t, 16>, 16>;
struct FourBitTables {
  FourBitTable together{}, apart{};
};
constexpr FourBitTables kFourBits = [] {
  FourBitTables tables;
  for (unsigned kept = 0; kept < 16; ++kept) {
    for (unsigned bits = 0; bits < 16; ++bits) {
      int at = 0;
      for (int i = 0; i < 4; ++i) {
        if ((kept >> i & 1) == 0) continue;
        tables.together[kept][bits] |=
            static_cast<uint8_t>((bits >> i & 1) << at);
        tables.apart[kept][bits] |= static_cast<uint8_t>((bits >> at & 1) << i);
        ++at;
      }
    }
  }
  return tables;
}();

constexpr std::array<uint8_t, 256> kOnesOfByte = [] {
  std::array<uint8_t, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    table[byte] = static_cast<uint8_t>(std::popcount(byte));
  }
  return table;
}();

// The signs of those trits that are not zero, `count` of them, side by side.
Bytes SignsOf(const Trits& trits, uint64_t count) {
  Bytes signs(BytesForBits(count) + 4);  // words are written whole
  uint64_t held = 0;
  unsigned held_bits = 0;
  uint8_t* to = signs.data();
  for (size_t b = 0; b < trits.kept.size(); ++b) {
    const unsigned kept = trits.kept[b], positive = trits.positive[b];
    const uint64_t four = kFourBits.together[kept & 15][positive & 15],
                   next = kFourBits.together[kept >> 4][positive >> 4];
    held |= (four | next << kOnesOfByte[kept & 15]) << held_bits;
    held_bits += kOnesOfByte[kept];
    if (held_bits >= 32) {
      StoreLe(static_cast<uint32_t>(held), to);
      to += 4;
      held >>= 32;
      held_bits -= 32;
    }
  }
  StoreLe(static_cast<uint32_t>(held), to);
  signs.resize(BytesForBits(count));
  return signs;
}

Bytes CodeTrits(std::span<const uint32_t> segments, const Trits& trits) {
  Bytes coded;
  uint64_t end = 0, kept = 0;
  for (uint32_t length : segments) {
    const uint64_t nonzero = CountBits(trits.kept.data(), end, end + length);
    coded.push_back(BestTableByte(length - nonzero, nonzero));
    kept += nonzero;
    end += length;
  }
  RansEncoder encoder;
  RansOnes ones[kTile];
  size_t segment = segments.size();
  uint64_t left = 0;
  for (uint64_t tile = TilesFor(end); tile-- > 0;) {
    const size_t count = std::min<uint64_t>(kTile, end - tile * kTile);
    for (size_t i = count; i > 0;) {
      if (left == 0) left = segments[--segment];
      const size_t run = std::min<uint64_t>(left, i);
      left -= run;
      i -= run;
      std::fill_n(ones + i, run, OnesOfByte(coded[segment]));
    }
    encoder.Put(tile * kTile, {ones, count},
                trits.kept.data() + tile * (kTile / 8));
  }
  Bytes kept_coded;
  encoder.Finish(kept_coded);
  AppendLe(static_cast<uint32_t>(kept_coded.size()), coded);
  coded.insert(coded.end(), kept_coded.begin(), kept_coded.end());
  const Bytes signs = SignsOf(trits, kept);
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
      const double mean = LaneSum(u) / length;
      const double variance = LaneSumOfSquares(u, mean) / length;
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
  // |u| beyond the scale is clipped: the draw is then always below it.
  trits.kept =
      DrawPrivateBits(options, Below::kMagnitudes, segments, scales, update);
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

// Walks over the segments.
class SegmentWalk {
 public:
  explicit SegmentWalk(const SegmentedPayload& payload)
      : payload_(payload), left_(payload.length(0)) {}

  // Calls visit(i, run, segment) for the runs of the next `count` parameters
  // that are of one segment; i begins at 0.
  template <typename Visit>
  void Next(size_t count, Visit visit) {
    for (size_t i = 0; i < count;) {
      if (left_ == 0) left_ = payload_.length(++segment_);
      const size_t run = std::min<size_t>(left_, count - i);
      visit(i, run, segment_);
      left_ -= run;
      i += run;
    }
  }

 private:
  const SegmentedPayload& payload_;
  uint32_t segment_ = 0;
  uint64_t left_;
};

// Calls visit(first, count, kept) for the tiles of coded trits, in order:
// parameters from `first` on, and which of them are not zero. Fails where the
// trits do not fit the payload.
template <typename Visit>
Status ForEachCodedTile(const FrameView& frame, const SegmentedPayload& payload,
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
  SegmentWalk walk(payload);
  for (uint64_t first = 0; first < frame.params; first += kTile) {
    const size_t count = std::min<uint64_t>(kTile, frame.params - first);
    walk.Next(count, [&](size_t i, size_t run, uint32_t segment) {
      std::fill_n(ones + i, run, OnesOfByte(payload.packed[segment]));
    });
    if (!decoder->Get({ones, count}, {kept, BytesForBits(count)})) {
      return fail(ErrorCode::kTruncated, trits.coded.size(),
                  "the coded trits end too early");
    }
    signs += CountBits(kept, 0, count);
    visit(first, count, kept);
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
    return ForEachCodedTile(frame, payload,
                            [](uint64_t, size_t, const uint8_t*) {});
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

// All from here on is for frames that have passed the check.

// Calls visit(i, scale, positive) for the packed trits that are not zero, in
// order.
template <typename Visit>
void ForEachPackedTrit(const FrameView& frame, const SegmentedPayload& payload,
                       Visit visit) {
  SegmentWalk(payload).Next(
      frame.params, [&](size_t first, size_t run, uint32_t segment) {
        const float scale = payload.scale(segment);
        for (size_t i = first; i < first + run; ++i) {
          const int trit =
              Trit(payload.packed[i / kTritsPerByte], i % kTritsPerByte);
          if (trit != 0) visit(i, scale, trit > 0);
        }
      });
}

void DecodeCoded(const FrameView& frame, const SegmentedPayload& payload,
                 std::span<float> out) {
  const ByteView packed_signs = FindCodedTrits(frame, payload).value().signs;
  Bytes signs(packed_signs.begin(), packed_signs.end());
  signs.resize(signs.size() + 2);  // two bytes are read at a time
  uint64_t sign = 0;
  SegmentWalk walk(payload);
  const auto decode_tile = [&](uint64_t first, size_t count,
                               const uint8_t* kept) {
    uint8_t positive[kTile / 8];
    for (size_t b = 0; b < BytesForBits(count); ++b) {
      const unsigned low = kept[b] & 15, high = kept[b] >> 4;
      const unsigned next =
          unsigned{LoadLe<uint16_t>(&signs[sign / 8])} >> sign % 8;
      positive[b] = static_cast<uint8_t>(
          kFourBits.apart[low][next & 15] |
          kFourBits.apart[high][next >> kOnesOfByte[low] & 15] << 4);
      sign += kOnesOfByte[kept[b]];
    }
    walk.Next(count, [&](size_t i, size_t run, uint32_t segment) {
      SelectTrits(kept, positive, i, payload.scale(segment),
                  out.subspan(first + i, run));
    });
  };
  (void)ForEachCodedTile(frame, payload, decode_tile).value();
}

void Decode(const FrameView& frame, std::span<float> out) {
  const SegmentedPayload payload = Read(frame).value();
  if (frame.codec_param == kCoded) return DecodeCoded(frame, payload, out);
  std::fill(out.begin(), out.end(), 0.0f);
  ForEachPackedTrit(frame, payload, [&](size_t i, float scale, bool positive) {
    out[i] = positive ? scale : -scale;
  });
}

double CountKept(const FrameView& frame) {
  const SegmentedPayload payload = Read(frame).value();
  uint64_t count_kept = 0;
  if (frame.codec_param == kPacked) {
    ForEachPackedTrit(frame, payload, [&](size_t, float scale, bool) {
      count_kept += scale != 0;
    });
    return static_cast<double>(count_kept);
  }
  SegmentWalk walk(payload);
  const auto count_tile = [&](uint64_t, size_t count, const uint8_t* kept) {
    walk.Next(count, [&](size_t i, size_t run, uint32_t segment) {
      if (payload.scale(segment) != 0) {
        count_kept += CountBits(kept, i, i + run);
      }
    });
  };
  (void)ForEachCodedTile(frame, payload, count_tile).value();
  return static_cast<double>(count_kept);
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
