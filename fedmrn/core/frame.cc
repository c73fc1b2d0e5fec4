#include "fedmrn/core/frame.h"

#include <cmath>
#include <limits>

#include "fedmrn/base/check.h"
#include "fedmrn/core/float16.h"
#include "fedmrn/core/philox.h"
#include "fedmrn/core/plain_delta.h"
#include "fedmrn/core/scan.h"
#include "fedmrn/core/wire.h"

namespace fedmrn {
namespace {

Error At(size_t offset, ErrorCode code, std::string message) {
  return Error{code, std::move(message), offset};
}

// A tensor's magnitude is a magnitude, and the tensors are the parameters.
Status CheckMagnitudes(const FrameHeader& header, const Codec& codec) {
  constexpr size_t kAt = wire::kPayload + wire::kExtensionHeadBytes;
  const MagnitudesView& magnitudes = header.noise.magnitudes;
  if (!codec.uses_noise && !header.broadcast) {
    return At(kAt, ErrorCode::kBadValue,
              std::string(codec.name) + " takes no magnitudes");
  }
  if (magnitudes.bytes().size() > std::numeric_limits<uint16_t>::max()) {
    return At(kAt, ErrorCode::kBadValue,
              std::to_string(magnitudes.size()) +
                  " tensors are too many to have a magnitude each");
  }
  for (size_t t = 0; t < magnitudes.size(); ++t) {
    const auto [length, magnitude] = magnitudes[t];
    if (length == 0 ||
        !IsValid({.kind = NoiseKind::kUniform, .magnitude = magnitude})) {
      return At(kAt + MagnitudesView::kBytesEach * t, ErrorCode::kBadValue,
                "tensor " + std::to_string(t) +
                    " is empty, or its magnitude is not 2^-64 to 2^10");
    }
  }
  if (magnitudes.params() != header.params) {
    return At(kAt, ErrorCode::kBadFormat,
              "the tensors with magnitudes sum to " +
                  std::to_string(magnitudes.params()) + " instead of " +
                  std::to_string(header.params));
  }
  return Ok();
}

// The rules that a header obeys on both sides of the wire.
Status CheckHeader(const FrameHeader& header, const Codec& codec) {
  if (header.params == 0 || header.params > kMaxParams) {
    return At(wire::kParams.offset, ErrorCode::kBadValue,
              "the number of parameters, " + std::to_string(header.params) +
                  ", must be 1 to 2^32");
  }
  if (header.plain_count > kMaxPlainValues) {
    return At(wire::kPlainCount.offset, ErrorCode::kBadValue,
              std::to_string(header.plain_count) +
                  " plain values exceed the cap of 2^28");
  }
  if ((header.examples == 0) != header.broadcast) {
    return At(wire::kExamples.offset, ErrorCode::kBadValue,
              "an update has at least one example, a broadcast none");
  }
  if (header.broadcast && !codec.carries_models) {
    return At(wire::kCodec.offset, ErrorCode::kBadValue,
              std::string(codec.name) + " carries no model for a broadcast");
  }
  if (header.broadcast && header.plain_kind == PlainKind::kDelta) {
    return At(wire::kFlags.offset, ErrorCode::kBadValue,
              "a broadcast has nothing to differ from");
  }
  if (!header.noise.magnitudes.empty()) {
    FEDMRN_TRY(CheckMagnitudes(header, codec));
  }
  if (codec.uses_noise) {
    if (!IsValid(header.noise) || std::signbit(header.noise.magnitude)) {
      return At(wire::kNoiseKind.offset, ErrorCode::kBadValue,
                std::string(codec.name) +
                    " needs uniform, gaussian or bernoulli noise with a "
                    "magnitude of 2^-64 to 2^10, or 0 beside magnitudes of "
                    "tensors");
    }
  } else if (header.noise.kind != NoiseKind::kNone ||
             header.noise.magnitude != 0 ||
             std::signbit(header.noise.magnitude)) {
    return At(wire::kNoiseKind.offset, ErrorCode::kBadValue,
              std::string(codec.name) + " takes no noise");
  }
  if (!codec.uses_seed && header.noise.seed != 0) {
    return At(wire::kSeed.offset, ErrorCode::kBadValue,
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
  return Error{ErrorCode::kNotFinite, std::string(what) + " value " +
                                          std::to_string(i) + " is not finite"};
}

// Differences between such values are so few of their steps that no integer
// overflows and none is long; an aggregator takes no larger ones either.
Status CheckWithinLimit(std::span<const float> values, const char* what) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::fabs(values[i]) <= kMaxPlainValue) continue;
    return Error{
        ErrorCode::kNotFinite,
        std::string(what) + " value " + std::to_string(i) + " exceeds 2^40"};
  }
  return Ok();
}

// From what both sides know, and not from the run: how masks are coded is part
// of a run's id, but must not change the model.
uint64_t PlainDitherSeed(const FrameHeader& header) {
  return ClientSeed(header.fingerprint + header.noise.seed, header.round,
                    header.client);
}

Status AppendPlainDeltas(const FrameHeader& header,
                         const EncodeOptions& options,
                         std::span<const float> plain, Bytes& frame) {
  const uint32_t whole[] = {static_cast<uint32_t>(plain.size())};
  const std::span<const uint32_t> tensors =
      options.plain_segments.empty() ? std::span<const uint32_t>(whole)
                                     : options.plain_segments;
  uint64_t sum = 0;
  for (const uint32_t length : tensors) sum += length;
  if (sum != plain.size() || options.plain_reference.size() != plain.size()) {
    return Error{ErrorCode::kBadValue,
                 "the plain section's reference or tensors are not as long as "
                 "it is"};
  }
  FEDMRN_TRY(CheckFinite(options.plain_reference, "reference"));
  FEDMRN_TRY(CheckWithinLimit(options.plain_reference, "reference"));
  FEDMRN_TRY(CheckWithinLimit(plain, "plain"));
  AppendDeltas(PlainDitherSeed(header), tensors, options.plain_reference, plain,
               frame);
  return Ok();
}

// Whether each extension is whole, and none is an unknown one that must be
// understood; the others become part of the header.
Status ReadExtensions(ByteView bytes, wire::Header& header) {
  if (header.extension_bytes > kMaxExtensionBytes) {
    return At(wire::kExtensionBytes.offset, ErrorCode::kBadValue,
              std::to_string(header.extension_bytes) +
                  " extension bytes exceed the cap of 2^20");
  }
  const size_t end = header.payload_at();
  for (size_t at = header.header_bytes(); at < end;) {
    const size_t left = end - at;
    if (left < wire::kExtensionHeadBytes ||
        LoadLe<uint16_t>(bytes.data() + at + 2) >
            left - wire::kExtensionHeadBytes) {
      return At(at, ErrorCode::kBadFormat, "an extension is cut short");
    }
    const auto kind = LoadLe<uint16_t>(bytes.data() + at);
    const auto length = LoadLe<uint16_t>(bytes.data() + at + 2);
    if (kind == wire::kMagnitudes) {
      if (length == 0 || length % MagnitudesView::kBytesEach != 0 ||
          !header.noise.magnitudes.empty()) {
        return At(at, ErrorCode::kBadFormat,
                  "magnitudes are cut short, or there twice");
      }
      header.noise.magnitudes =
          MagnitudesView(bytes.subspan(at + wire::kExtensionHeadBytes, length));
    } else if (kind >= wire::kMustUnderstand) {
      return At(at, ErrorCode::kBadFormat,
                "unknown extension " + std::to_string(kind) +
                    ", which must be understood");
    }
    at += wire::kExtensionHeadBytes + length;
  }
  return Ok();
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
    return Error{ErrorCode::kBadValue, "too many plain values"};
  }
  header.params = update.size();
  header.plain_count = static_cast<uint32_t>(plain.size());
  header.codec_param = 0;
  if (Status s = CheckHeader(header, *codec); !s) {
    return Error{s.error().code, s.error().message};
  }
  FEDMRN_TRY(CheckFinite(update, "update"));
  FEDMRN_TRY(CheckFinite(plain, "plain"));

  Bytes frame(kFrameHeaderBytes);
  const Bytes extensions = wire::ExtensionsOf(header);
  frame.insert(frame.end(), extensions.begin(), extensions.end());
  const size_t payload_at = frame.size();
  FEDMRN_TRY(codec->encode(header, options, update, frame));
  const uint64_t payload_bytes = frame.size() - payload_at;

  if (header.plain_kind == PlainKind::kDelta) {
    FEDMRN_TRY(AppendPlainDeltas(header, options, plain, frame));
  } else if (header.plain_kind == PlainKind::kFloat16) {
    for (size_t i = 0; i < plain.size(); ++i) {
      if (std::fabs(plain[i]) > kMaxFloat16) {
        return Error{ErrorCode::kBadValue, "plain value " + std::to_string(i) +
                                               " exceeds float16's 65504"};
      }
      AppendLe(Float16FromFloat(plain[i]), frame);
    }
  } else {
    AppendLe(plain, frame);
  }

  const size_t plain_bytes = frame.size() - payload_at - payload_bytes;
  wire::WriteHeader(header, static_cast<uint32_t>(extensions.size()),
                    payload_bytes, static_cast<uint32_t>(plain_bytes),
                    frame.data());
  frame.resize(frame.size() + kFrameChecksumBytes);
  wire::StoreChecksum(frame);
  return frame;
}

Result<FrameView> ParseFrame(ByteView bytes, const Receiver& receiver) {
  if (bytes.size() < wire::kLeastFrameBytes) {
    return At(bytes.size(), ErrorCode::kTruncated,
              "a frame has at least " + std::to_string(wire::kLeastFrameBytes) +
                  " bytes, this has " + std::to_string(bytes.size()));
  }
  if (!wire::HasMagic(bytes)) {
    return At(wire::kMagic.offset, ErrorCode::kBadFormat,
              "not a FedMRN frame (no FMRN)");
  }
  wire::Header header = wire::ReadHeader(bytes);
  if (!wire::IsKnownVersion(header.version)) {
    return At(wire::kVersion.offset, ErrorCode::kBadFormat,
              "frame version " + std::to_string(header.version) +
                  "; this program reads versions 1 and " +
                  std::to_string(kFrameVersion));
  }

  // The length first: only then is it sure that the last bytes are a checksum.
  if (header.frame_bytes() != bytes.size()) {
    return At(wire::kPayloadBytes.offset,
              header.frame_bytes() > bytes.size() ? ErrorCode::kTruncated
                                                  : ErrorCode::kBadFormat,
              "header, " + std::to_string(header.extension_bytes) +
                  " extension bytes, " + std::to_string(header.payload_bytes) +
                  " payload bytes, " + std::to_string(header.plain_bytes) +
                  " plain bytes and checksum do not make a frame of " +
                  std::to_string(bytes.size()) + " bytes");
  }
  if (wire::StoredChecksum(bytes) != wire::ComputeChecksum(bytes)) {
    return At(bytes.size() - kFrameChecksumBytes, ErrorCode::kBadChecksum,
              "the checksum does not match: damaged on the way");
  }

  // From here on the bytes are what their writer meant; is that sound?
  const Codec* codec = FindCodec(header.codec);
  if (codec == nullptr) {
    return At(
        wire::kCodec.offset, ErrorCode::kBadFormat,
        "unknown codec " + std::to_string(static_cast<uint8_t>(header.codec)));
  }
  const uint8_t known_flags = wire::kPlainHalfFlag | wire::kBroadcastFlag |
                              (header.version == 1 ? 0 : wire::kPlainDeltaFlag);
  constexpr uint8_t kBothKinds = wire::kPlainHalfFlag | wire::kPlainDeltaFlag;
  if ((header.flags & ~known_flags) != 0 ||
      (header.flags & kBothKinds) == kBothKinds) {
    return At(wire::kFlags.offset, ErrorCode::kBadFormat,
              "unknown flags " + std::to_string(header.flags));
  }
  if (header.reserved != 0) {
    return At(wire::kReservedInVersion1.offset, ErrorCode::kBadFormat,
              "reserved bytes are not 0");
  }
  FEDMRN_TRY(ReadExtensions(bytes, header));
  FEDMRN_TRY(CheckHeader(header, *codec));
  if (header.plain_kind != PlainKind::kDelta &&
      header.plain_bytes !=
          uint64_t{header.plain_count} * header.plain_value_bytes()) {
    return At(wire::kPlainBytes.offset, ErrorCode::kBadFormat,
              std::to_string(header.plain_bytes) + " plain bytes are not " +
                  std::to_string(header.plain_count) + " values");
  }
  if (header.params > receiver.max_params) {
    return At(
        wire::kParams.offset, ErrorCode::kForeign,
        "the frame is of another model: " + std::to_string(header.params) +
            " parameters are more than the receiver's " +
            std::to_string(receiver.max_params));
  }
  if (header.codec_param != 0 && !codec->uses_param) {
    return At(wire::kCodecParam.offset, ErrorCode::kBadValue,
              std::string(codec->name) + " takes no parameter");
  }
  const size_t plain_at = header.payload_at() + header.payload_bytes;
  FrameView frame{header,
                  header.version,
                  bytes.subspan(header.payload_at(), header.payload_bytes),
                  bytes.subspan(plain_at, header.plain_bytes),
                  header.payload_at(),
                  bytes.size(),
                  {}};
  FEDMRN_TRY(codec->validate(frame, receiver.scratch));

  if (frame.plain_kind == PlainKind::kDelta) {
    const Status deltas = CheckDeltas(frame.plain, frame.plain_count);
    if (deltas) return frame;
    return At(plain_at + deltas.error().offset, deltas.error().code,
              deltas.error().message);
  }
  const size_t value_bytes = header.plain_value_bytes();
  for (uint32_t i = 0; i < frame.plain_count; ++i) {
    const uint8_t* value = frame.plain.data() + value_bytes * i;
    const bool finite = frame.plain_kind == PlainKind::kFloat16
                            ? (LoadLe<uint16_t>(value) & 0x7C00) != 0x7C00
                            : std::isfinite(LoadLe<float>(value));
    if (!finite) {
      return At(plain_at + value_bytes * i, ErrorCode::kBadValue,
                "plain value " + std::to_string(i) + " is not finite");
    }
  }
  return frame;
}

uint64_t ClientSeed(uint64_t run_seed, uint32_t round, uint64_t client) {
  uint32_t words[2];
  PhiloxWords({run_seed, Purpose::kClientSeed, round}, client, words);
  return words[0] | uint64_t{words[1]} << 32;
}

void FrameView::CopyPlain(std::span<float> out,
                          std::span<const float> reference) const {
  FEDMRN_CHECK(out.size() == plain_count);
  if (plain_kind == PlainKind::kDelta) {
    return ReadDeltas(PlainDitherSeed(*this), plain, reference, out);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = plain_kind == PlainKind::kFloat16
                 ? FloatFromFloat16(LoadLe<uint16_t>(&plain[2 * i]))
                 : LoadLe<float>(&plain[4 * i]);
  }
}

void DecodeUpdate(const FrameView& frame, std::span<float> out) {
  FEDMRN_CHECK(out.size() == frame.params);
  FindCodec(frame.codec)->decode(frame, out);
}

}  // namespace fedmrn
