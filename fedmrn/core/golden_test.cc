// Frames of testdata/frames must come out of the encoder to the byte, and
// decode to the values beside them. testdata/decode_frames.py, which shares no
// code with the core, checks the same files against docs/wire-format.md.
//
// After a deliberate change of the format: FEDMRN_WRITE_GOLDEN=1 core_test
// --gtest_filter=Golden.*, and a new kFrameVersion.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fedmrn/core/frame.h"
#include "fedmrn/core/test_util.h"

namespace fedmrn {
namespace {

Bytes ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

void WriteFile(const std::string& path, ByteView bytes) {
  std::filesystem::create_directories(
      std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

struct GoldenCase {
  std::string name;
  FrameHeader header;
  EncodeOptions options;
  size_t params = 99;
  size_t plain = 4;
  float times = 1;  // the usual update
};

constexpr uint32_t kSegments[] = {72, 20, 7};

std::vector<GoldenCase> Cases() {
  std::vector<GoldenCase> cases;
  const auto add = [&](std::string name, CodecId codec) -> GoldenCase& {
    GoldenCase c;
    c.name = std::move(name);
    c.header.codec = codec;
    c.header.round = 3;
    c.header.client = 41;
    c.header.examples = 600;
    c.header.fingerprint = 0x0807060504030201;
    c.options.draw_seed = 5;
    c.options.segments = kSegments;
    const Codec* row = FindCodec(codec);
    if (row->uses_seed) c.header.noise.seed = 0x123456789;
    if (row->uses_noise) {
      c.header.noise.kind = NoiseKind::kUniform;
      c.header.noise.magnitude = 0.01f;
    }
    cases.push_back(c);
    return cases.back();
  };
  add("float32", CodecId::kFloat32);
  add("float16", CodecId::kFloat16).header.plain_half = true;
  add("mrn-binary-uniform", CodecId::kMrnBinary);
  add("mrn-binary-gaussian", CodecId::kMrnBinary).header.noise.kind =
      NoiseKind::kGaussian;
  add("mrn-signed-uniform", CodecId::kMrnSigned);
  add("mrn-signed-bernoulli", CodecId::kMrnSigned).header.noise.kind =
      NoiseKind::kBernoulli;
  add("signsgd", CodecId::kSignSgd);
  add("topk", CodecId::kTopK).options.keep = 0.2;
  add("terngrad", CodecId::kTernGrad);
  add("drive", CodecId::kDrive);
  add("drive-unbiased", CodecId::kDrive).options.unbiased = true;
  for (int bits = 1; bits <= 4; ++bits) {
    add("eden-" + std::to_string(bits), CodecId::kEden).options.bits = bits;
  }
  add("mask", CodecId::kMask).times = 0x1p8f;  // from below 0 to beyond 1
  // The edges: no padding, no plain section, float16 beside a mask, everything
  // kept, nothing to scale.
  GoldenCase& whole_bytes = add("mrn-binary-bernoulli-40", CodecId::kMrnBinary);
  whole_bytes.header.noise.kind = NoiseKind::kBernoulli;
  whole_bytes.params = 40;
  whole_bytes.plain = 0;
  GoldenCase& half = add("mrn-signed-gaussian-f16", CodecId::kMrnSigned);
  half.header.noise.kind = NoiseKind::kGaussian;
  half.header.plain_half = true;
  GoldenCase& whole_trits = add("terngrad-40", CodecId::kTernGrad);
  whole_trits.params = 40;
  whole_trits.options.segments = {};
  add("topk-all", CodecId::kTopK).options.keep = 1;
  GoldenCase& single = add("eden-zero", CodecId::kEden);
  single.params = 1;
  single.options.segments = {};
  GoldenCase& broadcast = add("broadcast", CodecId::kFloat32);
  broadcast.header.broadcast = true;
  broadcast.header.examples = 0;
  return cases;
}

TEST(Golden, FramesAndValues) {
  const std::string folder = FEDMRN_TESTDATA "/frames/";
  const std::vector<float> all_plain = {1.0f, -0.5f, 0.0f, 3.140625f};
  const bool write = std::getenv("FEDMRN_WRITE_GOLDEN") != nullptr;
  for (const GoldenCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    // Plain arithmetic, which any language can repeat; zero if there is but
    // one.
    std::vector<float> update(c.params);
    for (size_t i = 0; i < update.size() && c.params > 1; ++i) {
      update[i] = c.times *
                  static_cast<float>(static_cast<int>(i * 37 % 101) - 50) *
                  0x1p-13f;
    }
    const auto plain = std::span(all_plain).first(c.plain);
    const Bytes frame = EncodeFrame(c.header, c.options, update, plain).value();
    std::vector<float> values(update.size());
    DecodeUpdate(ParseFrame(frame).value(), values);
    const ByteView value_bytes(reinterpret_cast<const uint8_t*>(values.data()),
                               4 * values.size());
    if (write) {
      WriteFile(folder + c.name + ".frame", frame);
      WriteFile(folder + c.name + ".values", value_bytes);
    }
    EXPECT_EQ(ReadFile(folder + c.name + ".frame"), frame);
    EXPECT_EQ(ReadFile(folder + c.name + ".values"),
              Bytes(value_bytes.begin(), value_bytes.end()));
  }
}

// Made by testdata/decode_frames.py: a good checksum over something wrong.
TEST(Golden, RefusedFrames) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(FEDMRN_TESTDATA "/refused")) {
    SCOPED_TRACE(entry.path().filename().string());
    const auto parsed = ParseFrame(ReadFile(entry.path().string()));
    ASSERT_FALSE(parsed.ok());
    EXPECT_NE(parsed.error().code, ErrorCode::kBadChecksum);
    EXPECT_NE(parsed.error().offset, Error::kNoOffset);
    ++files;
  }
  EXPECT_GE(files, 30);
}

}  // namespace
}  // namespace fedmrn
