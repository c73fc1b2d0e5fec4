// topk: the k values of largest magnitude over the whole vector (ties: lower
// index first) and where they are:
//   u32 k | u32 rice parameter p | f32 value * k | Rice-coded gaps
// A gap is the number of dropped parameters before a kept one. It is coded as
// gap >> p one bits, a zero bit, then the p low bits of the gap, all least
// significant bit first. Or, codec_param 1 and usually shorter,
//   u32 k | f32 value * k | "parameter i is kept", coded bits (coded_mask.h)
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "fedmrn/core/codec_rows.h"
#include "fedmrn/core/coded_mask.h"
#include "fedmrn/core/scan.h"

namespace fedmrn {
namespace {

constexpr uint32_t kMaxRice = 31;
constexpr size_t kRiceOffset = 4;
constexpr uint32_t kRice = kPlainBits, kCoded = kCodedBits;

// Where the values begin; the positions are behind them.
constexpr size_t kRiceValuesAt = 8, kCodedValuesAt = 4;
size_t ValuesAt(const FrameView& frame) {
  return frame.codec_param == kCoded ? kCodedValuesAt : kRiceValuesAt;
}

uint32_t KeptValues(const FrameView& frame) {
  return LoadLe<uint32_t>(frame.payload.data());
}

uint32_t RiceParameter(const FrameView& frame) {
  return LoadLe<uint32_t>(frame.payload.data() + kRiceOffset);
}

uint64_t RiceBits(std::span<const uint32_t> gaps, uint32_t p) {
  uint64_t bits = gaps.size() * (uint64_t{p} + 1);
  for (uint32_t gap : gaps) bits += gap >> p;
  return bits;
}

// The parameter that takes the fewest bits: these fall, then rise, since each
// step saves less than the one before and costs a bit a gap.
uint32_t BestRice(std::span<const uint32_t> gaps) {
  uint32_t best = 0;
  uint64_t least = RiceBits(gaps, 0);
  for (uint32_t p = 1; p <= kMaxRice; ++p) {
    const uint64_t bits = RiceBits(gaps, p);
    if (bits >= least) break;
    best = p;
    least = bits;
  }
  return best;
}

uint32_t MagnitudeBits(float value) {
  return std::bit_cast<uint32_t>(value) & 0x7FFFFFFF;
}

// Magnitudes by their bits, which are in the same order: some from `low` up to
// `high`, of which one is the k-th largest of all.
struct Candidates {
  std::unique_ptr<uint32_t[]> room;
  std::span<uint32_t> bits;
  size_t above = 0;  // how many of all are larger than these
};

// Where a sample says that the k-th largest is, with little doubt; and where
// else, if it is not there.
Candidates CandidatesFor(std::span<const float> update, size_t k) {
  constexpr size_t kSample = 8192;
  constexpr uint32_t kTop = 0x7F800000;  // all are finite
  uint32_t low = 0, high = kTop;
  if (update.size() >= 4 * kSample) {
    const size_t each = update.size() / kSample;
    std::vector<uint32_t> sample(kSample);
    for (size_t i = 0; i < kSample; ++i) {
      sample[i] = MagnitudeBits(update[i * each]);
    }
    // Four standard deviations of the k-th one's rank in a sample either way.
    const double rank = static_cast<double>(k) / static_cast<double>(each);
    const double doubt = 4 * std::sqrt(rank) + 8;
    const auto from_top = [&](double r) {
      const auto nth = sample.begin() + static_cast<ptrdiff_t>(r);
      std::nth_element(sample.begin(), nth, sample.end(), std::greater<>());
      return *nth;
    };
    if (rank + doubt < kSample) low = from_top(rank + doubt);
    if (rank - doubt >= 0) high = from_top(rank - doubt);
  }
  Candidates found;
  found.room = std::make_unique_for_overwrite<uint32_t[]>(update.size() + 16);
  for (;;) {
    found.above = 0;
    const size_t count =
        MagnitudesBetween(update, low, high, found.room.get(), found.above);
    if (k <= found.above) {
      low = std::exchange(high, kTop);
    } else if (k > found.above + count) {
      high = std::exchange(low, 0);
    } else {
      found.bits = {found.room.get(), count};
      return found;
    }
  }
}

// Which of the values are the k of largest magnitude, as packed bits.
Bytes LargestValues(std::span<const float> update, size_t k) {
  const Candidates candidates = CandidatesFor(update, k);
  const auto kth = candidates.bits.begin() +
                   static_cast<ptrdiff_t>(k - 1 - candidates.above);
  std::nth_element(candidates.bits.begin(), kth, candidates.bits.end(),
                   std::greater<>());
  const uint32_t threshold = *kth;
  const auto equal = std::count(kth, candidates.bits.end(), threshold);

  Bytes kept(BytesForBits(update.size()));
  if (equal == 1 && threshold > 0) {  // and so none is left out
    PackFarther(update, std::bit_cast<float>(threshold - 1), kept.data());
    return kept;
  }
  PackFarther(update, std::bit_cast<float>(threshold), kept.data());
  size_t ties = k - CountBits(kept.data(), 0, update.size());
  for (size_t i = 0; ties > 0; ++i) {
    if (MagnitudeBits(update[i]) != threshold) continue;
    kept[i / 8] |= static_cast<uint8_t>(1u << i % 8);
    --ties;
  }
  return kept;
}

Status Encode(FrameHeader& header, const EncodeOptions& options,
              std::span<const float> update, Bytes& payload) {
  if (!(options.keep > 0 && options.keep <= 1)) {
    return Error{ErrorCode::kBadValue, "the share to keep must be in (0, 1]"};
  }
  const std::vector<uint32_t> tensors =
      FEDMRN_TRY(SegmentsFor(options, update.size()));
  const size_t d = update.size();
  const size_t k = std::clamp<size_t>(
      static_cast<size_t>(std::llround(options.keep * static_cast<double>(d))),
      1, std::min<size_t>(d, std::numeric_limits<uint32_t>::max()));
  const Bytes kept = LargestValues(update, k);
  std::vector<float> values;
  std::vector<uint32_t> gaps;
  values.reserve(k);
  gaps.reserve(k);
  size_t next = 0;
  ForEachOne(kept, [&](size_t i) {
    values.push_back(update[i]);
    gaps.push_back(static_cast<uint32_t>(i - next));
    next = i + 1;
  });

  const uint32_t best = BestRice(gaps);
  AppendLe(static_cast<uint32_t>(k), payload);
  if (options.entropy) {
    Bytes coded;
    AppendCodedMask(kBitsAlone.mask, kBitsAlone.noise, tensors, kept, coded);
    if (coded.size() < 4 + BytesForBits(RiceBits(gaps, best))) {
      header.codec_param = kCoded;
      AppendLe(std::span<const float>(values), payload);
      payload.insert(payload.end(), coded.begin(), coded.end());
      return Ok();
    }
  }
  header.codec_param = kRice;
  AppendLe(best, payload);
  AppendLe(std::span<const float>(values), payload);
  BitWriter bits(payload);
  for (uint32_t gap : gaps) {
    for (uint32_t q = gap >> best; q > 0; --q) bits.Put(1, 1);
    bits.Put(0, 1);
    bits.Put(gap & ((1u << best) - 1), static_cast<int>(best));
  }
  return Ok();
}

// Calls visit(j, position) for the kept parameters in order. False if the bits
// end early, name a position beyond the vector, or do not end in the last byte
// with zero padding.
template <typename Visit>
bool ForEachKept(const FrameView& frame, uint32_t k, uint32_t p, Visit visit) {
  const ByteView code = frame.payload.subspan(kRiceValuesAt + size_t{4} * k);
  BitReader bits(code);
  uint64_t next = 0;
  for (uint32_t j = 0; j < k; ++j) {
    uint64_t quotient = 0;
    while (bits.Get(1) == 1) {
      // Also keeps the shift below from overflowing.
      if (++quotient > frame.params) return false;
    }
    const uint64_t gap = (quotient << p) | bits.Get(static_cast<int>(p));
    if (bits.overrun() || gap >= frame.params - next) return false;
    visit(j, next + gap);
    next += gap + 1;
    if (next == frame.params && j + 1 < k) return false;
  }
  return BytesForBits(bits.position()) == code.size() &&
         PaddingIsZero(code, bits.position());
}

// The coded positions: how many are kept, and, if `bits` are not empty, which.
Result<uint64_t> DecodeKept(const FrameView& frame, std::span<uint8_t> bits) {
  return DecodeMask(
      kBitsAlone.mask, kBitsAlone.noise, frame.params,
      frame.payload.subspan(kCodedValuesAt + size_t{4} * KeptValues(frame)),
      bits);
}

Status CheckCoded(const FrameView& frame) {
  const size_t at = kCodedValuesAt + size_t{4} * KeptValues(frame);
  const Result<uint64_t> kept = DecodeKept(frame, {});
  if (!kept) {
    return PayloadError(frame, kept.error().code, at + kept.error().offset,
                        kept.error().message);
  }
  if (*kept != KeptValues(frame)) {
    return PayloadError(frame, ErrorCode::kBadValue, 0,
                        std::to_string(*kept) + " positions for " +
                            std::to_string(KeptValues(frame)) + " values");
  }
  return Ok();
}

Status CheckRice(const FrameView& frame) {
  const uint32_t k = KeptValues(frame), p = RiceParameter(frame);
  if (p > kMaxRice) {
    return PayloadError(frame, ErrorCode::kBadValue, kRiceOffset,
                        "Rice parameter " + std::to_string(p) + " exceeds 31");
  }
  if (!ForEachKept(frame, k, p, [](uint32_t, uint64_t) {})) {
    return PayloadError(frame, ErrorCode::kBadFormat,
                        kRiceValuesAt + size_t{4} * k,
                        "the positions do not fit the vector or the payload");
  }
  return Ok();
}

Status Check(const FrameView& frame) {
  if (frame.codec_param > (frame.version == 1 ? kRice : kCoded)) {
    return Error{ErrorCode::kBadValue,
                 "the coding of positions is 0 or 1, and 0 in version 1",
                 wire::kCodecParam.offset};
  }
  const size_t at = ValuesAt(frame);
  if (frame.payload.size() < at) {
    return PayloadError(frame, ErrorCode::kTruncated, frame.payload.size(),
                        "the payload ends before its counts");
  }
  const uint32_t k = KeptValues(frame);
  if (k == 0 || k > frame.params ||
      at + uint64_t{4} * k > frame.payload.size()) {
    return PayloadError(frame, ErrorCode::kBadValue, 0,
                        std::to_string(k) + " kept values cannot be");
  }
  FEDMRN_TRY(CheckFloats(frame, at, k));
  return frame.codec_param == kCoded ? CheckCoded(frame) : CheckRice(frame);
}

void Decode(const FrameView& frame, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0f);
  const uint8_t* values = frame.payload.data() + ValuesAt(frame);
  const auto keep = [&](uint32_t j, uint64_t position) {
    out[position] = LoadLe<float>(values + size_t{4} * j);
  };
  if (frame.codec_param == kRice) {
    ForEachKept(frame, KeptValues(frame), RiceParameter(frame), keep);
    return;
  }
  Bytes bits(BytesForBits(out.size()));
  (void)DecodeKept(frame, bits).value();
  uint32_t j = 0;
  ForEachOne(bits, [&](size_t i) { keep(j++, i); });
}

ParamText DescribeCoding(uint32_t param) {
  return {"positions", param == kRice    ? "Rice-coded"
                       : param == kCoded ? "entropy-coded"
                                         : "unknown"};
}

constexpr PayloadFact kFacts[] = {
    KeptFact([](const FrameView& frame) {
      return static_cast<double>(KeptValues(frame));
    }),
    SegmentsFact([](const FrameView& frame) {
      return CountTensors(frame,
                          ValuesAt(frame) + size_t{4} * KeptValues(frame));
    })};

}  // namespace

extern const Codec kTopKCodec = {
    .id = CodecId::kTopK,
    .name = "topk",
    .summary = "the largest values and their positions",
    .uses_param = true,
    .encode = Encode,
    .validate = Validate<Check>,
    .decode = Decode,
    .addend = DecodedValues<Decode>,
    .describe_param = DescribeCoding,
    .facts = kFacts,
};

}  // namespace fedmrn
