// One sweep over the codec table gives every codec its round-trip, size,
// truncation, corruption, addend and description tests (aggregate_test.cc has
// another for sums); then the published numbers of each.
#include "fedmrn/core/codec.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "fedmrn/core/frame.h"
#include "fedmrn/core/mask.h"
#include "fedmrn/core/test_util.h"
#include "fedmrn/core/wire.h"

namespace fedmrn {
namespace {

FrameHeader HeaderFor(const Codec& codec, uint64_t seed = 7) {
  FrameHeader header;
  header.codec = codec.id;
  header.examples = 600;
  if (codec.uses_noise) {
    header.noise = {NoiseKind::kUniform, 0.01f, seed};
  } else if (codec.uses_seed) {
    header.noise.seed = seed;
  }
  return header;
}

FrameHeader HeaderFor(std::string_view name, uint64_t seed = 7) {
  return HeaderFor(*FindCodec(name), seed);
}

std::vector<float> Decode(ByteView bytes) {
  const FrameView frame = ParseFrame(bytes).value();
  std::vector<float> out(frame.params);
  DecodeUpdate(frame, out);
  return out;
}

std::vector<float> RoundTrip(const FrameHeader& header,
                             const EncodeOptions& options,
                             std::span<const float> update) {
  return Decode(EncodeFrame(header, options, update, {}).value());
}

// Payload bits per parameter.
double PayloadBits(const FrameHeader& header, const EncodeOptions& options,
                   std::span<const float> update) {
  const Bytes frame = EncodeFrame(header, options, update, {}).value();
  return 8.0 *
         static_cast<double>(frame.size() - kFrameHeaderBytes -
                             kFrameChecksumBytes) /
         static_cast<double>(update.size());
}

// Lengths around bytes, trits and powers of two, and the paper's layers.
const size_t kSizes[] = {1, 2, 3, 5, 7, 8, 9, 31, 33, 64, 288, 1000, 2560};

// Updates are small, probabilities are not.
float UsualSize(const Codec& codec) {
  return codec.encodes_probabilities ? 0.4f : 0.004f;
}

const PayloadFact* FindFact(const Codec& codec, std::string_view key) {
  for (const PayloadFact& fact : codec.facts) {
    if (fact.key == key) return &fact;
  }
  return nullptr;
}

void ExpectSoundFacts(const FrameView& frame) {
  for (const PayloadFact& fact : FindCodec(frame.codec)->facts) {
    const double value = fact.value(frame);
    ASSERT_TRUE(std::isfinite(value)) << fact.key;
    ASSERT_GE(value, 0) << fact.key;
    if (fact.kind == PayloadFact::Kind::kValue) continue;
    ASSERT_EQ(value, std::floor(value)) << fact.key;
    ASSERT_LE(value, static_cast<double>(frame.params)) << fact.key;
  }
}

class EveryCodec : public testing::TestWithParam<Codec> {};

TEST_P(EveryCodec, DecodesToSomethingCloseAndStable) {
  for (size_t n : kSizes) {
    const std::vector<float> update = Normal(n, n, UsualSize(GetParam()));
    const FrameHeader header = HeaderFor(GetParam());
    const Bytes frame = EncodeFrame(header, {}, update, {}).value();
    EXPECT_EQ(frame, EncodeFrame(header, {}, update, {}).value());
    const std::vector<float> out = Decode(frame);
    for (float v : out) ASSERT_TRUE(std::isfinite(v));
    // An update points the way of the client's, more or less.
    if (n >= 288) {
      EXPECT_GT(Dot(out, update), 0);
    }
  }
}

TEST_P(EveryCodec, EncodesZeros) {
  const std::vector<float> zeros(100, 0.0f);
  const std::vector<float> out = RoundTrip(HeaderFor(GetParam()), {}, zeros);
  for (float v : out) ASSERT_TRUE(std::isfinite(v));
  if (!GetParam().uses_noise) {
    for (float v : out) EXPECT_EQ(v, 0);
  }
}

TEST_P(EveryCodec, SegmentsChangeNothingButScales) {
  const uint32_t segments[] = {288, 700, 12};
  const std::vector<float> update = Normal(1, 1000, UsualSize(GetParam()));
  EncodeOptions options;
  options.segments = segments;
  const std::vector<float> out =
      RoundTrip(HeaderFor(GetParam()), options, update);
  EXPECT_GT(Dot(out, update), 0);
  const uint32_t wrong[] = {288, 700};
  options.segments = wrong;
  const auto refused = EncodeFrame(HeaderFor(GetParam()), options, update, {});
  // Codecs without scales or tables do not look at segments; the others must
  // refuse.
  EXPECT_EQ(refused.ok(), FindFact(GetParam(), "segments") == nullptr);
}

TEST_P(EveryCodec, RefusesValuesThatAreNotFinite) {
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> update(10, 0.1f);
    update[3] = bad;
    const auto frame = EncodeFrame(HeaderFor(GetParam()), {}, update, {});
    ASSERT_FALSE(frame.ok());
    EXPECT_NE(frame.error().message.find("value 3"), std::string::npos);
  }
}

TEST_P(EveryCodec, SurvivesLargeAndTinyValues) {
  for (float scale : {1e-38f, 1e-30f, 1e4f}) {
    const std::vector<float> update = Normal(3, 300, scale);
    for (float v : RoundTrip(HeaderFor(GetParam()), {}, update)) {
      ASSERT_TRUE(std::isfinite(v));
    }
  }
}

TEST_P(EveryCodec, TruncatedAtEveryLength) {
  const float plain[] = {1, 2, 3};
  const Bytes frame =
      EncodeFrame(HeaderFor(GetParam()), {}, Normal(1, 300, 0.004f), plain)
          .value();
  ASSERT_TRUE(ParseFrame(frame).ok());
  for (size_t n = 0; n < frame.size(); ++n) {
    // In memory of exactly this size, so that a sanitizer sees any overrun.
    const Bytes cut(frame.begin(), frame.begin() + n);
    ASSERT_FALSE(ParseFrame(cut).ok()) << n;
  }
  Bytes longer = frame;
  longer.push_back(0);
  EXPECT_FALSE(ParseFrame(longer).ok());
}

TEST_P(EveryCodec, EveryByteFlipIsSeen) {
  Bytes frame = EncodeFrame(HeaderFor(GetParam()), {}, Normal(1, 100, 0.004f),
                            std::vector<float>(3))
                    .value();
  for (size_t i = 0; i < frame.size(); ++i) {
    for (uint8_t flip : {0x01, 0x80, 0xFF}) {
      frame[i] ^= flip;
      const auto parsed = ParseFrame(frame);
      ASSERT_FALSE(parsed.ok()) << "byte " << i;
      ASSERT_FALSE(parsed.error().message.empty());
      frame[i] ^= flip;
    }
  }
  EXPECT_TRUE(ParseFrame(frame).ok());
}

// The same with a checksum that fits: whoever writes it can write anything.
// Such a frame is either refused or decodes to finite values.
TEST_P(EveryCodec, HostileBytesWithAGoodChecksumDoNoHarm) {
  const Bytes good = EncodeFrame(HeaderFor(GetParam()), {},
                                 Normal(1, 100, 0.004f), std::vector<float>(3))
                         .value();
  for (size_t i = 0; i + kFrameChecksumBytes < good.size(); ++i) {
    for (int value : {0x00, 0x01, 0x7F, 0x80, 0xF2, 0xF3, 0xFF}) {
      Bytes frame = good;
      frame[i] = static_cast<uint8_t>(value);
      wire::StoreChecksum(frame);
      const auto parsed = ParseFrame(frame);
      if (!parsed.ok() || parsed->params > 1000) continue;
      std::vector<float> out(parsed->params);
      DecodeUpdate(*parsed, out);
      for (float v : out) ASSERT_FALSE(std::isnan(v)) << i;
      ExpectSoundFacts(*parsed);
    }
  }
}

TEST_P(EveryCodec, AddsWhatItDecodes) {
  Bytes scratch;  // one for all, as a server has it
  for (size_t n : kSizes) {
    const std::vector<float> update = Normal(n, n, UsualSize(GetParam()));
    const Bytes bytes =
        EncodeFrame(HeaderFor(GetParam()), {}, update, {}).value();
    const FrameView frame = ParseFrame(bytes).value();
    const ByteView addend = GetParam().addend(frame, scratch);
    std::vector<float> added(n);
    if (const auto mask = GetParam().mask) {
      ASSERT_TRUE(GetParam().uses_noise);
      ASSERT_EQ(addend.size(), BytesForBits(n));
      NoiseValues(frame.noise, 0, added);
      for (size_t i = 0; i < n; ++i) {
        if (TestBit(addend.data(), i)) continue;
        added[i] = *mask == MaskKind::kBinary ? 0 : -added[i];
      }
    } else {
      ASSERT_EQ(addend.size(), 4 * n);
      for (size_t i = 0; i < n; ++i) {
        added[i] = LoadLe<float>(addend.data() + 4 * i);
      }
    }
    ExpectSameBits(added, Decode(bytes));
  }
}

TEST_P(EveryCodec, DescribesItself) {
  const Codec& codec = GetParam();
  EXPECT_FALSE(codec.summary.empty());
  for (size_t n : kSizes) {
    const std::vector<float> update = Normal(n, n, UsualSize(codec));
    const Bytes frame = EncodeFrame(HeaderFor(codec), {}, update, {}).value();
    ExpectSoundFacts(ParseFrame(frame).value());
  }
  // `fedmrn inspect` has 13 columns for a label, and all codecs' keys together.
  constexpr size_t kMostLabel = 13;
  for (const PayloadFact& fact : codec.facts) {
    EXPECT_FALSE(fact.key.empty());
    EXPECT_FALSE(fact.label.empty());
    EXPECT_LE(fact.label.size(), kMostLabel);
    EXPECT_EQ(FindFact(codec, fact.key), &fact) << "twice";
    for (const Codec& other : Codecs()) {
      const PayloadFact* same = FindFact(other, fact.key);
      if (same == nullptr) continue;
      EXPECT_EQ(same->label, fact.label);
      EXPECT_EQ(same->kind, fact.kind);
    }
  }
  ASSERT_EQ(codec.describe_param != nullptr, codec.uses_param);
  for (uint32_t param : {0u, 1u, 4u, 0xFFFFFFFFu}) {
    if (!codec.uses_param) continue;
    const ParamText words = codec.describe_param(param);
    EXPECT_FALSE(words.label.empty());
    EXPECT_LE(words.label.size(), kMostLabel);
    EXPECT_FALSE(words.text.empty());
  }
}

TEST_P(EveryCodec, CarriesAModelOrRefuses) {
  FrameHeader header = HeaderFor(GetParam());
  header.broadcast = true;
  header.examples = 0;
  const std::vector<float> model = Normal(1, 100);
  const auto frame = EncodeFrame(header, {}, model, {});
  ASSERT_EQ(frame.ok(), GetParam().carries_models);
  if (!frame.ok()) return;
  const std::vector<float> out = Decode(*frame);
  for (size_t i = 0; i < model.size(); ++i) {
    EXPECT_NEAR(out[i], model[i], 1e-3f * std::fabs(model[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryCodec, testing::ValuesIn(Codecs()),
                         CodecTestName);

TEST(Codecs, IdsAndNamesAreUnique) {
  std::map<CodecId, int> ids;
  std::map<std::string_view, int> names;
  for (const Codec& codec : Codecs()) {
    EXPECT_EQ(++ids[codec.id], 1);
    EXPECT_EQ(++names[codec.name], 1);
    EXPECT_EQ(FindCodec(codec.name)->id, codec.id);
  }
  EXPECT_EQ(FindCodec("no-such-codec"), nullptr);
  EXPECT_EQ(FindCodec(static_cast<CodecId>(0)), nullptr);
}

// ---- What facts say ----

double FactOf(std::string_view codec, std::string_view key,
              const EncodeOptions& options, std::span<const float> update) {
  const Bytes bytes =
      EncodeFrame(HeaderFor(codec), options, update, {}).value();
  return FindFact(*FindCodec(codec), key)->value(ParseFrame(bytes).value());
}

TEST(Facts, CountWhatDecodes) {
  const std::vector<float> update = Normal(1, 1003, 0.004f);
  for (const char* codec : {"topk", "terngrad"}) {
    const auto out = RoundTrip(HeaderFor(codec), {}, update);
    const auto zeros = std::count(out.begin(), out.end(), 0.0f);
    EXPECT_EQ(FactOf(codec, "kept", {}, update),
              static_cast<double>(1003 - zeros));
  }
  const auto signs = RoundTrip(HeaderFor("signsgd"), {}, update);
  const auto positive =
      std::count_if(signs.begin(), signs.end(), [](float v) { return v > 0; });
  EXPECT_EQ(FactOf("signsgd", "ones", {}, update),
            static_cast<double>(positive));
  // A trit of a tensor whose scale is 0 keeps nothing.
  const std::vector<float> constant(64, 0.5f);
  EXPECT_EQ(FactOf("terngrad", "kept", {}, constant), 0);
}

TEST(Facts, SegmentsAndTheLargestScale) {
  const uint32_t segments[] = {10, 21};
  const float scales[] = {0.25f, 0.75f};
  EncodeOptions options;
  options.segments = segments;
  options.scales = scales;
  const std::vector<float> update = Normal(1, 31, 0.1f);
  for (const char* codec : {"signsgd", "terngrad", "drive", "eden"}) {
    EXPECT_EQ(FactOf(codec, "segments", options, update), 2) << codec;
    EXPECT_GT(FactOf(codec, "largest_scale", options, update), 0);
  }
  EXPECT_EQ(FactOf("signsgd", "largest_scale", options, update), 0.75);
}

// ---- Wire cost: the CNN4 of the paper (Fashion-MNIST), per layer ----

const uint32_t kCnn4[] = {288, 18432, 73728, 294912, 2560};
constexpr size_t kCnn4Params = 389920;

TEST(WireCost, BitsPerParameter) {
  const std::vector<float> update = Normal(1, kCnn4Params, 0.002f);
  EncodeOptions options;
  options.segments = kCnn4;
  const auto bits = [&](std::string_view name) {
    return PayloadBits(HeaderFor(name), options, update);
  };
  EXPECT_EQ(bits("float32"), 32);
  EXPECT_EQ(bits("float16"), 16);
  // The law says 0.577 (a fifth of the noise's magnitude); tables and states
  // are 0.01 of it.
  EXPECT_NEAR(bits("mrn-binary"), 0.585, 0.01);
  EXPECT_NEAR(bits("mrn-signed"), 0.585, 0.01);
  options.entropy = false;
  EXPECT_EQ(bits("mrn-binary"), 1);
  EXPECT_EQ(bits("mrn-signed"), 1);
  EXPECT_EQ(bits("mask"), 1);
  // Scales and segment table: 44 bytes.
  EXPECT_NEAR(bits("signsgd"), 1, 0.001);
  // log2(3) = 1.585 at best, five trits a byte: 1.6.
  EXPECT_NEAR(bits("terngrad"), 1.6, 0.001);
  // The entropy of which are zero, 68 %, and a bit for each other one's sign.
  options.entropy = true;
  EXPECT_NEAR(bits("terngrad"), 0.902 + 0.318, 0.01);
  // With a scale of 2.5 times the update's deviation the law says 0.513: the
  // entropy of a bit given its dither v, 0.4 * integral of h(Q(z)), z to 2.5.
  options.scale = 0.005f;
  EXPECT_NEAR(bits("signsgd"), 0.517, 0.005);
  options.scale = 0;
  // Blocks by binary digits: no padding, where padding would cost 1.777.
  EXPECT_NEAR(bits("drive"), 1, 0.002);
  for (int b = 1; b <= 4; ++b) {
    options.bits = b;
    EXPECT_NEAR(bits("eden"), b, 0.002);
  }
  // 3 % of fp32 values, 0.960, and which these are, whose entropy is 0.1944;
  // or Rice-coded gaps, 0.1978.
  EXPECT_NEAR(bits("topk"), 0.960 + 0.1944 + 0.003, 0.001);
  options.entropy = false;
  EXPECT_NEAR(bits("topk"), 1.158, 0.002);
}

// Header and checksum, and nothing else, beside mask bits and plain floats.
TEST(WireCost, OverheadIsAtMost96Bytes) {
  const std::vector<float> update = Normal(1, kCnn4Params, 0.002f);
  const std::vector<float> plain(1920, 1.0f);
  EncodeOptions options;
  options.entropy = false;
  const Bytes frame =
      EncodeFrame(HeaderFor("mrn-binary"), options, update, plain).value();
  EXPECT_EQ(frame.size(), kCnn4Params / 8 + 4 * 1920 + 92);
  EXPECT_LE(frame.size() - kCnn4Params / 8 - 4 * 1920, 96u);
  FrameHeader half = HeaderFor("mrn-binary");
  half.plain_kind = PlainKind::kFloat16;
  EXPECT_EQ(EncodeFrame(half, options, update, plain).value().size(),
            kCnn4Params / 8 + 2 * 1920 + 92);
}

// ---- Masks ----

TEST(Mask, DrawsItsProbabilities) {
  std::vector<float> update;
  for (int i = 0; i < 70000; ++i) {
    update.push_back(0.25f * static_cast<float>(i % 7) - 0.25f);  // to 1.25
  }
  const std::vector<float> out = RoundTrip(HeaderFor("mask"), {}, update);
  double ones[7] = {};
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_TRUE(out[i] == 0 || out[i] == 1);
    ones[i % 7] += double{out[i]} / 10000;
  }
  EXPECT_EQ(ones[0], 0);
  EXPECT_EQ(ones[1], 0);
  for (int j : {2, 3, 4}) EXPECT_NEAR(ones[j], 0.25 * (j - 1), 0.02);
  EXPECT_NEAR(ones[5], 1, 1e-9);
  EXPECT_NEAR(ones[6], 1, 1e-9);

  EncodeOptions threshold;
  threshold.stochastic = false;
  const float values[] = {0.49f, 0.5f, 0.51f};
  EXPECT_EQ(RoundTrip(HeaderFor("mask"), threshold, values),
            (std::vector<float>{0, 0, 1}));
}

TEST(SignSgd, TakesAScalePerSegment) {
  const uint32_t segments[] = {10, 20};
  const float scales[] = {0.25f, 0.0f};
  EncodeOptions options;
  options.segments = segments;
  options.scales = scales;
  const std::vector<float> update = Normal(1, 30, 0.1f);
  const auto out = RoundTrip(HeaderFor("signsgd"), options, update);
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(std::fabs(out[i]), i < 10 ? 0.25f : 0.0f);
  }
  options.scales = std::span(scales).first(1);
  EXPECT_FALSE(EncodeFrame(HeaderFor("signsgd"), options, update, {}).ok());
  const float bad[] = {0.25f, -1.0f};
  options.scales = bad;
  EXPECT_FALSE(EncodeFrame(HeaderFor("signsgd"), options, update, {}).ok());
}

// ---- DRIVE and EDEN ----

double Vnmse(std::span<const float> x, std::span<const float> y) {
  return SquaredError(x, y) / SquaredNorm(x);
}

// Log-normal, as in DRIVE's experiments: far from Gaussian before rotation.
std::vector<float> LogNormal(size_t n) {
  std::vector<float> x = Normal(99, n);
  for (float& v : x) v = std::exp(v);
  return x;
}

// Over 40 rotations at d = 2^13 the mean of vNMSE has a standard error of about
// 0.002.
TEST(Drive, PublishedError) {
  const std::vector<float> x = LogNormal(1 << 13);
  for (bool unbiased : {false, true}) {
    EncodeOptions options;
    options.unbiased = unbiased;
    double sum = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      sum += Vnmse(x, RoundTrip(HeaderFor("drive", seed), options, x));
    }
    // pi/2 - 1 and 1 - 2/pi.
    EXPECT_NEAR(sum / 40, unbiased ? 0.5708 : 0.3634, 0.01);
  }
}

// The mean of ten messages of one vector: 0.057 unbiased, 0.155 biased.
TEST(Drive, MeanOfTen) {
  const std::vector<float> x = LogNormal(1 << 12);
  for (bool unbiased : {false, true}) {
    EncodeOptions options;
    options.unbiased = unbiased;
    double error = 0;
    for (int trial = 0; trial < 10; ++trial) {
      std::vector<float> mean(x.size());
      for (uint64_t k = 0; k < 10; ++k) {
        const auto y =
            RoundTrip(HeaderFor("drive", 100 * trial + k), options, x);
        for (size_t i = 0; i < x.size(); ++i) mean[i] += y[i] / 10;
      }
      error += Vnmse(x, mean) / 10;
    }
    EXPECT_NEAR(error, unbiased ? 0.0571 : 0.155, 0.005);
  }
}

// Least error: <x, x_hat> = |x_hat|^2. Unbiased: <x, x_hat> = |x|^2, exactly.
TEST(Drive, ScaleIdentities) {
  const std::vector<float> x = LogNormal(1 << 12);
  EncodeOptions options;
  const auto biased = RoundTrip(HeaderFor("drive"), options, x);
  EXPECT_NEAR(Dot(x, biased) / SquaredNorm(biased), 1, 1e-5);
  options.unbiased = true;
  const auto unbiased = RoundTrip(HeaderFor("drive"), options, x);
  EXPECT_NEAR(Dot(x, unbiased) / SquaredNorm(x), 1, 1e-5);
}

TEST(Eden, PublishedError) {
  const double published[] = {0.570796, 0.133121, 0.035784, 0.009592};
  const std::vector<float> x = LogNormal(1 << 14);
  for (int bits = 1; bits <= 4; ++bits) {
    EncodeOptions options;
    options.bits = bits;
    double sum = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      sum += Vnmse(x, RoundTrip(HeaderFor("eden", seed), options, x));
    }
    EXPECT_NEAR(sum / 20 / published[bits - 1], 1, 0.02) << bits;
  }
}

TEST(Eden, IsUnbiased) {
  const std::vector<float> x = LogNormal(1 << 10);
  for (int bits = 1; bits <= 4; ++bits) {
    EncodeOptions options;
    options.bits = bits;
    const auto y = RoundTrip(HeaderFor("eden"), options, x);
    EXPECT_NEAR(Dot(x, y) / SquaredNorm(x), 1, 1e-5);
  }
}

// One bit of EDEN is unbiased DRIVE: the same bits, the same values up to the
// rounding of the scale.
TEST(Eden, OneBitIsUnbiasedDrive) {
  const std::vector<float> x = Normal(4, 5000, 0.01f);
  EncodeOptions options;
  options.unbiased = true;
  options.bits = 1;
  const Bytes drive = EncodeFrame(HeaderFor("drive"), options, x, {}).value();
  const Bytes eden = EncodeFrame(HeaderFor("eden"), options, x, {}).value();
  ASSERT_EQ(drive.size(), eden.size());
  const size_t bits_at = drive.size() - kFrameChecksumBytes - 5000 / 8;
  EXPECT_TRUE(std::equal(drive.begin() + bits_at,
                         drive.end() - kFrameChecksumBytes,
                         eden.begin() + bits_at));
  const auto a = Decode(drive), b = Decode(eden);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], 1e-7);  // the values are of the order of 0.01
  }
}

// ---- TernGrad ----

TEST(TernGrad, PublishedNumbersOnGaussianInput) {
  const std::vector<float> x = Normal(12, 1 << 20);
  const auto y = RoundTrip(HeaderFor("terngrad"), {}, x);
  size_t nonzero = 0;
  for (float v : y) nonzero += v != 0;
  EXPECT_NEAR(static_cast<double>(nonzero) / static_cast<double>(x.size()),
              0.3176, 0.002);
  EXPECT_NEAR(Vnmse(x, y), 1.010, 0.01);
  EXPECT_NEAR(Dot(x, y) / SquaredNorm(x), 0.988, 0.005);
}

// As updates are: some tensors move more than others.
constexpr uint32_t kUnevenSegments[] = {300, 1, 19702};
std::vector<float> Uneven(uint64_t seed, float scale) {
  std::vector<float> x = Normal(seed, 20003, scale);
  for (size_t i = 0; i < kUnevenSegments[0]; ++i) x[i] *= 100;
  return x;
}

// Another coding, the same values.
TEST(Coding, ChangesNothingButBytes) {
  const struct {
    const char* codec;
    const char* fact;
    float scale;
  } kCoded[] = {{"terngrad", "kept", 1},
                {"topk", "kept", 1},
                {"signsgd", "ones", 1},
                {"mask", "ones", 0.2f}};
  for (const auto& [codec, fact, scale] : kCoded) {
    SCOPED_TRACE(codec);
    EncodeOptions coded, packed;
    coded.segments = packed.segments = kUnevenSegments;
    packed.entropy = false;
    const std::vector<float> x = Uneven(12, scale);
    const Bytes a = EncodeFrame(HeaderFor(codec), coded, x, {}).value();
    const Bytes b = EncodeFrame(HeaderFor(codec), packed, x, {}).value();
    EXPECT_EQ(ParseFrame(a)->codec_param, 1u);
    EXPECT_EQ(ParseFrame(b)->codec_param, 0u);
    EXPECT_LT(a.size(), b.size());
    ExpectSameBits(Decode(a), Decode(b));
    EXPECT_EQ(FactOf(codec, fact, coded, x), FactOf(codec, fact, packed, x));
    EXPECT_EQ(FactOf(codec, "segments", coded, x), 3);
  }
}

// That a frame is refused in these words when `bytes` bytes at `at` are others,
// under a good checksum.
void ExpectRefused(const Bytes& good, size_t at, uint32_t value, size_t bytes,
                   const char* words) {
  Bytes bad = good;
  std::memcpy(bad.data() + at, &value, bytes);
  wire::StoreChecksum(bad);
  const auto parsed = ParseFrame(bad);
  ASSERT_FALSE(parsed.ok()) << words;
  EXPECT_NE(parsed.error().message.find(words), std::string::npos)
      << parsed.error().message;
  EXPECT_LE(parsed.error().offset, good.size());
}

// This is about codecs whose bits are coded as masks are; coded_mask_test.cc
// has what a coded mask itself may not be.
TEST(Coding, RefusesWhatCannotBeWithWhatAndWhere) {
  for (const char* codec : {"mask", "signsgd", "topk"}) {
    SCOPED_TRACE(codec);
    EncodeOptions options;
    options.segments = kUnevenSegments;
    const Bytes good =
        EncodeFrame(HeaderFor(codec), options, Uneven(12, 0.2f), {}).value();
    const auto expect = [&](size_t at, uint32_t value, size_t bytes,
                            const char* words) {
      ExpectRefused(good, at, value, bytes, words);
    };
    // Where the coded bits begin: behind count, lengths and scales; behind the
    // kept values.
    const std::string_view name = codec;
    const size_t at =
        wire::kPayload +
        (name == "mask" ? 0
         : name == "signsgd"
             ? 4 + 3 * 8
             : 4 + 4 * LoadLe<uint32_t>(good.data() + wire::kPayload));
    ASSERT_EQ(LoadLe<uint32_t>(good.data() + at), 3u);
    const size_t tables = at + 4 + 3 * 4;
    size_t states = tables;
    for (int tensor = 0; tensor < 3; ++tensor) states += 1 + good[states];
    expect(wire::kCodecParam.offset, 2, 4, "0 or 1");
    expect(wire::kCodecParam.offset, 0, 4, "");
    expect(wire::kVersion.offset, 1, 1, "");
    expect(at, 0, 4, "0 tensors");
    expect(at, 0xFFFFFFFF, 4, "tensors do not fit");
    expect(at + 4, 299, 4, "sum to 20002");
    expect(tables, 65, 1, "more than 64");
    expect(states, 0, 4, "state 0");
    expect(tables + 1, good[tables + 1] ^ 0x40u, 1, "");
    expect(
        good.size() - kFrameChecksumBytes - 1,
        LoadLe<uint8_t>(good.data() + good.size() - kFrameChecksumBytes - 1) ^
            0xFFu,
        1, "");
    for (size_t n = 0; n < good.size(); n += 7) {
      ASSERT_FALSE(ParseFrame(ByteView(good).first(n)).ok()) << n;
    }
  }
}

TEST(TernGrad, RefusesBadCodingWithWhatAndWhere) {
  const Bytes good =
      EncodeFrame(HeaderFor("terngrad"), {}, Normal(12, 5003), {}).value();
  const auto expect = [&](size_t at, uint32_t value, size_t bytes,
                          const char* words) {
    ExpectRefused(good, at, value, bytes, words);
  };
  // One segment: count, length, scale, share, length of the coded trits.
  const size_t share = wire::kPayload + 12, length = share + 1;
  const auto bytes = LoadLe<uint32_t>(good.data() + length);
  expect(wire::kCodecParam.offset, 2, 4, "0 or 1");
  expect(wire::kCodecParam.offset, 0, 4, "instead of");
  expect(wire::kVersion.offset, 1, 1, "");
  expect(length, 0xFFFFFFFF, 4, "do not fit the payload");
  expect(length, bytes - 1, 4, "half a word");
  expect(length, bytes - 2, 4, "too early");
  expect(length, bytes + 2, 4, "do not end where the vector does");
  expect(length + 4, 0, 4, "state 0");
  expect(share, 127, 1, "coded trits");
  expect(good.size() - 9, 0xFF, 1, "signs");
  for (size_t n = 0; n < good.size(); ++n) {
    ASSERT_FALSE(ParseFrame(ByteView(good).first(n)).ok()) << n;
  }
}

TEST(TernGrad, IsUnbiasedInsideTheClip) {
  const std::vector<float> x = Normal(13, 500);
  EncodeOptions options;
  options.clip = 0;
  std::vector<double> mean(x.size());
  constexpr int kDraws = 2000;
  float largest = 0;
  for (int r = 0; r < kDraws; ++r) {
    options.draw_seed = r;
    const auto y = RoundTrip(HeaderFor("terngrad"), options, x);
    for (size_t i = 0; i < x.size(); ++i) {
      mean[i] += double{y[i]} / kDraws;
      largest = std::max(largest, std::fabs(y[i]));
    }
  }
  for (size_t i = 0; i < x.size(); ++i) {
    // Variance |x|(s - |x|) <= s^2/4.
    ASSERT_NEAR(mean[i], x[i], 5 * largest / 2 / std::sqrt(kDraws));
  }
}

// ---- SignSGD ----

// Gain and error for Gaussian input at a = kappa * sigma (methods table).
TEST(SignSgd, PublishedGainAndError) {
  const std::vector<float> x = Normal(21, 1 << 20);
  const struct {
    float kappa;
    double gain, vnmse;
  } rows[] = {
      {0.5f, .383, .484}, {1, .683, .635}, {2, .954, 3.09}, {3, .997, 8.01}};
  for (const auto& row : rows) {
    EncodeOptions options;
    options.scale = row.kappa;
    const auto y = RoundTrip(HeaderFor("signsgd"), options, x);
    EXPECT_NEAR(Dot(x, y) / SquaredNorm(x), row.gain, 0.015);
    EXPECT_NEAR(Vnmse(x, y) / row.vnmse, 1, 0.02);
  }
}

// SignSGD with a fixed scale is FedAvg with signed stochastic masking and
// Bernoulli noise of that magnitude: other draws of the same law.
TEST(SignSgd, FixedScaleIsSignedMaskingWithBernoulliNoise) {
  constexpr size_t kParams = 1 << 18;
  const std::vector<float> x(kParams, 0.002f);
  EncodeOptions options;
  options.scale = 0.005f;
  FrameHeader masked = HeaderFor("mrn-signed");
  masked.noise = {NoiseKind::kBernoulli, 0.005f, 12345};
  for (const auto& out : {RoundTrip(HeaderFor("signsgd"), options, x),
                          RoundTrip(masked, options, x)}) {
    size_t positive = 0;
    for (float v : out) {
      ASSERT_EQ(std::fabs(v), 0.005f);
      positive += v > 0;
    }
    // (1 + 0.4) / 2, to five standard deviations.
    EXPECT_NEAR(static_cast<double>(positive) / kParams, 0.7, 0.0045);
  }
}

// Given the seed a mask with Bernoulli noise of 1 in all its draws has the same
// dither: the signs are those of the masked noise.
TEST(SignSgd, DrawsAsSignedMasksDo) {
  const std::vector<float> x = Normal(24, 5003, 0.004f);
  EncodeOptions options;
  options.scale = 0.005f;
  FrameHeader masked = HeaderFor("mrn-signed", 77);
  masked.noise = {NoiseKind::kBernoulli, 0.005f, 77};
  ExpectSameBits(RoundTrip(HeaderFor("signsgd", 77), options, x),
                 RoundTrip(masked, options, x));
}

TEST(SignSgd, MaxScaleIsUnbiased) {
  const std::vector<float> x = Normal(23, 200, 0.01f);
  std::vector<double> mean(x.size());
  constexpr int kDraws = 4000;
  float scale = 0;
  EncodeOptions options;
  for (int r = 0; r < kDraws; ++r) {
    const auto y =
        RoundTrip(HeaderFor("signsgd", static_cast<uint64_t>(r)), options, x);
    scale = std::fabs(y[0]);
    for (size_t i = 0; i < x.size(); ++i) mean[i] += double{y[i]} / kDraws;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(mean[i], x[i], 5 * scale / std::sqrt(kDraws));
  }
}

// ---- Top-k ----

TEST(TopK, KeepsTheLargestAndBreaksTiesByIndex) {
  const std::vector<float> x = {1, -5, 2, 2, -2, 0, 3, 2};
  EncodeOptions options;
  options.keep = 0.5;  // four of eight: -5, 3, and two of the four 2s
  EXPECT_EQ(RoundTrip(HeaderFor("topk"), options, x),
            (std::vector<float>{0, -5, 2, 2, 0, 0, 3, 0}));
  options.keep = 1;
  EXPECT_EQ(RoundTrip(HeaderFor("topk"), options, x), x);
  options.keep = 0.0001;  // at least one
  EXPECT_EQ(RoundTrip(HeaderFor("topk"), options, x),
            (std::vector<float>{0, -5, 0, 0, 0, 0, 0, 0}));
}

// A sample of every fourth value tells where the threshold is, or does not.
TEST(TopK, KeepsTheLargestWhateverASampleOfThemIsLike) {
  constexpr size_t kLength = 32768 + 5;
  for (const float every_fourth : {1.0f, 1e-3f, 1e3f, 0.0f}) {
    std::vector<float> x = Normal(1, kLength);
    for (size_t i = 0; i < kLength; i += 4) x[i] *= every_fourth;
    for (const double keep : {0.00004, 0.01, 0.2, 0.7, 0.9, 1.0}) {
      std::vector<size_t> order(kLength);
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return std::fabs(x[a]) > std::fabs(x[b]);
      });
      std::vector<float> expected(kLength);
      const auto k = static_cast<size_t>(std::llround(keep * double{kLength}));
      for (size_t j = 0; j < k; ++j) expected[order[j]] = x[order[j]];
      EncodeOptions options;
      options.keep = keep;
      EXPECT_EQ(RoundTrip(HeaderFor("topk"), options, x), expected)
          << every_fourth << " " << keep;
    }
  }
}

TEST(TopK, ThePapersCounts) {
  for (const auto& [d, k] :
       {std::pair<size_t, uint32_t>{389920, 11698}, {398176, 11945}}) {
    EncodeOptions options;
    options.entropy = false;
    const Bytes frame =
        EncodeFrame(HeaderFor("topk"), options, Normal(1, d), {}).value();
    EXPECT_EQ(LoadLe<uint32_t>(frame.data() + kFrameHeaderBytes), k);
    // Rice parameter 4 is the best at 3 %.
    EXPECT_EQ(LoadLe<uint32_t>(frame.data() + kFrameHeaderBytes + 4), 4u);
  }
}

TEST(TopK, AsManyPositionsAsValues) {
  EncodeOptions options;
  options.segments = kUnevenSegments;
  const Bytes frame =
      EncodeFrame(HeaderFor("topk"), options, Uneven(1, 1), {}).value();
  const auto k = LoadLe<uint32_t>(frame.data() + wire::kPayload);
  Bytes fewer = frame;
  StoreLe(k - 1, fewer.data() + wire::kPayload);
  // Without the first value, too.
  fewer.erase(fewer.begin() + wire::kPayload + 4,
              fewer.begin() + wire::kPayload + 8);
  wire::kPayloadBytes.Store(wire::kPayloadBytes.Load(frame.data()) - 4,
                            fewer.data());
  wire::StoreChecksum(fewer);
  const auto parsed = ParseFrame(fewer);
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.error().message.find("positions for"), std::string::npos)
      << parsed.error().message;
}

// Where next to nothing is kept, gaps are shorter than bits.
TEST(TopK, TakesTheShorterCoding) {
  const std::vector<float> x = Normal(1, 200000);
  EncodeOptions options;
  options.keep = 1e-5;
  EXPECT_EQ(ParseFrame(EncodeFrame(HeaderFor("topk"), options, x, {}).value())
                ->codec_param,
            0u);
}

TEST(TopK, RefusesASillyShare) {
  const std::vector<float> x(10, 1.0f);
  for (double keep : {0.0, -0.1, 1.5, double{NAN}}) {
    EncodeOptions options;
    options.keep = keep;
    EXPECT_FALSE(EncodeFrame(HeaderFor("topk"), options, x, {}).ok());
  }
}

TEST(Options, AreRefusedWithAReason) {
  const std::vector<float> x(10, 1.0f);
  EncodeOptions options;
  options.bits = 5;
  EXPECT_FALSE(EncodeFrame(HeaderFor("eden"), options, x, {}).ok());
  options = {};
  options.scale = -1;
  EXPECT_FALSE(EncodeFrame(HeaderFor("signsgd"), options, x, {}).ok());
  options = {};
  options.clip = NAN;
  EXPECT_FALSE(EncodeFrame(HeaderFor("terngrad"), options, x, {}).ok());
  const std::vector<float> large(10, 1e6f);
  EXPECT_FALSE(EncodeFrame(HeaderFor("float16"), {}, large, {}).ok());
  const uint32_t empty_segment[] = {10, 0};
  options = {};
  options.segments = empty_segment;
  EXPECT_FALSE(EncodeFrame(HeaderFor("drive"), options, x, {}).ok());
}

}  // namespace
}  // namespace fedmrn
