// Shared by the tests of the codecs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fedmrn/core/codec.h"
#include "fedmrn/core/frame.h"

namespace fedmrn {

inline FrameHeader HeaderFor(const Codec& codec, uint64_t seed = 7) {
  FrameHeader header;
  header.codec = codec.id;
  header.examples = 600;
  if (codec.uses_noise) {
    header.noise = {NoiseKind::kUniform, 0.01f, seed};
  } else if (codec.uses_seed) {
    header.noise.seed = seed;
  }
  return header;
}

inline FrameHeader HeaderFor(std::string_view name, uint64_t seed = 7) {
  return HeaderFor(*FindCodec(name), seed);
}

inline std::vector<float> Decode(ByteView bytes) {
  const FrameView frame = ParseFrame(bytes).value();
  std::vector<float> out(frame.params);
  DecodeUpdate(frame, out);
  return out;
}

inline std::vector<float> RoundTrip(const FrameHeader& header,
                                    const EncodeOptions& options,
                                    std::span<const float> update) {
  return Decode(EncodeFrame(header, options, update, {}).value());
}

}  // namespace fedmrn
