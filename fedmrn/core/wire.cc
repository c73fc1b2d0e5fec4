#include "fedmrn/core/wire.h"

#include "fedmrn/base/check.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fedmrn::wire {

bool HasMagic(ByteView bytes) {
  return bytes.size() >= kMagic.end() &&
         kMagic.Load(bytes.data()) == kMagicValue;
}

Header ReadHeader(ByteView frame) {
  FEDMRN_CHECK(frame.size() >= kHeaderBytesOfVersion1);
  const uint8_t* from = frame.data();
  Header header;
  header.version = kVersion.Load(from);
  header.codec = static_cast<CodecId>(kCodec.Load(from));
  header.flags = kFlags.Load(from);
  header.plain_kind = (header.flags & kPlainHalfFlag) != 0 ? PlainKind::kFloat16
                      : (header.flags & kPlainDeltaFlag) != 0
                          ? PlainKind::kDelta
                          : PlainKind::kFloat32;
  header.broadcast = (header.flags & kBroadcastFlag) != 0;
  header.noise = {static_cast<NoiseKind>(kNoiseKind.Load(from)),
                  kMagnitude.Load(from), kSeed.Load(from)};
  header.round = kRound.Load(from);
  header.examples = kExamples.Load(from);
  header.client = kClient.Load(from);
  header.fingerprint = kFingerprint.Load(from);
  header.params = kParams.Load(from);
  header.payload_bytes = kPayloadBytes.Load(from);
  header.plain_count = kPlainCount.Load(from);
  header.codec_param = kCodecParam.Load(from);
  if (header.version == 1) {
    header.plain_bytes =
        uint64_t{header.plain_count} * header.plain_value_bytes();
    header.reserved = kReservedInVersion1.Load(from);
  } else {
    header.plain_bytes = kPlainBytes.Load(from);
    if (frame.size() >= kFrameHeaderBytes) {
      header.run = kRun.Load(from);
      header.extension_bytes = kExtensionBytes.Load(from);
    }
  }
  return header;
}

void WriteHeader(const FrameHeader& header, uint32_t extension_bytes,
                 uint64_t payload_bytes, uint32_t plain_bytes, uint8_t* frame) {
  kMagic.Store(kMagicValue, frame);
  kVersion.Store(kFrameVersion, frame);
  kCodec.Store(static_cast<uint8_t>(header.codec), frame);
  uint8_t flags = header.broadcast ? kBroadcastFlag : 0;
  if (header.plain_kind == PlainKind::kFloat16) flags |= kPlainHalfFlag;
  if (header.plain_kind == PlainKind::kDelta) flags |= kPlainDeltaFlag;
  kFlags.Store(flags, frame);
  kNoiseKind.Store(static_cast<uint8_t>(header.noise.kind), frame);
  kRound.Store(header.round, frame);
  kExamples.Store(header.examples, frame);
  kClient.Store(header.client, frame);
  kFingerprint.Store(header.fingerprint, frame);
  kSeed.Store(header.noise.seed, frame);
  kParams.Store(header.params, frame);
  kPayloadBytes.Store(payload_bytes, frame);
  kPlainCount.Store(header.plain_count, frame);
  kMagnitude.Store(header.noise.magnitude, frame);
  kCodecParam.Store(header.codec_param, frame);
  kPlainBytes.Store(plain_bytes, frame);
  kRun.Store(header.run, frame);
  kExtensionBytes.Store(extension_bytes, frame);
}

Bytes ExtensionsOf(const FrameHeader& header) {
  Bytes extensions;
  const ByteView magnitudes = header.noise.magnitudes.bytes();
  if (!magnitudes.empty()) {
    AppendLe(kMagnitudes, extensions);
    AppendLe(static_cast<uint16_t>(magnitudes.size()), extensions);
    AppendLe(magnitudes, extensions);
  }
  return extensions;
}

uint64_t ComputeChecksum(ByteView frame) {
  FEDMRN_CHECK(frame.size() >= kFrameChecksumBytes);
  return XXH64(frame.data(), frame.size() - kFrameChecksumBytes, 0);
}

uint64_t StoredChecksum(ByteView frame) {
  FEDMRN_CHECK(frame.size() >= kFrameChecksumBytes);
  return LoadLe<uint64_t>(frame.data() + frame.size() - kFrameChecksumBytes);
}

void StoreChecksum(Bytes& frame) {
  StoreLe(ComputeChecksum(frame),
          frame.data() + frame.size() - kFrameChecksumBytes);
}

}  // namespace fedmrn::wire
