#include "fedmrn/core/frame.h"

#include <cmath>
#include <cstring>

#include "fedmrn/base/check.h"
#include "fedmrn/core/float16.h"
#include "fedmrn/core/scan.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fedmrn {
namespace {

constexpr uint8_t kMagic[4] = {'F', 'M', 'R', 'N'};

// Byte offsets of the header's fields; docs/wire-format.md has the same table.
enum Offset : size_t {
  kAtMagic = 0,
  kAtVersion = 4,
  kAtCodec = 5,
  kAtFlags = 6,
  kAtNoiseKind = 7,
  kAtRound = 8,
  kAtExamples = 12,
  kAtClient = 16,
  kAtFingerprint = 24,
  kAtSeed = 32,
  kAtParams = 40,
  kAtPayloadBytes = 48,
  kAtPlainCount = 56,
  kAtMagnitude = 60,
  kAtCodecParam = 64,
  kAtReserved = 68,
  kAtPayload = kFrameHeaderBytes,
};

constexpr uint8_t kFlagPlainHalf = 1;
constexpr uint8_t kFlagBroadcast = 2;

Error At(size_t offset, ErrorCode code, std::string message) {
  return Error{code, std::move(message), offset};
}

size_t PlainValueBytes(const FrameHeader& header) {
  return header.plain_half ? 2 : 4;
}

// The rules that a header obeys on both sides of the wire.
Status CheckHeader(const FrameHeader& header, const Codec& codec) {
  if (header.params == 0 || header.params > kMaxParams) {
    return At(kAtParams, ErrorCode::kBadValue,
              "the number of parameters, " + std::to_string(header.params) +
                  ", must be 1 to 2^32");
  }
  if (header.plain_count > kMaxPlainValues) {
    return At(kAtPlainCount, ErrorCode::kBadValue,
              std::to_string(header.plain_count) +
                  " dense values exceed the cap of 2^28");
  }
  if ((header.examples == 0) != header.broadcast) {
    return At(kAtExamples, ErrorCode::kBadValue,
              "an update has at least one example, a broadcast none");
  }
  if (header.broadcast && codec.id != CodecId::kFloat32 &&
      codec.id != CodecId::kFloat16) {
    return At(kAtCodec, ErrorCode::kBadValue,
              "a broadcast is float32 or float16");
  }
  if (codec.uses_noise) {
    if (!IsValid(header.noise)) {
      return At(kAtNoiseKind, ErrorCode::kBadValue,
                std::string(codec.name) +
                    " needs uniform, gaussian or bernoulli noise with a "
                    "magnitude of 2^-64 to 2^10");
    }
  } else if (header.noise.kind != NoiseKind::kNone ||
             header.noise.magnitude != 0 ||
             std::signbit(header.noise.magnitude)) {
    return At(kAtNoiseKind, ErrorCode::kBadValue,
              std::string(codec.name) + " takes no noise");
  }
  if (!codec.uses_seed && header.noise.seed != 0) {
    return At(kAtSeed, ErrorCode::kBadValue,
              std::string(codec.name) + " takes no seed");
  }
  return Ok();
}

Status CheckFinite(std::span<const float> values, const char* what) {
  if (AllFinite(reinterpret_cast<const uint8_t*>(values.data()),
                values.size())) {
    return Ok();
  }
  size_t i = 0;
  while (std::isfinite(values[i])) ++i;
  return Error{ErrorCode::kBadValue, std::string(what) + " value " +
                                         std::to_string(i) + " is not finite"};
}

}  // namespace

Result<Bytes> EncodeFrame(const FrameHeader& given,
                          const EncodeOptions& options,
                          std::span<const float> update,
                          std::span<const float> plain) {
  FrameHeader header = given;
  const Codec* codec = FindCodec(header.codec);
  if (codec == nullptr) {
    return Error{ErrorCode::kBadValue, "there is no such codec"};
  }
  if (plain.size() > kMaxPlainValues) {
    return Error{ErrorCode::kBadValue, "too many dense values"};
  }
  header.params = update.size();
  header.plain_count = static_cast<uint32_t>(plain.size());
  header.codec_param = 0;
  if (Status s = CheckHeader(header, *codec); !s) {
    return Error{s.error().code, s.error().message};
  }
  if (Status s = CheckFinite(update, "update"); !s) return s.error();
  if (Status s = CheckFinite(plain, "dense"); !s) return s.error();

  Bytes frame(kFrameHeaderBytes);
  if (Status s = codec->encode(header, options, update, frame); !s) {
    return s.error();
  }
  const uint64_t payload_bytes = frame.size() - kFrameHeaderBytes;

  if (header.plain_half) {
    for (size_t i = 0; i < plain.size(); ++i) {
      if (std::fabs(plain[i]) > kMaxFloat16) {
        return Error{ErrorCode::kBadValue, "dense value " + std::to_string(i) +
                                               " exceeds float16's 65504"};
      }
      AppendLe(Float16FromFloat(plain[i]), frame);
    }
  } else {
    AppendLe(plain, frame);
  }

  uint8_t* at = frame.data();
  std::memcpy(at + kAtMagic, kMagic, sizeof kMagic);
  at[kAtVersion] = kFrameVersion;
  at[kAtCodec] = static_cast<uint8_t>(header.codec);
  at[kAtFlags] = static_cast<uint8_t>((header.plain_half ? kFlagPlainHalf : 0) |
                                      (header.broadcast ? kFlagBroadcast : 0));
  at[kAtNoiseKind] = static_cast<uint8_t>(header.noise.kind);
  StoreLe(header.round, at + kAtRound);
  StoreLe(header.examples, at + kAtExamples);
  StoreLe(header.client, at + kAtClient);
  StoreLe(header.fingerprint, at + kAtFingerprint);
  StoreLe(header.noise.seed, at + kAtSeed);
  StoreLe(header.params, at + kAtParams);
  StoreLe(payload_bytes, at + kAtPayloadBytes);
  StoreLe(header.plain_count, at + kAtPlainCount);
  StoreLe(header.noise.magnitude, at + kAtMagnitude);
  StoreLe(header.codec_param, at + kAtCodecParam);
  StoreLe(uint32_t{0}, at + kAtReserved);
  AppendLe(uint64_t{XXH64(frame.data(), frame.size(), 0)}, frame);
  return frame;
}

Result<FrameView> ParseFrame(ByteView bytes) {
  constexpr size_t kLeast = kFrameHeaderBytes + kFrameChecksumBytes;
  if (bytes.size() < kLeast) {
    return At(bytes.size(), ErrorCode::kTruncated,
              "a frame has at least " + std::to_string(kLeast) +
                  " bytes, this has " + std::to_string(bytes.size()));
  }
  const uint8_t* at = bytes.data();
  if (std::memcmp(at + kAtMagic, kMagic, sizeof kMagic) != 0) {
    return At(kAtMagic, ErrorCode::kBadFormat, "not a FedMRN frame (no FMRN)");
  }
  if (at[kAtVersion] != kFrameVersion) {
    return At(kAtVersion, ErrorCode::kBadFormat,
              "frame version " + std::to_string(at[kAtVersion]) +
                  "; this program reads version " +
                  std::to_string(kFrameVersion));
  }

  // The length first: only then is it sure that the last bytes are a checksum.
  FrameView frame;
  const uint8_t flags = at[kAtFlags];
  frame.plain_half = (flags & kFlagPlainHalf) != 0;
  frame.broadcast = (flags & kFlagBroadcast) != 0;
  frame.plain_count = LoadLe<uint32_t>(at + kAtPlainCount);
  const uint64_t payload_bytes = LoadLe<uint64_t>(at + kAtPayloadBytes);
  const uint64_t plain_bytes =
      uint64_t{frame.plain_count} * PlainValueBytes(frame);
  const uint64_t room = bytes.size() - kLeast;
  if (payload_bytes > room || plain_bytes != room - payload_bytes) {
    return At(kAtPayloadBytes,
              payload_bytes > room || plain_bytes > room - payload_bytes
                  ? ErrorCode::kTruncated
                  : ErrorCode::kBadFormat,
              "header, " + std::to_string(payload_bytes) + " payload bytes, " +
                  std::to_string(plain_bytes) +
                  " dense bytes and checksum do not make a frame of " +
                  std::to_string(bytes.size()) + " bytes");
  }
  const size_t checksum_at = bytes.size() - kFrameChecksumBytes;
  if (LoadLe<uint64_t>(at + checksum_at) != XXH64(at, checksum_at, 0)) {
    return At(checksum_at, ErrorCode::kBadChecksum,
              "the checksum does not match: damaged on the way");
  }

  // From here on the bytes are what their writer meant; is that sound?
  frame.codec = static_cast<CodecId>(at[kAtCodec]);
  const Codec* codec = FindCodec(frame.codec);
  if (codec == nullptr) {
    return At(kAtCodec, ErrorCode::kBadFormat,
              "unknown codec " + std::to_string(at[kAtCodec]));
  }
  if ((flags & ~(kFlagPlainHalf | kFlagBroadcast)) != 0) {
    return At(kAtFlags, ErrorCode::kBadFormat,
              "unknown flags " + std::to_string(flags));
  }
  if (LoadLe<uint32_t>(at + kAtReserved) != 0) {
    return At(kAtReserved, ErrorCode::kBadFormat, "reserved bytes are not 0");
  }
  frame.round = LoadLe<uint32_t>(at + kAtRound);
  frame.client = LoadLe<uint64_t>(at + kAtClient);
  frame.examples = LoadLe<uint32_t>(at + kAtExamples);
  frame.fingerprint = LoadLe<uint64_t>(at + kAtFingerprint);
  frame.noise = {static_cast<NoiseKind>(at[kAtNoiseKind]),
                 LoadLe<float>(at + kAtMagnitude),
                 LoadLe<uint64_t>(at + kAtSeed)};
  frame.codec_param = LoadLe<uint32_t>(at + kAtCodecParam);
  frame.params = LoadLe<uint64_t>(at + kAtParams);
  frame.frame_bytes = bytes.size();
  frame.payload = bytes.subspan(kAtPayload, payload_bytes);
  frame.plain = bytes.subspan(kAtPayload + payload_bytes, plain_bytes);
  if (Status s = CheckHeader(frame, *codec); !s) return s.error();
  if (frame.codec_param != 0 && !codec->uses_param) {
    return At(kAtCodecParam, ErrorCode::kBadValue,
              std::string(codec->name) + " takes no parameter");
  }
  if (Status s = codec->validate(frame); !s) return s.error();

  const size_t value_bytes = PlainValueBytes(frame);
  for (uint32_t i = 0; i < frame.plain_count; ++i) {
    const uint8_t* value = frame.plain.data() + value_bytes * i;
    const bool finite = frame.plain_half
                            ? (LoadLe<uint16_t>(value) & 0x7C00) != 0x7C00
                            : std::isfinite(LoadLe<float>(value));
    if (!finite) {
      return At(kAtPayload + payload_bytes + value_bytes * i,
                ErrorCode::kBadValue,
                "dense value " + std::to_string(i) + " is not finite");
    }
  }
  return frame;
}

void FrameView::CopyPlain(std::span<float> out) const {
  FEDMRN_CHECK(out.size() == plain_count);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = plain_half ? FloatFromFloat16(LoadLe<uint16_t>(&plain[2 * i]))
                        : LoadLe<float>(&plain[4 * i]);
  }
}

void DecodeUpdate(const FrameView& frame, std::span<float> out) {
  FEDMRN_CHECK(out.size() == frame.params);
  FindCodec(frame.codec)->decode(frame, out);
}

}  // namespace fedmrn
