// Codecs: how an update becomes payload bytes, comes back, is added up and
// described. Rows of one table; a new codec is a new file, a new row and a new
// id, and codec_test.cc and aggregate_test.cc test it unasked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"
#include "fedmrn/core/mask.h"

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

// How the values travel that are not compressed.
enum class PlainKind : uint8_t {
  kFloat32,
  kFloat16,
  kDelta,  // quantised differences to those of the broadcast (plain_delta.h)
};

// What encoding needs to know and decoding does not.
struct EncodeOptions {
  // Private randomness of the client for stochastic codecs but mrn and signsgd,
  // whose draws follow from the header's seed.
  uint64_t draw_seed = 0;
  // Lengths of the tensors, for codecs with a scale or a table per tensor (all
  // but the floats); they sum to the update's. Empty: one whole
  // vector.
  std::span<const uint32_t> segments = {};
  bool entropy = true;  // entropy-coded where that is shorter; not drive, eden
  bool stochastic = true;  // mrn: SM; false: DM. mask: draws; false: u > 1/2
  float scale = 0;         // signsgd: the fixed scale a; 0: max|u| per segment
  std::span<const float> scales = {};  // signsgd: one per segment, if not empty
  double keep = 0.03;    // topk: share of the parameters that is sent
  float clip = 2.5f;     // terngrad: in standard deviations; 0: no clipping
  bool unbiased = true;  // drive: |r|_2^2 / |r|_1; false: |r|_1 / d
  int bits = 1;          // eden: 1 to 4
  // PlainKind::kDelta: the values that the broadcast had, and the lengths of
  // their tensors; empty: one whole vector.
  std::span<const float> plain_reference = {};
  std::span<const uint32_t> plain_segments = {};
};

// A figure about a payload, for people who inspect a frame.
struct PayloadFact {
  enum class Kind : uint8_t {
    kParams,  // a number of parameters, worth showing as a share too
    kCount,   // a number of other things
    kValue,
  };

  std::string_view key;    // for programs: "ones"
  std::string_view label;  // for people: "share of ones"
  Kind kind;
  // Allocates nothing.
  double (*value)(const FrameView& frame);
};

// header.codec_param in words.
struct ParamText {
  std::string_view label;  // "bits"
  std::string text;        // "4 a parameter"
};

// Everything about a codec; nothing elsewhere asks which codec it is.
struct Codec {
  CodecId id;
  std::string_view name;
  std::string_view summary;  // for people, in a line

  // Which fields of the header are part of the message; the others are 0.
  bool uses_noise = false;
  bool uses_seed = false;
  bool uses_param = false;  // header.codec_param

  // What it is for, besides updates.
  bool carries_models = false;         // may be a broadcast
  bool encodes_probabilities = false;  // takes these instead of an update

  // Appends the payload; sets header.codec_param. The update is finite.
  Status (*encode)(FrameHeader& header, const EncodeOptions& options,
                   std::span<const float> update, Bytes& payload) = nullptr;
  // Whether the rest can trust the payload. Allocates nothing, unless it has to
  // unpack the payload and there is a `scratch` to do it in; then
  // frame.unpacked is there.
  Status (*validate)(FrameView& frame, Bytes* scratch) = nullptr;
  // Only for frames that have passed validate, as `addend` and `facts` below.
  void (*decode)(const FrameView& frame, std::span<float> out) = nullptr;

  // What a server adds up. With a mask: its packed bits, so that the header's
  // noise is summed exactly. Without: float32 values, rounded once each.
  std::optional<MaskKind> mask = std::nullopt;
  // Either part of the frame or written to `scratch`.
  ByteView (*addend)(const FrameView& frame, Bytes& scratch) = nullptr;

  // What a person may want to know. A parameter is described whether it is
  // sound or not; null if the codec uses none.
  ParamText (*describe_param)(uint32_t param) = nullptr;
  std::span<const PayloadFact> facts = {};
};

std::span<const Codec> Codecs();

// Null if there is none.
const Codec* FindCodec(CodecId id);
const Codec* FindCodec(std::string_view name);

}  // namespace fedmrn
