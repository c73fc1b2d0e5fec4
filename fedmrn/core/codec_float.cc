// float32 (FedAvg) and float16: the values themselves.
#include <cmath>
#include <cstring>

#include "fedmrn/core/codec_rows.h"
#include "fedmrn/core/float16.h"

namespace fedmrn {
namespace {

Status EncodeFloat32(FrameHeader&, const EncodeOptions&,
                     std::span<const float> update, Bytes& payload) {
  AppendLe(update, payload);
  return Ok();
}

Status CheckFloat32(const FrameView& frame) {
  FEDMRN_TRY(CheckPayloadBytes(frame, 4 * frame.params));
  return CheckFloats(frame, 0, frame.params);
}

void DecodeFloat32(const FrameView& frame, std::span<float> out) {
  std::memcpy(out.data(), frame.payload.data(), frame.payload.size());
}

Status EncodeFloat16(FrameHeader&, const EncodeOptions&,
                     std::span<const float> update, Bytes& payload) {
  if (!(LargestOf(update) <= kMaxFloat16)) {
    size_t i = 0;
    while (std::fabs(update[i]) <= kMaxFloat16) ++i;
    return Error{ErrorCode::kBadValue,
                 "value " + std::to_string(i) + " exceeds float16's 65504"};
  }
  const size_t at = payload.size();
  payload.resize(at + 2 * update.size());
  Float16sFromFloats(update, payload.data() + at);
  return Ok();
}

Status CheckFloat16(const FrameView& frame) {
  FEDMRN_TRY(CheckPayloadBytes(frame, 2 * frame.params));
  const auto finite = [&](uint64_t i) {
    return (LoadLe<uint16_t>(frame.payload.data() + 2 * i) & 0x7C00) != 0x7C00;
  };
  // All of them, without a branch; which one only if there is such.
  bool all_finite = true;
  for (uint64_t i = 0; i < frame.params; ++i) all_finite &= finite(i);
  if (all_finite) return Ok();
  uint64_t i = 0;
  while (finite(i)) ++i;
  return PayloadError(frame, ErrorCode::kBadValue, 2 * i,
                      "value " + std::to_string(i) + " is not finite");
}

void DecodeFloat16(const FrameView& frame, std::span<float> out) {
  FloatsFromFloat16s(frame.payload.data(), out);
}

}  // namespace

extern const Codec kFloat32Codec = {
    .id = CodecId::kFloat32,
    .name = "float32",
    .summary = "the values, 32 bits each (FedAvg)",
    .carries_models = true,
    .encode = EncodeFloat32,
    .validate = Validate<CheckFloat32>,
    .decode = DecodeFloat32,
    .addend = PayloadItself,
};
extern const Codec kFloat16Codec = {
    .id = CodecId::kFloat16,
    .name = "float16",
    .summary = "the values, 16 bits each",
    .carries_models = true,
    .encode = EncodeFloat16,
    .validate = Validate<CheckFloat16>,
    .decode = DecodeFloat16,
    .addend = DecodedValues<DecodeFloat16>,
};

}  // namespace fedmrn
