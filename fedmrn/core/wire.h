// The bytes of a frame's header and its checksum, sound or not. frame.h has the
// rules that make a frame sound; docs/wire-format.md shows the same fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "fedmrn/base/bytes.h"
#include "fedmrn/core/frame.h"

namespace fedmrn::wire {

// A number at a fixed place of the header.
template <typename T>
struct Field {
  size_t offset;

  constexpr size_t end() const { return offset + sizeof(T); }
  T Load(const uint8_t* frame) const { return LoadLe<T>(frame + offset); }
  void Store(T value, uint8_t* frame) const { StoreLe(value, frame + offset); }
};

// The only place where offsets are written.
inline constexpr Field<uint32_t> kMagic{0};
inline constexpr Field<uint8_t> kVersion{4};
inline constexpr Field<uint8_t> kCodec{5};
inline constexpr Field<uint8_t> kFlags{6};
inline constexpr Field<uint8_t> kNoiseKind{7};
inline constexpr Field<uint32_t> kRound{8};
inline constexpr Field<uint32_t> kExamples{12};
inline constexpr Field<uint64_t> kClient{16};
inline constexpr Field<uint64_t> kFingerprint{24};
inline constexpr Field<uint64_t> kSeed{32};
inline constexpr Field<uint64_t> kParams{40};
inline constexpr Field<uint64_t> kPayloadBytes{48};
inline constexpr Field<uint32_t> kPlainCount{56};
inline constexpr Field<float> kMagnitude{60};
inline constexpr Field<uint32_t> kCodecParam{64};
inline constexpr Field<uint32_t> kPlainBytes{68};
inline constexpr Field<uint64_t> kRun{72};
inline constexpr Field<uint32_t> kExtensionBytes{80};
// Where the payload of a frame without extensions begins.
inline constexpr size_t kPayload = kFrameHeaderBytes;
static_assert(kExtensionBytes.end() == kPayload);

// A header of version 1 ends before the run; its last field must be 0.
inline constexpr Field<uint32_t> kReservedInVersion1 = {kPlainBytes.offset};
inline constexpr size_t kHeaderBytesOfVersion1 = kRun.offset;

inline constexpr uint32_t kMagicValue = 0x4e524d46;  // the bytes "FMRN"
inline constexpr uint8_t kPlainHalfFlag = 1;
inline constexpr uint8_t kBroadcastFlag = 2;
inline constexpr uint8_t kPlainDeltaFlag = 4;

// An extension is u16 kind | u16 length | bytes. A reader skips kinds that it
// does not know, but refuses those from here on.
inline constexpr uint16_t kMustUnderstand = 0x8000;
inline constexpr size_t kExtensionHeadBytes = 4;
// Never renumber.
inline constexpr uint16_t kMagnitudes = 0x8001;  // magnitude.h

// What the shortest frame of any version has: a header, no payload and a
// checksum.
inline constexpr size_t kLeastFrameBytes =
    kHeaderBytesOfVersion1 + kFrameChecksumBytes;

constexpr bool IsKnownVersion(uint8_t version) {
  return version == 1 || version == kFrameVersion;
}

// A header as its bytes have it. Nothing has been checked: codec and noise may
// be values that their types do not name.
struct Header : FrameHeader {
  uint8_t version = kFrameVersion;
  uint8_t flags = 0;
  uint64_t payload_bytes = 0;
  uint64_t plain_bytes = 0;
  uint32_t extension_bytes = 0;
  uint32_t reserved = 0;  // version 1 only

  size_t header_bytes() const {
    return version == 1 ? kHeaderBytesOfVersion1 : kFrameHeaderBytes;
  }
  size_t payload_at() const { return header_bytes() + extension_bytes; }
  // All plain kinds have such values but differences.
  size_t plain_value_bytes() const {
    return plain_kind == PlainKind::kFloat16 ? 2 : 4;
  }
  // The length of a whole frame with this header; a claim beyond 64 bits is
  // their largest value, which no frame has.
  uint64_t frame_bytes() const {
    const uint64_t others = payload_at() + plain_bytes + kFrameChecksumBytes;
    constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
    return payload_bytes > kMost - others ? kMost : others + payload_bytes;
  }
};

// Whether the bytes begin as every frame does.
bool HasMagic(ByteView bytes);

// The fields of the header, of which kHeaderBytesOfVersion1 bytes must be
// there; what is missing of a longer one is 0.
Header ReadHeader(ByteView frame);

// The inverse, with the magic and this version's constants; what the flags say
// is taken from the header's own bools.
void WriteHeader(const FrameHeader& header, uint32_t extension_bytes,
                 uint64_t payload_bytes, uint32_t plain_bytes, uint8_t* frame);

// The extensions of a frame with this header: what of it has no field.
Bytes ExtensionsOf(const FrameHeader& header);

// The checksum that a frame should end in, over all bytes before it, and the
// one that it does end in. A frame has at least kFrameChecksumBytes.
uint64_t ComputeChecksum(ByteView frame);
uint64_t StoredChecksum(ByteView frame);

// Overwrites the frame's last bytes with the checksum of those before them.
void StoreChecksum(Bytes& frame);

}  // namespace fedmrn::wire
