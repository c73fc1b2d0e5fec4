// Codecs: how an update becomes payload bytes and comes back. Rows of one
// table; a new codec is a new file and a new row, and codec_test.cc tests it
// unasked.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"

namespace fedmrn {

struct FrameHeader;
struct FrameView;

// On the wire: never renumber.
enum class CodecId : uint8_t {
  kFloat32 = 1,
  kFloat16 = 2,
  kMrnBinary = 3,
  kMrnSigned = 4,
  kSignSgd = 5,
  kTopK = 6,
  kTernGrad = 7,
  kDrive = 8,
  kEden = 9,
  kMask = 10,
};

// What encoding needs to know and decoding does not.
struct EncodeOptions {
  // Private randomness of the client for stochastic codecs.
  uint64_t draw_seed = 0;
  // Lengths of the tensors, for codecs with a scale per tensor (signsgd,
  // terngrad, drive, eden); they sum to the update's. Empty: one whole vector.
  std::span<const uint32_t> segments = {};
  bool stochastic = true;  // mrn: SM; false: DM. mask: draws; false: u > 1/2
  float scale = 0;         // signsgd: the fixed scale a; 0: max|u| per segment
  std::span<const float> scales = {};  // signsgd: one per segment, if not empty
  double keep = 0.03;     // topk: share of the parameters that is sent
  float clip = 2.5f;      // terngrad: in standard deviations; 0: no clipping
  bool unbiased = false;  // drive: |r|_2^2 / |r|_1 instead of |r|_1 / d
  int bits = 1;           // eden: 1 to 4
};

struct Codec {
  CodecId id;
  std::string_view name;
  std::string_view summary;
  bool uses_noise;  // the header's noise is part of the message
  bool uses_seed;
  bool uses_param;  // header.codec_param

  // Appends the payload; sets header.codec_param. The update is finite.
  Status (*encode)(FrameHeader& header, const EncodeOptions& options,
                   std::span<const float> update, Bytes& payload);
  // Whether decode can trust the payload. Allocates nothing.
  Status (*validate)(const FrameView& frame);
  // Only for frames that have passed validate.
  void (*decode)(const FrameView& frame, std::span<float> out);
};

std::span<const Codec> Codecs();

// Null if there is none.
const Codec* FindCodec(CodecId id);
const Codec* FindCodec(std::string_view name);

}  // namespace fedmrn
