// One sweep over the codec table gives every codec its round-trip, size,
// truncation, corruption, addend and description tests (aggregate_test.cc has
// another for sums); then what facts say, entropy coding and options, which
// several codecs have. codec_published_test.cc has the numbers of each.
#include "fedmrn/core/codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "fedmrn/core/codec_test_util.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/mask.h"
#include "fedmrn/core/test_util.h"
#include "fedmrn/core/wire.h"

namespace fedmrn {
namespace {

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

// ---- Entropy coding ----

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

// ---- Options ----

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
