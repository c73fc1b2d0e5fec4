// mask: the mask itself, one bit a parameter; no noise, no scale. The values to
// encode are probabilities, and bit i is 1 with probability clip(u_i, 0, 1), so
// that the mean of many clients' masks estimates the mean of their u. FedPM's
// upload; without `stochastic`, u_i > 1/2, FedMask's.
#include "fedmrn/core/codec_rows.h"
#include "fedmrn/core/draws.h"

namespace fedmrn {
namespace {

Status Encode(FrameHeader&, const EncodeOptions& options,
              std::span<const float> update, Bytes& payload) {
  DrawReader draws({options.draw_seed, Purpose::kEncode, 0});
  BitWriter bits(payload);
  for (const float u : update) {
    bits.Put((options.stochastic ? UniformFromWord(draws.Next()) : 0.5f) < u,
             1);
  }
  return Ok();
}

void Decode(const FrameView& frame, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = TestBit(frame.payload.data(), i) ? 1.0f : 0.0f;
  }
}

}  // namespace

extern const Codec kMaskCodec = {
    .id = CodecId::kMask,
    .name = "mask",
    .summary = "probabilities as draws of 0 or 1, 1 bit each (FedPM)",
    .encodes_probabilities = true,
    .encode = Encode,
    .validate = Validate<CheckPackedBits>,
    .decode = Decode,
    .addend = DecodedValues<Decode>,
    .facts = {&kOnesFact, 1},
};

}  // namespace fedmrn
