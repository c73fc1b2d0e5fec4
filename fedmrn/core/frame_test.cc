#include "fedmrn/core/frame.h"

#include <cstring>

#include "fedmrn/core/float16.h"
#include "fedmrn/core/test_util.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fedmrn {
namespace {

FrameHeader SomeHeader() {
  FrameHeader header;
  header.codec = CodecId::kMrnBinary;
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

// Overwrites a field and makes the checksum fit again.
template <typename T>
Bytes With(Bytes frame, size_t offset, T value) {
  StoreLe(value, frame.data() + offset);
  const size_t at = frame.size() - kFrameChecksumBytes;
  StoreLe(uint64_t{XXH64(frame.data(), at, 0)}, frame.data() + at);
  return frame;
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

TEST(Frame, EveryFieldSurvives) {
  const Bytes bytes = SomeFrame();
  const FrameView frame = ParseFrame(bytes).value();
  EXPECT_EQ(frame.codec, CodecId::kMrnBinary);
  EXPECT_FALSE(frame.broadcast);
  EXPECT_FALSE(frame.plain_half);
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
  header.plain_half = true;
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
  ExpectError(With(good, 0, uint32_t{0x21212121}), kBadFormat, 0, "FMRN");
  ExpectError(With(good, 4, uint8_t{2}), kBadFormat, 4, "version 2");
  ExpectError(With(good, 5, uint8_t{0}), kBadFormat, 5, "codec 0");
  ExpectError(With(good, 5, uint8_t{200}), kBadFormat, 5, "codec 200");
  ExpectError(With(good, 6, uint8_t{0x80}), kBadFormat, 6, "flags");
  ExpectError(With(good, 7, uint8_t{0}), kBadValue, 7, "noise");
  ExpectError(With(good, 7, uint8_t{4}), kBadValue, 7, "noise");
  ExpectError(With(good, 12, uint32_t{0}), kBadValue, 12, "example");
  ExpectError(With(good, 40, uint64_t{1} << 60), kBadValue, 40,
              "number of parameters");
  ExpectError(With(good, 40, uint64_t{0}), kBadValue, 40,
              "number of parameters");
  ExpectError(With(good, 40, uint64_t{1000}), kBadFormat, 72, "payload");
  ExpectError(With(good, 48, uint64_t{1} << 60), kTruncated, 48, "payload");
  ExpectError(With(good, 48, ~uint64_t{0}), kTruncated, 48, "payload");
  ExpectError(With(good, 56, uint32_t{0xFFFFFFFF}), kTruncated, 48, "dense");
  ExpectError(With(good, 60, NAN), kBadValue, 7, "noise");
  ExpectError(With(good, 60, 0.0f), kBadValue, 7, "noise");
  ExpectError(With(good, 64, uint32_t{1}), kBadValue, 64, "no parameter");
  ExpectError(With(good, 68, uint32_t{1}), kBadFormat, 68, "reserved");
  // 100 parameters leave four bits of the 13th byte over.
  ExpectError(With(good, 72 + 12, uint8_t{0xFF}), kBadFormat, 72 + 12, "bits");
  ExpectError(With(good, 72 + 13, NAN), kBadValue, 72 + 13, "dense value 0");
  ExpectError(With(good, 72 + 13 + 8, INFINITY), kBadValue, 72 + 13 + 8,
              "dense value 2");
  Bytes damaged = good;
  damaged[80] ^= 1;
  ExpectError(damaged, kBadChecksum, good.size() - 8, "checksum");
}

TEST(ParseFrame, FloatPayloadsMustBeFinite) {
  for (CodecId codec : {CodecId::kFloat32, CodecId::kTopK}) {
    FrameHeader header;
    header.codec = codec;
    header.examples = 1;
    EncodeOptions options;
    options.keep = 1;
    const Bytes good =
        EncodeFrame(header, options, Normal(1, 5000), {}).value();
    // Top-k has eight bytes of counts first.
    const size_t first = codec == CodecId::kTopK ? 80 : 72;
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
  EXPECT_TRUE(ParseFrame(With(good, 40, kMaxParams)).ok());
  EXPECT_FALSE(ParseFrame(With(good, 40, kMaxParams + 1)).ok());
  EXPECT_FALSE(ParseFrame(With(good, 72, uint32_t{0xFFFFFFFF})).ok());
  EXPECT_FALSE(ParseFrame(With(good, 76, uint32_t{32})).ok());
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
  ExpectError(With(good, 72, uint32_t{0}), kBadFormat, 72, "segments");
  ExpectError(With(good, 72, uint32_t{0xFFFFFFFF}), kBadFormat, 72, "segments");
  ExpectError(With(good, 76, uint32_t{0}), kBadValue, 76, "empty");
  ExpectError(With(good, 76, uint32_t{61}), kBadFormat, 76, "sum");
  ExpectError(With(good, 84, NAN), kBadValue, 84, "finite");
  ExpectError(With(good, 84, -1.0f), kBadValue, 84, "negative");
  ExpectError(With(good, 84, -0.0f), kBadValue, 84, "negative");
  ExpectError(With(good, 84, 0x1.1p64f), kBadValue, 84, "2^64");
  ExpectError(With(good, 64, uint32_t{2}), kBadValue, 64, "0 or 1");
}

}  // namespace
}  // namespace fedmrn
