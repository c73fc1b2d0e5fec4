// signsgd: stochastic signs times a scale per segment,
//   u_hat = a*s,  P(s = +1) = clip(1/2 + u/(2a), 0, 1),
// with a fixed a (options.scale), an a per segment that the client has learned
// (options.scales, FedBAT) or a = max|u| of the segment. With a fixed a it is
// exactly signed stochastic masking with Bernoulli noise of magnitude a.
#include <cmath>

#include "fedmrn/core/codec_rows.h"
#include "fedmrn/core/draws.h"

namespace fedmrn {
namespace {

Status Encode(FrameHeader&, const EncodeOptions& options,
              std::span<const float> update, Bytes& payload) {
  const std::vector<uint32_t> segments =
      FEDMRN_TRY(SegmentsFor(options, update.size()));
  if (!options.scales.empty() && options.scales.size() != segments.size()) {
    return Error{ErrorCode::kBadValue,
                 std::to_string(options.scales.size()) + " scales for " +
                     std::to_string(segments.size()) + " segments"};
  }
  std::vector<float> scales;
  size_t first = 0;
  for (uint32_t length : segments) {
    const bool given = !options.scales.empty();
    float scale = given ? options.scales[scales.size()] : options.scale;
    if (!(scale >= 0) || !std::isfinite(scale)) {
      return Error{ErrorCode::kBadValue, "the scale must be finite and >= 0"};
    }
    if (scale == 0 && !given) {
      for (float u : update.subspan(first, length)) {
        scale = std::max(scale, std::fabs(u));
      }
    }
    scales.push_back(scale);
    first += length;
  }
  FEDMRN_TRY(AppendSegments(segments, scales, payload));

  DrawReader draws({options.draw_seed, Purpose::kEncode, 0});
  BitWriter bits(payload);
  size_t i = 0;
  for (size_t s = 0; s < segments.size(); ++s) {
    for (const size_t end = i + segments[s]; i < end; ++i) {
      const bool positive =
          CentredFromWord(draws.Next()) * scales[s] < update[i];
      bits.Put(positive, 1);
    }
  }
  return Ok();
}

Result<SegmentedPayload> Read(const FrameView& frame) {
  return ReadSegments(frame, ScalePer::kSegment, BytesForBits(frame.params));
}

Status Check(const FrameView& frame) {
  const SegmentedPayload payload = FEDMRN_TRY(Read(frame));
  if (!PaddingIsZero(payload.packed, frame.params)) {
    return PayloadError(frame, ErrorCode::kBadFormat, frame.payload.size() - 1,
                        "bits behind the last parameter are set");
  }
  return Ok();
}

void Decode(const FrameView& frame, std::span<float> out) {
  const SegmentedPayload payload = Read(frame).value();
  size_t i = 0;
  for (uint32_t s = 0; s < payload.count; ++s) {
    const float scale = payload.scale(s);
    for (const size_t end = i + payload.length(s); i < end; ++i) {
      out[i] = TestBit(payload.packed.data(), i) ? scale : -scale;
    }
  }
}

constexpr PayloadFact kFacts[] = {kOnesFact, kSegmentsFact<Read>,
                                  kLargestScaleFact<Read>};

}  // namespace

extern const Codec kSignSgdCodec = {
    .id = CodecId::kSignSgd,
    .name = "signsgd",
    .summary = "stochastic signs, 1 bit each",
    .encode = Encode,
    .validate = Validate<Check>,
    .decode = Decode,
    .addend = DecodedValues<Decode>,
    .facts = kFacts,
};

}  // namespace fedmrn
