// signsgd: stochastic signs times a scale per segment,
//   u_hat = a*s,  P(s = +1) = clip(1/2 + u/(2a), 0, 1),
// with a fixed a (options.scale), an a per segment that the client has learned
// (options.scales, FedBAT) or a = max|u| of the segment. With a fixed a it is
// exactly signed stochastic masking with Bernoulli noise of magnitude a. The
// draws are a dither of the frame's seed, which the receiver knows (coded
// signs, bit_context.h).
#include <cmath>

#include "fedmrn/core/codec_rows.h"
#include "fedmrn/core/philox.h"

namespace fedmrn {
namespace {

BitsKind KindOf(const FrameHeader& header) {
  return {MaskKind::kSigned, {NoiseKind::kNone, 0, header.noise.seed}};
}

Status Encode(FrameHeader& header, const EncodeOptions& options,
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
      scale = LargestOf(update.subspan(first, length));
    }
    scales.push_back(scale);
    first += length;
  }
  FEDMRN_TRY(AppendSegments(segments, scales, payload));

  const PhiloxStream dither{header.noise.seed, Purpose::kDither, 0};
  const Bytes packed =
      DrawBits(segments, scales, update,
               [&](size_t at, const float* of_values,
                   std::span<const float> values, uint8_t* bits) {
                 alignas(64) uint32_t words[kTile / 2];
                 PhiloxWords(dither, at / 8, words);
                 PackCentred(words, of_values, values, bits);
               });
  AppendBits(options, KindOf(header), segments, packed, header, payload);
  return Ok();
}

Result<SegmentedPayload> Read(const FrameView& frame) {
  return ReadSegments(frame, ScalePer::kSegment, kTheRest);
}

// Where the signs begin.
size_t SignsAt(const FrameView& frame, const SegmentedPayload& payload) {
  return frame.payload.size() - payload.packed.size();
}

Status Check(const FrameView& frame) {
  const SegmentedPayload payload = FEDMRN_TRY(Read(frame));
  return CheckBits(frame, SignsAt(frame, payload), KindOf(frame), {});
}

void Decode(const FrameView& frame, std::span<float> out) {
  const SegmentedPayload payload = Read(frame).value();
  Bytes scratch;
  const ByteView signs =
      UnpackBits(frame, SignsAt(frame, payload), KindOf(frame), scratch);
  size_t i = 0;
  for (uint32_t s = 0; s < payload.count; ++s) {
    const float scale = payload.scale(s);
    const uint32_t length = payload.length(s);
    SelectByBits(signs.data(), i, -scale, scale, out.subspan(i, length));
    i += length;
  }
}

constexpr PayloadFact kFacts[] = {
    OnesFact([](const FrameView& frame) {
      return CountOnes(frame, SignsAt(frame, Read(frame).value()),
                       KindOf(frame));
    }),
    kSegmentsFact<Read>, kLargestScaleFact<Read>};

}  // namespace

extern const Codec kSignSgdCodec = {
    .id = CodecId::kSignSgd,
    .name = "signsgd",
    .summary = "stochastic signs, at most 1 bit each",
    .uses_seed = true,
    .uses_param = true,
    .encode = Encode,
    .validate = Validate<Check>,
    .decode = Decode,
    .addend = DecodedValues<Decode>,
    .describe_param = DescribeBits,
    .facts = kFacts,
};

}  // namespace fedmrn
