// topk: the k values of largest magnitude over the whole vector (ties: lower
// index first) and where they are:
//   u32 k | u32 rice parameter p | f32 value * k | Rice-coded gaps
// A gap is the number of dropped parameters before a kept one. It is coded as
// gap >> p one bits, a zero bit, then the p low bits of the gap, all least
// significant bit first. Or, codec_param 1 and usually shorter,
//   u32 k | f32 value * k | "parameter i is kept", coded bits (coded_mask.h)
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "fedmrn/core/codec_rows.h"
#include "fedmrn/core/coded_mask.h"

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

// Which of the values are the k of largest magnitude, as packed bits.
Bytes LargestValues(std::span<const float> update, size_t k) {
  std::vector<float> magnitudes(update.size());
  for (size_t i = 0; i < update.size(); ++i) {
    magnitudes[i] = std::fabs(update[i]);
  }
  // The bits of magnitudes are in the same order as these. Their upper ones,
  // exponent and the mantissa's first three, tell in which cell the k-th is.
  constexpr int kCellBits = 20;
  const auto cell_of = [](float magnitude) {
    return std::bit_cast<uint32_t>(magnitude) >> kCellBits;
  };
  // Some sets of counters, lest an addition waits for the one before.
  constexpr size_t kCells = size_t{1} << (31 - kCellBits);
  std::array<std::array<size_t, kCells>, 4> counts{};
  for (size_t i = 0; i < magnitudes.size(); ++i) {
    ++counts[i % 4][cell_of(magnitudes[i])];
  }
  const auto count = [&](size_t c) {
    return counts[0][c] + counts[1][c] + counts[2][c] + counts[3][c];
  };
  uint32_t cell = kCells - 1;
  size_t rank = k - 1;  // of the k-th in its cell, at last
  while (rank >= count(cell)) rank -= count(cell--);
  std::vector<float> candidates;
  for (float magnitude : magnitudes) {
    if (cell_of(magnitude) == cell) candidates.push_back(magnitude);
  }
  const auto kth = candidates.begin() + static_cast<ptrdiff_t>(rank);
  std::nth_element(candidates.begin(), kth, candidates.end(), std::greater<>());
  const float threshold = *kth;

  Bytes kept(BytesForBits(update.size()));
  PackAbove(magnitudes, threshold, kept.data());
  size_t ties = k - CountBits(kept.data(), 0, update.size());
  for (size_t i = 0; ties > 0; ++i) {
    if (magnitudes[i] != threshold) continue;
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
