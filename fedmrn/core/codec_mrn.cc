// mrn-binary and mrn-signed: FedMRN's own. The payload is the final mask, one
// bit a parameter; the noise is named in the header. Encoding an update that
// was trained without masking is the paper's "FedAvg w. SM".
#include "fedmrn/core/codec_rows.h"
#include "fedmrn/core/mask.h"

namespace fedmrn {
namespace {

template <MaskKind kKind>
Status Encode(FrameHeader& header, const EncodeOptions& options,
              std::span<const float> update, Bytes& payload) {
  const Masking masking{.kind = kKind,
                        .stochastic = options.stochastic,
                        .progressive = false,
                        .noise = header.noise,
                        .draw_seed = options.draw_seed};
  const size_t at = payload.size();
  payload.resize(at + BytesForBits(update.size()));
  FinalMask(masking, update, std::span(payload).subspan(at));
  return Ok();
}

template <MaskKind kKind>
void Decode(const FrameView& frame, std::span<float> out) {
  NoiseValues(frame.noise, 0, out);
  for (size_t i = 0; i < out.size(); ++i) {
    if (!TestBit(frame.payload.data(), i)) {
      out[i] = kKind == MaskKind::kBinary ? 0 : -out[i];
    }
  }
}

}  // namespace

extern const Codec kMrnBinaryCodec = {
    .id = CodecId::kMrnBinary,
    .name = "mrn-binary",
    .summary = "seeded noise kept or dropped, 1 bit each (FedMRN)",
    .uses_noise = true,
    .uses_seed = true,
    .encode = Encode<MaskKind::kBinary>,
    .validate = CheckPackedBits,
    .decode = Decode<MaskKind::kBinary>,
    .mask = MaskKind::kBinary,
    .addend = PayloadItself,
    .facts = {&kOnesFact, 1},
};
extern const Codec kMrnSignedCodec = {
    .id = CodecId::kMrnSigned,
    .name = "mrn-signed",
    .summary = "seeded noise kept or flipped, 1 bit each (FedMRNS)",
    .uses_noise = true,
    .uses_seed = true,
    .encode = Encode<MaskKind::kSigned>,
    .validate = CheckPackedBits,
    .decode = Decode<MaskKind::kSigned>,
    .mask = MaskKind::kSigned,
    .addend = PayloadItself,
    .facts = {&kOnesFact, 1},
};

}  // namespace fedmrn
