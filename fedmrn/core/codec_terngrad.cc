// terngrad: per segment, clip to c standard deviations, then
//   u_hat = s*t,  t = sign(u) * Bernoulli(|u|/s),  s = max|clipped u|,
// five trits a byte: byte = sum_j (t_j + 1) * 3^j, the last one padded with
// zero trits.
#include <algorithm>
#include <cmath>

#include "fedmrn/core/codec_rows.h"
#include "fedmrn/core/draws.h"

namespace fedmrn {
namespace {

constexpr uint32_t kTritsPerByte = 5;
constexpr uint8_t kZeroTrits = 1 + 3 + 9 + 27 + 81;  // five trits of value 0
constexpr uint8_t kPowers[] = {1, 3, 9, 27, 81};

uint64_t TritBytes(uint64_t params) {
  return params / kTritsPerByte + (params % kTritsPerByte != 0);
}

int Trit(uint8_t byte, size_t j) { return byte / kPowers[j] % 3 - 1; }

Status Encode(FrameHeader&, const EncodeOptions& options,
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
  const size_t packed = payload.size();
  payload.resize(packed + TritBytes(update.size()), kZeroTrits);
  size_t i = 0;
  for (size_t s = 0; s < segments.size(); ++s) {
    for (const size_t end = i + segments[s]; i < end; ++i) {
      const float u = update[i];
      // |u| beyond the scale is clipped: the draw is then always below it.
      if (UniformFromWord(draws.Next()) * scales[s] < std::fabs(u)) {
        uint8_t& byte = payload[packed + i / kTritsPerByte];
        const uint8_t power = kPowers[i % kTritsPerByte];
        byte = static_cast<uint8_t>(u > 0 ? byte + power : byte - power);
      }
    }
  }
  return Ok();
}

Result<SegmentedPayload> Read(const FrameView& frame) {
  return ReadSegments(frame, ScalePer::kSegment, TritBytes(frame.params));
}

Status Check(const FrameView& frame) {
  const SegmentedPayload payload = FEDMRN_TRY(Read(frame));
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

// Calls visit(i, scale, trit) for the parameters in order.
template <typename Visit>
void ForEachTrit(const FrameView& frame, Visit visit) {
  const SegmentedPayload payload = Read(frame).value();
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

constexpr PayloadFact kFacts[] = {KeptFact(CountKept), kSegmentsFact<Read>,
                                  kLargestScaleFact<Read>};

}  // namespace

extern const Codec kTernGradCodec = {
    .id = CodecId::kTernGrad,
    .name = "terngrad",
    .summary = "stochastic trits, 1.6 bits each",
    .encode = Encode,
    .validate = Validate<Check>,
    .decode = Decode,
    .addend = DecodedValues<Decode>,
    .facts = kFacts,
};

}  // namespace fedmrn
