// mrn-binary and mrn-signed: FedMRN's own. The payload is the final mask,
// either one bit a parameter or, codec_param 1, entropy-coded (coded_mask.h);
// the noise is named in the header. Encoding an update that was trained without
// masking is the paper's "FedAvg w. SM".
#include "fedmrn/core/codec_rows.h"
#include "fedmrn/core/coded_mask.h"
#include "fedmrn/core/mask.h"

namespace fedmrn {
namespace {

template <MaskKind kKind>
BitsKind KindOf(const FrameHeader& header) {
  return {kKind, header.noise};
}

template <MaskKind kKind>
Status Encode(FrameHeader& header, const EncodeOptions& options,
              std::span<const float> update, Bytes& payload) {
  const std::vector<uint32_t> tensors =
      FEDMRN_TRY(SegmentsFor(options, update.size()));
  const Masking masking{.kind = kKind,
                        .stochastic = options.stochastic,
                        .progressive = false,
                        .noise = header.noise};
  Bytes bits(BytesForBits(update.size()));
  FinalMask(masking, update, bits);
  AppendBits(options, KindOf<kKind>(header), tensors, bits, header, payload);
  return Ok();
}

template <MaskKind kKind>
Status CheckMask(FrameView& frame, Bytes* scratch) {
  std::span<uint8_t> bits;
  if (scratch != nullptr && frame.codec_param == kCodedBits) {
    scratch->resize(BytesForBits(frame.params));
    bits = *scratch;
  }
  FEDMRN_TRY(CheckBits(frame, 0, KindOf<kKind>(frame), bits));
  frame.unpacked = bits;
  return Ok();
}

// The mask's packed bits, in the frame or in `scratch`.
template <MaskKind kKind>
ByteView MaskBits(const FrameView& frame, Bytes& scratch) {
  return UnpackBits(frame, 0, KindOf<kKind>(frame), scratch);
}

template <MaskKind kKind>
void Decode(const FrameView& frame, std::span<float> out) {
  Bytes scratch;
  const ByteView bits = MaskBits<kKind>(frame, scratch);
  NoiseValues(frame.noise, 0, out);
  float factors[kTile];
  for (size_t first = 0; first < out.size(); first += kTile) {
    const size_t count = std::min(kTile, out.size() - first);
    SelectByBits(bits.data(), first, kKind == MaskKind::kBinary ? 0 : -1, 1,
                 {factors, count});
    // Adding 0 turns a dropped -0 into 0 and leaves all others.
    for (size_t i = 0; i < count; ++i) {
      out[first + i] = out[first + i] * factors[i] + 0.0f;
    }
  }
}

template <MaskKind kKind>
constexpr PayloadFact kFacts[] = {
    OnesFact([](const FrameView& frame) {
      return CountOnes(frame, 0, KindOf<kKind>(frame));
    }),
    SegmentsFact(
        [](const FrameView& frame) { return CountTensors(frame, 0); })};

template <MaskKind kKind>
constexpr Codec Row(CodecId id, std::string_view name,
                    std::string_view summary) {
  return {.id = id,
          .name = name,
          .summary = summary,
          .uses_noise = true,
          .uses_seed = true,
          .uses_param = true,
          .encode = Encode<kKind>,
          .validate = CheckMask<kKind>,
          .decode = Decode<kKind>,
          .mask = kKind,
          .addend = MaskBits<kKind>,
          .describe_param = DescribeBits,
          .facts = kFacts<kKind>};
}

}  // namespace

extern const Codec kMrnBinaryCodec = Row<MaskKind::kBinary>(
    CodecId::kMrnBinary, "mrn-binary",
    "noise kept or dropped, at most 1 bit each (FedMRN)");
extern const Codec kMrnSignedCodec = Row<MaskKind::kSigned>(
    CodecId::kMrnSigned, "mrn-signed",
    "noise kept or flipped, at most 1 bit each (FedMRNS)");

}  // namespace fedmrn
