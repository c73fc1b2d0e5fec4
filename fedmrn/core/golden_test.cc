// Frames of testdata/frames must come out of the encoder to the byte, and
// decode to the values beside them; those of testdata/frames-1, of the format's
// version 1, must still decode. testdata/decode_frames.py, which shares no code
// with the core, checks the same files against docs/wire-format.md.
//
// After a deliberate change of the format: FEDMRN_WRITE_GOLDEN=1 core_test
// --gtest_filter=Golden.*, and a new kFrameVersion.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fedmrn/core/aggregate.h"
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
  float times = 1;      // the usual update
  bool cubed = false;   // the usual update, with more that is small
  bool uneven = false;  // the first segment's update is 128 times the usual
  bool zeros = false;   // instead of the usual update, of either sign
};

constexpr uint32_t kSegments[] = {72, 20, 7};
constexpr float kPlainReference[] = {0.5f, 0.5f, 0.5f, 0.5f};
constexpr uint32_t kPlainSegments[] = {1, 3};
// The second one's mask is not worth a table.
constexpr uint32_t kLongSegments[] = {2000, 2, 2097};
constexpr uint32_t kLongestSegments[] = {450, 8551};

const Bytes& Magnitudes() {
  static const Bytes bytes = MagnitudeBytes(std::vector<TensorMagnitude>{
      {kSegments[0], 0.01f}, {kSegments[1], 0.03f}, {kSegments[2], 0x1p-9f}});
  return bytes;
}

std::vector<GoldenCase> Cases() {
  std::vector<GoldenCase> cases;
  const auto add = [&](std::string name, CodecId codec) -> GoldenCase& {
    GoldenCase c;
    c.name = std::move(name);
    c.header.codec = codec;
    c.header.run = 0x1817161514131211;
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
  add("float16", CodecId::kFloat16).header.plain_kind = PlainKind::kFloat16;
  add("mrn-binary-uniform", CodecId::kMrnBinary);
  add("mrn-binary-gaussian", CodecId::kMrnBinary).header.noise.kind =
      NoiseKind::kGaussian;
  add("mrn-signed-uniform", CodecId::kMrnSigned);
  add("mrn-signed-bernoulli", CodecId::kMrnSigned).header.noise.kind =
      NoiseKind::kBernoulli;
  add("signsgd", CodecId::kSignSgd);
  add("topk", CodecId::kTopK).options.keep = 0.2;
  add("terngrad", CodecId::kTernGrad);
  add("drive", CodecId::kDrive).options.unbiased = false;
  add("drive-unbiased", CodecId::kDrive);
  for (int bits = 1; bits <= 4; ++bits) {
    add("eden-" + std::to_string(bits), CodecId::kEden).options.bits = bits;
  }
  add("mask", CodecId::kMask).times = 0x1p8f;  // from below 0 to beyond 1
  // The edges: no padding, no plain section, float16 beside a mask, everything
  // kept, nothing to scale.
  GoldenCase& whole_bytes = add("mrn-binary-bernoulli-40", CodecId::kMrnBinary);
  whole_bytes.header.noise.kind = NoiseKind::kBernoulli;
  whole_bytes.params = 40;
  whole_bytes.options.segments = {};
  whole_bytes.plain = 0;
  GoldenCase& half = add("mrn-signed-gaussian-f16", CodecId::kMrnSigned);
  half.header.noise.kind = NoiseKind::kGaussian;
  half.header.plain_kind = PlainKind::kFloat16;
  GoldenCase& whole_trits = add("terngrad-40", CodecId::kTernGrad);
  whole_trits.params = 40;
  whole_trits.options.segments = {};
  add("topk-all", CodecId::kTopK).options.keep = 1;
  GoldenCase& single = add("eden-zero", CodecId::kEden);
  single.params = 1;
  single.options.segments = {};
  // To a broadcast of 0.5, 0.5, 0.5, 0.5.
  GoldenCase& delta = add("plain-differences", CodecId::kMrnBinary);
  delta.header.plain_kind = PlainKind::kDelta;
  delta.options.plain_reference = kPlainReference;
  delta.options.plain_segments = kPlainSegments;
  GoldenCase& second_seed = add("mrn-binary-seed-2", CodecId::kMrnBinary);
  second_seed.header.noise.seed = 0xFEDCBA9876543210;
  add("float32-zeros", CodecId::kFloat32).zeros = true;
  // Long enough for entropy coding to pay.
  for (const NoiseKind kind :
       {NoiseKind::kUniform, NoiseKind::kGaussian, NoiseKind::kBernoulli}) {
    for (const CodecId codec : {CodecId::kMrnBinary, CodecId::kMrnSigned}) {
      const char* const noises[] = {"", "uniform", "gaussian", "bernoulli"};
      GoldenCase& coded = add(std::string(FindCodec(codec)->name) + "-coded-" +
                                  noises[static_cast<int>(kind)],
                              codec);
      coded.header.noise.kind = kind;
      coded.params = 4099;
      coded.options.segments = kLongSegments;
      coded.times = 0x1p-1f;
    }
  }
  GoldenCase& trits = add("terngrad-coded", CodecId::kTernGrad);
  trits.params = 4099;
  trits.cubed = true;
  trits.options.segments = kLongSegments;
  GoldenCase& signs = add("signsgd-coded", CodecId::kSignSgd);
  signs.params = 4099;
  signs.options.segments = kLongSegments;
  signs.options.scale = 0x1p-6f;
  GoldenCase& positions = add("topk-coded", CodecId::kTopK);
  positions.params = 9001;
  positions.options.segments = kLongestSegments;
  positions.options.keep = 0.1;
  positions.uneven = true;
  GoldenCase& mask = add("mask-coded", CodecId::kMask);
  mask.params = 4099;
  mask.options.segments = kLongSegments;
  mask.times = 0x1p6f;  // few are above 0
  GoldenCase& broadcast = add("broadcast", CodecId::kFloat32);
  broadcast.header.broadcast = true;
  broadcast.header.examples = 0;
  // Each tensor with a magnitude of its own.
  GoldenCase steered = broadcast;
  steered.name = "broadcast-magnitudes";
  steered.header.noise.magnitudes = MagnitudesView(Magnitudes());
  cases.push_back(steered);
  GoldenCase& masks = add("mrn-binary-magnitudes", CodecId::kMrnBinary);
  masks.header.noise = {NoiseKind::kBernoulli, 0, 0x123456789,
                        MagnitudesView(Magnitudes())};
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
      if (c.uneven && i < c.options.segments[0]) update[i] *= 128;
      if (c.cubed) update[i] *= update[i] * update[i];
      if (c.zeros) update[i] = i % 2 == 0 ? 0.0f : -0.0f;
    }
    const auto plain = std::span(all_plain).first(c.plain);
    const Bytes frame = EncodeFrame(c.header, c.options, update, plain).value();
    std::vector<float> values(update.size());
    DecodeUpdate(ParseFrame(frame).value(), values);
    const ByteView value_bytes(reinterpret_cast<const uint8_t*>(values.data()),
                               4 * values.size());
    if (c.header.plain_kind == PlainKind::kDelta) {
      float values_of_plain[4];
      ParseFrame(frame).value().CopyPlain(values_of_plain, kPlainReference);
      Bytes plain_bytes;
      AppendLe(std::span<const float>(values_of_plain), plain_bytes);
      if (write) WriteFile(folder + c.name + ".plain", plain_bytes);
      EXPECT_EQ(ReadFile(folder + c.name + ".plain"), plain_bytes);
    }
    if (write) {
      WriteFile(folder + c.name + ".frame", frame);
      WriteFile(folder + c.name + ".values", value_bytes);
    }
    EXPECT_EQ(ReadFile(folder + c.name + ".frame"), frame);
    EXPECT_EQ(ReadFile(folder + c.name + ".values"),
              Bytes(value_bytes.begin(), value_bytes.end()));
  }
}

TEST(Golden, FramesOfVersion1) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(FEDMRN_TESTDATA "/frames-1")) {
    if (entry.path().extension() != ".frame") continue;
    SCOPED_TRACE(entry.path().filename().string());
    const Bytes bytes = ReadFile(entry.path().string());
    const Result<FrameView> frame = ParseFrame(bytes);
    ASSERT_TRUE(frame) << frame.error().ToString();
    EXPECT_EQ(frame->version, 1);
    EXPECT_EQ(frame->run, 0u);
    std::vector<float> values(frame->params);
    DecodeUpdate(*frame, values);
    const ByteView value_bytes(reinterpret_cast<const uint8_t*>(values.data()),
                               4 * values.size());
    EXPECT_EQ(ReadFile(std::filesystem::path(entry.path())
                           .replace_extension(".values")
                           .string()),
              Bytes(value_bytes.begin(), value_bytes.end()));
    ++files;
  }
  EXPECT_EQ(files, 22);
}

// Whole rounds: a model and updates in, a model out, all of them frames.
TEST(Golden, Rounds) {
  const bool write = std::getenv("FEDMRN_WRITE_GOLDEN") != nullptr;
  const struct {
    std::string name;
    CodecId codec;
    Bytes magnitudes = {};  // of tensors, steered to a share of ones of 0.1
  } kRounds[] = {
      {"float32", CodecId::kFloat32},
      {"mrn-binary", CodecId::kMrnBinary},
      {"mrn-signed", CodecId::kMrnSigned},
      {"magnitudes", CodecId::kMrnBinary,
       MagnitudeBytes(std::vector<TensorMagnitude>{
           {700, 0.01f}, {100, 0.0001f}, {400, 0.002f}})},
  };
  for (const auto& [name, codec, first_magnitudes] : kRounds) {
    SCOPED_TRACE(name);
    Bytes magnitudes = first_magnitudes;
    const std::string folder = FEDMRN_TESTDATA "/rounds/" + name + "/";
    const auto golden = [&](const std::string& file, const Bytes& frame) {
      if (write) WriteFile(folder + file, frame);
      EXPECT_EQ(ReadFile(folder + file), frame) << file;
    };
    constexpr size_t kParams = 1200;
    RoundSpec spec;
    spec.run = 77;
    spec.run_seed = 1;
    spec.round = 5;
    spec.params = kParams;
    spec.plain_count = 2;
    spec.codec = codec;
    const bool masked = FindCodec(codec)->uses_noise;
    if (masked) {
      spec.noise = NoiseKind::kUniform;
      spec.magnitude = magnitudes.empty() ? 0.01f : 0;
      spec.magnitudes = magnitudes;
    }
    std::vector<float> weights = Normal(1, kParams, 0.1f), plain = {1, 0.5f};
    const auto model = [&](uint32_t round) {
      FrameHeader header;
      header.broadcast = true;
      header.run = spec.run;
      header.round = round;
      header.noise.magnitudes = MagnitudesView(magnitudes);
      return EncodeFrame(header, {}, weights, plain).value();
    };
    golden("before.frame", model(5));
    Aggregator aggregator = Aggregator::Create(spec).value();
    for (uint32_t client = 0; client < 3; ++client) {
      FrameHeader header;
      header.codec = codec;
      header.run = spec.run;
      header.round = spec.round;
      header.client = client;
      header.examples = 100 + 201 * client;
      if (masked) {
        header.noise = {spec.noise, spec.magnitude, ClientSeed(1, 5, client),
                        MagnitudesView(magnitudes)};
      }
      EncodeOptions options;
      options.entropy = client != 1;  // for the sum it makes no difference
      const float c = 1.1f + static_cast<float>(client);
      const Bytes frame =
          EncodeFrame(header, options, Normal(9 + client, kParams, 0.001f),
                      std::vector<float>{c, 1 / c})
              .value();
      golden("client-" + std::to_string(client) + ".frame", frame);
      ASSERT_TRUE(aggregator.Add(frame).ok());
    }
    ASSERT_TRUE(aggregator.Finish(weights, plain).ok());
    if (!magnitudes.empty()) {
      magnitudes = SteerMagnitudes(MagnitudesView(magnitudes),
                                   aggregator.beyond(), 3, 0.1);
    }
    golden("after.frame", model(6));
  }
}

// Made by testdata/decode_frames.py: a good checksum over something wrong.
TEST(Golden, RefusedFrames) {
  int files = 0;
  for (const char* folder : {"/refused", "/refused-1"}) {
    for (const auto& entry : std::filesystem::directory_iterator(
             std::string(FEDMRN_TESTDATA) + folder)) {
      SCOPED_TRACE(entry.path().filename().string());
      const auto parsed = ParseFrame(ReadFile(entry.path().string()));
      ASSERT_FALSE(parsed.ok());
      EXPECT_NE(parsed.error().code, ErrorCode::kBadChecksum);
      EXPECT_NE(parsed.error().offset, Error::kNoOffset);
      ++files;
    }
  }
  EXPECT_GE(files, 80);
}

}  // namespace
}  // namespace fedmrn
