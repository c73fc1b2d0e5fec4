// Frames: what travels. A client's update leaves the client only as a frame,
// and a server sees nothing but frames. docs/wire-format.md is the
// specification; any change to it comes with a new kFrameVersion.
//
// Both calls are pure and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"
#include "fedmrn/core/codec.h"
#include "fedmrn/core/noise.h"

namespace fedmrn {

inline constexpr uint8_t kFrameVersion = 2;  // written; 1 is read as well
inline constexpr size_t kFrameHeaderBytes = 84;
inline constexpr size_t kFrameChecksumBytes = 8;
// Caps that a parser applies before it believes a count.
inline constexpr uint64_t kMaxParams = uint64_t{1} << 32;
inline constexpr uint32_t kMaxPlainValues = uint32_t{1} << 28;
inline constexpr uint32_t kMaxExtensionBytes = uint32_t{1} << 20;
// What a server adds, and so a client sends, is no larger than this in size.
inline constexpr float kMaxPlainValue = 0x1p40f;

struct FrameHeader {
  CodecId codec = CodecId::kFloat32;
  bool broadcast = false;  // the payload is the model itself, in floats
  PlainKind plain_kind = PlainKind::kFloat32;  // of the plain section
  uint64_t run = 0;                            // which training it belongs to
  uint32_t round = 0;
  uint64_t client = 0;
  uint32_t examples = 0;     // the client's; 0 in broadcasts only
  uint64_t fingerprint = 0;  // of the model layout (layout.h)
  // The seed also feeds the rotation of DRIVE and EDEN. Kind kNone and
  // magnitude 0 for codecs without noise, seed 0 for those without a seed.
  Noise noise{NoiseKind::kNone, 0, 0};
  // Set by EncodeFrame:
  uint32_t codec_param = 0;  // see the codec's file; e.g. EDEN's bits
  uint64_t params = 0;       // number of compressed parameters
  uint32_t plain_count = 0;  // number of values in the plain section
};

// A frame that has passed every check. Points into the parsed bytes.
struct FrameView : FrameHeader {
  uint8_t version = kFrameVersion;
  ByteView payload;
  ByteView plain;
  size_t payload_at = 0;  // where the payload is in the frame
  size_t frame_bytes = 0;
  // What had to be unpacked to check the payload, if ParseFrame had room for
  // it: the codec's addend.
  ByteView unpacked;

  // Copies the plain section's values; `out` has plain_count of them. Those of
  // PlainKind::kDelta are added to the reference, the broadcast's plain
  // section; without one they stay differences.
  void CopyPlain(std::span<float> out,
                 std::span<const float> reference = {}) const;
};

// Who parses a frame.
struct Receiver {
  // What its model has: a short frame may claim many parameters, and checking
  // them takes time.
  uint64_t max_params = kMaxParams;
  // If there is one, a payload that can only be checked by unpacking it is
  // unpacked to it, so that whoever adds it up need not do it again.
  Bytes* scratch = nullptr;
};

// Compresses `update` with header.codec and wraps it up. `plain` holds what is
// not compressed (batch-norm parameters and statistics). Refuses values that
// are not finite, and settings that the codec cannot have.
Result<Bytes> EncodeFrame(const FrameHeader& header,
                          const EncodeOptions& options,
                          std::span<const float> update,
                          std::span<const float> plain);

// Checks everything: magic, version, codec, flags, counts, exact length,
// checksum, the payload's inner structure, finite values. Allocates nothing
// unless it fails, takes time linear in the input (or, for coded masks, in the
// number of parameters), and never reads beyond it.
Result<FrameView> ParseFrame(ByteView bytes, const Receiver& receiver = {});

// The seed that a client's frame must have: words 0 and 1 of block `client` of
// the run seed's stream for this round (docs/wire-format.md). A client must not
// choose its noise, so a server that knows the run seed refuses any other.
uint64_t ClientSeed(uint64_t run_seed, uint32_t round, uint64_t client);

// The update that a frame stands for; `out` has frame.params values.
void DecodeUpdate(const FrameView& frame, std::span<float> out);

}  // namespace fedmrn
