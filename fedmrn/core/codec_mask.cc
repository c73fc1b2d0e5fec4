// mask: the mask itself, at most one bit a parameter; no noise, no scale. The
// values to encode are probabilities, and bit i is 1 with probability
// clip(u_i, 0, 1), so that the mean of many clients' masks estimates the mean
// of their u. FedPM's upload; without `stochastic`, u_i > 1/2, FedMask's. Coded
// bits have no context but their tensor.
#include "fedmrn/core/codec_rows.h"

namespace fedmrn {
namespace {

Status Encode(FrameHeader& header, const EncodeOptions& options,
              std::span<const float> update, Bytes& payload) {
  const std::vector<uint32_t> tensors =
      FEDMRN_TRY(SegmentsFor(options, update.size()));
  Bytes packed(BytesForBits(update.size()));
  if (options.stochastic) {
    packed = DrawPrivateBits(options, Below::kValues, tensors,
                             std::vector<float>(tensors.size(), 1), update);
  } else {
    PackAbove(update, 0.5f, packed.data());
  }
  AppendBits(options, kBitsAlone, tensors, packed, header, payload);
  return Ok();
}

Status Check(const FrameView& frame) {
  return CheckBits(frame, 0, kBitsAlone, {});
}

void Decode(const FrameView& frame, std::span<float> out) {
  Bytes scratch;
  const ByteView bits = UnpackBits(frame, 0, kBitsAlone, scratch);
  SelectByBits(bits.data(), 0, 0, 1, out);
}

constexpr PayloadFact kFacts[] = {OnesFact([](const FrameView& frame) {
                                    return CountOnes(frame, 0, kBitsAlone);
                                  }),
                                  SegmentsFact([](const FrameView& frame) {
                                    return CountTensors(frame, 0);
                                  })};

}  // namespace

extern const Codec kMaskCodec = {
    .id = CodecId::kMask,
    .name = "mask",
    .summary = "probabilities as draws of 0 or 1, at most 1 bit each (FedPM)",
    .uses_param = true,
    .encodes_probabilities = true,
    .encode = Encode,
    .validate = Validate<Check>,
    .decode = Decode,
    .addend = DecodedValues<Decode>,
    .describe_param = DescribeBits,
    .facts = kFacts,
};

}  // namespace fedmrn
