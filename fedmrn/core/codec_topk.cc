// topk: the k values of largest magnitude over the whole vector (ties: lower
// index first) and where they are:
//   u32 k | u32 rice parameter p | f32 value * k | Rice-coded gaps
// A gap is the number of dropped parameters before a kept one. It is coded as
// gap >> p one bits, a zero bit, then the p low bits of the gap, all least
// significant bit first.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "fedmrn/core/codec_rows.h"

namespace fedmrn {
namespace {

constexpr uint32_t kMaxRice = 31;
constexpr size_t kRiceOffset = 4;
constexpr size_t kFixedBytes = 8;

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

Status Encode(FrameHeader&, const EncodeOptions& options,
              std::span<const float> update, Bytes& payload) {
  if (!(options.keep > 0 && options.keep <= 1)) {
    return Error{ErrorCode::kBadValue, "the share to keep must be in (0, 1]"};
  }
  const size_t d = update.size();
  const size_t k = std::clamp<size_t>(
      static_cast<size_t>(std::llround(options.keep * static_cast<double>(d))),
      1, std::min<size_t>(d, std::numeric_limits<uint32_t>::max()));
  std::vector<float> magnitudes(d);
  for (size_t i = 0; i < d; ++i) magnitudes[i] = std::fabs(update[i]);
  std::nth_element(magnitudes.begin(), magnitudes.begin() + (k - 1),
                   magnitudes.end(), std::greater<>());
  const float threshold = magnitudes[k - 1];
  size_t above = 0;
  for (float u : update) above += std::fabs(u) > threshold;

  std::vector<float> values;
  std::vector<uint32_t> gaps;
  size_t ties = k - above;
  size_t next = 0;
  for (size_t i = 0; i < d; ++i) {
    const float magnitude = std::fabs(update[i]);
    if (magnitude < threshold || (magnitude == threshold && ties == 0)) {
      continue;
    }
    if (magnitude == threshold) --ties;
    values.push_back(update[i]);
    gaps.push_back(static_cast<uint32_t>(i - next));
    next = i + 1;
  }

  uint32_t best = 0;
  for (uint32_t p = 1; p <= kMaxRice; ++p) {
    if (RiceBits(gaps, p) < RiceBits(gaps, best)) best = p;
  }
  AppendLe(static_cast<uint32_t>(k), payload);
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
  const ByteView code = frame.payload.subspan(kFixedBytes + size_t{4} * k);
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

Status Check(const FrameView& frame) {
  if (frame.payload.size() < kFixedBytes) {
    return PayloadError(frame, ErrorCode::kTruncated, frame.payload.size(),
                        "the payload ends before its counts");
  }
  const uint32_t k = KeptValues(frame);
  const uint32_t p = RiceParameter(frame);
  if (k == 0 || k > frame.params ||
      kFixedBytes + uint64_t{4} * k > frame.payload.size()) {
    return PayloadError(frame, ErrorCode::kBadValue, 0,
                        std::to_string(k) + " kept values cannot be");
  }
  if (p > kMaxRice) {
    return PayloadError(frame, ErrorCode::kBadValue, kRiceOffset,
                        "Rice parameter " + std::to_string(p) + " exceeds 31");
  }
  FEDMRN_TRY(CheckFloats(frame, kFixedBytes, k));
  if (!ForEachKept(frame, k, p, [](uint32_t, uint64_t) {})) {
    return PayloadError(frame, ErrorCode::kBadFormat,
                        kFixedBytes + size_t{4} * k,
                        "the positions do not fit the vector or the payload");
  }
  return Ok();
}

void Decode(const FrameView& frame, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0f);
  const uint8_t* values = frame.payload.data() + kFixedBytes;
  ForEachKept(frame, KeptValues(frame), RiceParameter(frame),
              [&](uint32_t j, uint64_t position) {
                out[position] = LoadLe<float>(values + size_t{4} * j);
              });
}

constexpr PayloadFact kKeptFact = KeptFact([](const FrameView& frame) {
  return static_cast<double>(KeptValues(frame));
});

}  // namespace

extern const Codec kTopKCodec = {
    .id = CodecId::kTopK,
    .name = "topk",
    .summary = "the largest values and their positions",
    .encode = Encode,
    .validate = Validate<Check>,
    .decode = Decode,
    .addend = DecodedValues<Decode>,
    .facts = {&kKeptFact, 1},
};

}  // namespace fedmrn
