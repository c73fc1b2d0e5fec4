#include "fedmrn/core/frame.h"

#include <algorithm>
#include <type_traits>

#include "fedmrn/core/float16.h"
#include "fedmrn/core/philox.h"
#include "fedmrn/core/test_util.h"
#include "fedmrn/core/wire.h"

namespace fedmrn {
namespace {

FrameHeader SomeHeader() {
  FrameHeader header;
  header.codec = CodecId::kMrnBinary;
  header.run = 0x8877665544332211;
  header.round = 12;
  header.client = 0x1122334455667788;
  header.examples = 600;
  header.fingerprint = 0xCAFEBABEDEADBEEF;
  header.noise = {NoiseKind::kUniform, 0.01f, 0x0123456789ABCDEF};
  return header;
}

Bytes SomeFrame(const FrameHeader& header = SomeHeader()) {
  const std::vector<float> plain = {1.0f, -2.5f, 0.125f};
  return EncodeFrame(header, {}, Normal(1, 100, 0.004f), plain).value();
}

// Overwrites something and makes the checksum fit again.
template <typename T>
Bytes With(Bytes frame, size_t offset, T value) {
  StoreLe(value, frame.data() + offset);
  wire::StoreChecksum(frame);
  return frame;
}
template <typename T>
Bytes With(const Bytes& frame, wire::Field<T> field,
           std::type_identity_t<T> value) {
  return With(frame, field.offset, value);
}

void ExpectError(const Bytes& frame, ErrorCode code, size_t offset,
                 const std::string& part) {
  const auto parsed = ParseFrame(frame);
  ASSERT_FALSE(parsed.ok()) << part;
  EXPECT_EQ(parsed.error().code, code) << parsed.error().ToString();
  EXPECT_EQ(parsed.error().offset, offset) << parsed.error().ToString();
  EXPECT_NE(parsed.error().message.find(part), std::string::npos)
      << parsed.error().ToString();
}

template <typename T>
void ExpectError(const Bytes& frame, ErrorCode code, wire::Field<T> field,
                 const std::string& part) {
  ExpectError(frame, code, field.offset, part);
}

TEST(Frame, EveryFieldSurvives) {
  const Bytes bytes = SomeFrame();
  const FrameView frame = ParseFrame(bytes).value();
  EXPECT_EQ(frame.codec, CodecId::kMrnBinary);
  EXPECT_FALSE(frame.broadcast);
  EXPECT_EQ(frame.plain_kind, PlainKind::kFloat32);
  EXPECT_EQ(frame.version, 2);
  EXPECT_EQ(frame.run, 0x8877665544332211u);
  EXPECT_EQ(frame.round, 12u);
  EXPECT_EQ(frame.client, 0x1122334455667788u);
  EXPECT_EQ(frame.examples, 600u);
  EXPECT_EQ(frame.fingerprint, 0xCAFEBABEDEADBEEFu);
  EXPECT_EQ(frame.noise.kind, NoiseKind::kUniform);
  EXPECT_EQ(frame.noise.magnitude, 0.01f);
  EXPECT_EQ(frame.noise.seed, 0x0123456789ABCDEFu);
  EXPECT_EQ(frame.params, 100u);
  EXPECT_EQ(frame.payload.size(), 13u);
  EXPECT_EQ(frame.plain_count, 3u);
  EXPECT_EQ(frame.frame_bytes, bytes.size());
  std::vector<float> plain(3);
  frame.CopyPlain(plain);
  EXPECT_EQ(plain, (std::vector<float>{1.0f, -2.5f, 0.125f}));
}

TEST(Frame, PlainSectionInHalfPrecision) {
  FrameHeader header = SomeHeader();
  header.plain_kind = PlainKind::kFloat16;
  const std::vector<float> plain = {1.0f, 1.0f / 3, 65504.0f};
  const Bytes bytes =
      EncodeFrame(header, {}, Normal(1, 100, 0.004f), plain).value();
  const FrameView frame = ParseFrame(bytes).value();
  EXPECT_EQ(frame.plain.size(), 6u);
  std::vector<float> out(3);
  frame.CopyPlain(out);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(out[i], FloatFromFloat16(Float16FromFloat(plain[i])));
  }
  EXPECT_FALSE(
      EncodeFrame(header, {}, plain, std::vector<float>{65536.0f}).ok());
}

TEST(Frame, BroadcastCarriesAModel) {
  FrameHeader header;
  header.codec = CodecId::kFloat32;
  header.broadcast = true;
  const std::vector<float> weights = Normal(1, 50);
  const Bytes bytes = EncodeFrame(header, {}, weights, {}).value();
  const FrameView frame = ParseFrame(bytes).value();
  EXPECT_TRUE(frame.broadcast);
  std::vector<float> out(50);
  DecodeUpdate(frame, out);
  EXPECT_EQ(out, weights);
  header.examples = 1;
  EXPECT_FALSE(EncodeFrame(header, {}, weights, {}).ok());
  header = SomeHeader();
  header.broadcast = true;
  header.examples = 0;
  EXPECT_FALSE(EncodeFrame(header, {}, weights, {}).ok()) << "masked model";
}

TEST(Frame, RefusesToEncodeNonsense) {
  const std::vector<float> update(10, 0.1f);
  FrameHeader header = SomeHeader();
  header.examples = 0;
  EXPECT_FALSE(EncodeFrame(header, {}, update, {}).ok());
  header = SomeHeader();
  header.noise.magnitude = 0;
  EXPECT_FALSE(EncodeFrame(header, {}, update, {}).ok());
  header = SomeHeader();
  header.codec = static_cast<CodecId>(99);
  EXPECT_FALSE(EncodeFrame(header, {}, update, {}).ok());
  header = SomeHeader();
  EXPECT_FALSE(EncodeFrame(header, {}, {}, {}).ok()) << "no parameters";
  EXPECT_FALSE(EncodeFrame(header, {}, update, std::vector<float>{NAN}).ok());
  header.codec = CodecId::kFloat32;  // with noise
  EXPECT_FALSE(EncodeFrame(header, {}, update, {}).ok());
}

TEST(ParseFrame, SaysWhatAndWhere) {
  using enum ErrorCode;
  const Bytes good = SomeFrame();
  ExpectError({}, kTruncated, 0, "at least 80 bytes");
  ExpectError(With(good, wire::kMagic, 0x21212121), kBadFormat, wire::kMagic,
              "FMRN");
  for (uint8_t version : {0, 3}) {
    ExpectError(With(good, wire::kVersion, version), kBadFormat, wire::kVersion,
                "reads versions 1 and 2");
  }
  ExpectError(With(good, wire::kCodec, 0), kBadFormat, wire::kCodec, "codec 0");
  ExpectError(With(good, wire::kCodec, 200), kBadFormat, wire::kCodec,
              "codec 200");
  ExpectError(With(good, wire::kFlags, 0x80), kBadFormat, wire::kFlags,
              "flags");
  ExpectError(With(good, wire::kNoiseKind, 0), kBadValue, wire::kNoiseKind,
              "noise");
  ExpectError(With(good, wire::kNoiseKind, 4), kBadValue, wire::kNoiseKind,
              "noise");
  ExpectError(With(good, wire::kExamples, 0), kBadValue, wire::kExamples,
              "example");
  ExpectError(With(good, wire::kParams, uint64_t{1} << 60), kBadValue,
              wire::kParams, "number of parameters");
  ExpectError(With(good, wire::kParams, 0), kBadValue, wire::kParams,
              "number of parameters");
  ExpectError(With(good, wire::kParams, 1000), kBadFormat, wire::kPayload,
              "payload");
  ExpectError(With(good, wire::kPayloadBytes, uint64_t{1} << 60), kTruncated,
              wire::kPayloadBytes, "payload");
  ExpectError(With(good, wire::kPayloadBytes, ~uint64_t{0}), kTruncated,
              wire::kPayloadBytes, "payload");
  ExpectError(With(good, wire::kPlainCount, 0xFFFFFFFF), kBadValue,
              wire::kPlainCount, "plain values exceed");
  ExpectError(With(good, wire::kPlainCount, 4), kBadFormat, wire::kPlainBytes,
              "12 plain bytes are not 4 values");
  ExpectError(With(good, wire::kPlainBytes, 0xFFFFFFFF), kTruncated,
              wire::kPayloadBytes, "plain");
  ExpectError(With(good, wire::kExtensionBytes, 0xFFFFFFFF), kTruncated,
              wire::kPayloadBytes, "extension");
  ExpectError(With(good, wire::kMagnitude, NAN), kBadValue, wire::kNoiseKind,
              "noise");
  ExpectError(With(good, wire::kMagnitude, 0.0f), kBadValue, wire::kNoiseKind,
              "noise");
  ExpectError(With(good, wire::kCodecParam, 2), kBadValue, wire::kCodecParam,
              "0 or 1");
  ExpectError(With(good, wire::kCodecParam, 1), kBadFormat, wire::kPayload,
              "tensors do not fit the payload");
  // 100 parameters leave four bits of the 13th byte over.
  ExpectError(With(good, wire::kPayload + 12, uint8_t{0xFF}), kBadFormat,
              wire::kPayload + 12, "bits");
  ExpectError(With(good, wire::kPayload + 13, NAN), kBadValue,
              wire::kPayload + 13, "plain value 0");
  ExpectError(With(good, wire::kPayload + 13 + 8, INFINITY), kBadValue,
              wire::kPayload + 13 + 8, "plain value 2");
  Bytes damaged = good;
  damaged[wire::kPayload + 8] ^= 1;
  ExpectError(damaged, kBadChecksum, good.size() - 8, "checksum");
}

// A frame with these bytes of extensions.
Bytes WithExtensions(ByteView extensions) {
  Bytes frame = SomeFrame();
  frame.insert(frame.begin() + wire::kPayload, extensions.begin(),
               extensions.end());
  return With(frame, wire::kExtensionBytes,
              static_cast<uint32_t>(extensions.size()));
}

TEST(ParseFrame, SkipsExtensionsThatItMay) {
  const Bytes bytes =
      WithExtensions(Bytes{1, 0, 0, 0, 0xFF, 0x7F, 3, 0, 9, 9, 9});
  const Result<FrameView> frame = ParseFrame(bytes);
  ASSERT_TRUE(frame) << frame.error().ToString();
  const Bytes plain = SomeFrame();
  EXPECT_TRUE(
      std::ranges::equal(frame->payload, ParseFrame(plain).value().payload));
  EXPECT_EQ(frame->payload_at, wire::kPayload + 11);

  using enum ErrorCode;
  const size_t at = wire::kPayload;
  ExpectError(WithExtensions(Bytes{1, 0, 0, 0, 0, 0x80, 0, 0}), kBadFormat,
              at + 4, "extension 32768, which must be understood");
  ExpectError(WithExtensions(Bytes{1, 0, 1, 0}), kBadFormat, at, "cut short");
  ExpectError(WithExtensions(Bytes{1, 0, 0}), kBadFormat, at, "cut short");
  ExpectError(WithExtensions(Bytes(kMaxExtensionBytes + 4)), kBadValue,
              wire::kExtensionBytes, "2^20");
  // What is wrong behind extensions is found where it is.
  ExpectError(With(bytes, wire::kParams, 1000), kBadFormat, at + 11, "payload");
}

TEST(ParseFrame, KnowsItsReceiver) {
  const Bytes frame = SomeFrame();
  EXPECT_TRUE(ParseFrame(frame, {.max_params = 100}));
  EXPECT_EQ(ParseFrame(frame, {.max_params = 99}).error().code,
            ErrorCode::kForeign);
}

TEST(ClientSeed, IsWhatTheSpecificationSays) {
  // Philox of {client, 0, round, 7} with the run seed as its key.
  const auto words = ref::Philox4x32({5, 0, 3, 7}, {0x89ABCDEF, 0x01234567});
  EXPECT_EQ(ClientSeed(0x0123456789ABCDEF, 3, 5),
            words[0] | uint64_t{words[1]} << 32);
  const auto far = ref::Philox4x32({5, 9, 3, 7}, {0x89ABCDEF, 0x01234567});
  EXPECT_EQ(ClientSeed(0x0123456789ABCDEF, 3, 5 + (uint64_t{9} << 32)),
            far[0] | uint64_t{far[1]} << 32);
}

TEST(ParseFrame, FloatPayloadsMustBeFinite) {
  for (CodecId codec : {CodecId::kFloat32, CodecId::kTopK}) {
    FrameHeader header;
    header.codec = codec;
    header.examples = 1;
    EncodeOptions options;
    options.keep = 1;
    options.entropy = false;
    const Bytes good =
        EncodeFrame(header, options, Normal(1, 5000), {}).value();
    // Top-k has eight bytes of counts first.
    const size_t first = wire::kPayload + (codec == CodecId::kTopK ? 8 : 0);
    for (size_t i : {0, 1023, 1024, 4999}) {
      const size_t at = first + 4 * i;
      ExpectError(With(good, at, NAN), ErrorCode::kBadValue, at,
                  "value " + std::to_string(i));
      ExpectError(With(good, at, -INFINITY), ErrorCode::kBadValue, at,
                  "value " + std::to_string(i));
    }
  }
}

// A payload that claims many parameters in few bytes (top-k can) must not make
// the parser allocate or loop.
TEST(ParseFrame, HugeClaimsAreCheap) {
  FrameHeader header;
  header.codec = CodecId::kTopK;
  header.examples = 1;
  EncodeOptions options;
  options.keep = 0.001;
  const Bytes good = EncodeFrame(header, options, Normal(1, 1000), {}).value();
  EXPECT_TRUE(ParseFrame(With(good, wire::kParams, kMaxParams)).ok());
  EXPECT_FALSE(ParseFrame(With(good, wire::kParams, kMaxParams + 1)).ok());
  EXPECT_FALSE(
      ParseFrame(With(good, wire::kPayload, uint32_t{0xFFFFFFFF})).ok());
  EXPECT_FALSE(ParseFrame(With(good, wire::kPayload + 4, uint32_t{32})).ok());
}

TEST(ParseFrame, SegmentTablesAreChecked) {
  FrameHeader header;
  header.codec = CodecId::kDrive;
  header.examples = 1;
  const uint32_t segments[] = {60, 40};
  EncodeOptions options;
  options.segments = segments;
  const Bytes good = EncodeFrame(header, options, Normal(1, 100), {}).value();
  using enum ErrorCode;
  ExpectError(With(good, wire::kPayload, uint32_t{0}), kBadFormat,
              wire::kPayload, "segments");
  ExpectError(With(good, wire::kPayload, uint32_t{0xFFFFFFFF}), kBadFormat,
              wire::kPayload, "segments");
  ExpectError(With(good, wire::kPayload + 4, uint32_t{0}), kBadValue,
              wire::kPayload + 4, "empty");
  ExpectError(With(good, wire::kPayload + 4, uint32_t{61}), kBadFormat,
              wire::kPayload + 4, "sum");
  ExpectError(With(good, wire::kPayload + 12, NAN), kBadValue,
              wire::kPayload + 12, "finite");
  ExpectError(With(good, wire::kPayload + 12, -1.0f), kBadValue,
              wire::kPayload + 12, "negative");
  ExpectError(With(good, wire::kPayload + 12, -0.0f), kBadValue,
              wire::kPayload + 12, "negative");
  ExpectError(With(good, wire::kPayload + 12, 0x1.1p64f), kBadValue,
              wire::kPayload + 12, "2^64");
  ExpectError(With(good, wire::kCodecParam, 2), kBadValue, wire::kCodecParam,
              "0 or 1");
}

}  // namespace
}  // namespace fedmrn
