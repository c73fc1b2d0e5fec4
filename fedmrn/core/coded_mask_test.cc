// The whole way of a coded mask: contexts, the coder below them, the payload,
// and what becomes of one that is wrong.
#include "fedmrn/core/coded_mask.h"

#include <cmath>
#include <string>

#include "fedmrn/core/bit_context.h"
#include "fedmrn/core/random.h"
#include "fedmrn/core/rans.h"
#include "fedmrn/core/test_util.h"

namespace fedmrn {
namespace {

struct RandomBits {
  std::vector<RansOnes> ones;
  Bytes bits;

  explicit RandomBits(size_t count) : bits(BytesForBits(count)) {
    Random random({count, Purpose::kSynthetic, 0});
    for (size_t i = 0; i < count; ++i) {
      // Also the ends, and also bits that nobody expected.
      const uint32_t word = random.Word();
      ones.push_back(static_cast<RansOnes>(
          word % 8 == 0   ? 1
          : word % 8 == 1 ? kRansScale - 1
                          : 1 + random.Below(kRansScale - 1)));
      const bool bit = random.Below(kRansScale) < ones[i] || word % 64 == 8;
      if (bit) bits[i / 8] |= static_cast<uint8_t>(1u << i % 8);
    }
  }

  Bytes Coded() const {
    RansEncoder encoder;
    encoder.Put(0, ones, bits.data());
    Bytes coded;
    encoder.Finish(coded);
    return coded;
  }
};

TEST(Rans, DecodesWhatItCodesOnEveryTarget) {
  for (size_t n : TestLengths()) {
    const RandomBits random(n);
    const Bytes coded = random.Coded();
    ForEachTarget([&] {
      RansDecoder decoder = RansDecoder::Create(coded).value();
      Bytes bits(random.bits.size(), 0xFF);
      ASSERT_TRUE(decoder.Get(random.ones, bits));
      ASSERT_EQ(bits, random.bits) << n;
      ASSERT_TRUE(decoder.AtEnd());
    });
  }
}

// Whatever the states and words are, and not only where they make sense.
TEST(Rans, VectorsEqualDefinition) {
  ForEachTarget([&] {
    for (size_t steps = 0; steps < 40; ++steps) {
      const RandomBits random(steps * kRansStates);
      Random draws({steps, Purpose::kSynthetic, 1});
      std::array<uint32_t, kRansStates> states, expected_states;
      for (uint32_t& x : states) {
        x = kRansLow + draws.Below(kRansHigh - kRansLow);
      }
      expected_states = states;
      Bytes words(2 * random.ones.size() + 16);
      for (uint8_t& byte : words) byte = static_cast<uint8_t>(draws.Word());
      Bytes expected(random.bits.size()), bits(random.bits.size());
      const size_t expected_used = ref::RansDecodeSteps(
          expected_states, random.ones, words.data(), expected.data());
      ASSERT_EQ(RansDecodeSteps(states, random.ones, words.data(), bits.data()),
                expected_used);
      ASSERT_EQ(bits, expected);
      ASSERT_EQ(states, expected_states);

      // Back again, to where it came from and to the same words.
      Bytes written(2 * random.ones.size() + 16), expected_words = written;
      ASSERT_EQ(ref::RansEncodeSteps(expected_states, random.ones, bits.data(),
                                     expected_words.data() + written.size()),
                expected_used);
      ASSERT_EQ(RansEncodeSteps(states, random.ones, bits.data(),
                                written.data() + written.size()),
                expected_used);
      ASSERT_EQ(states, expected_states);
      ASSERT_TRUE(std::equal(written.end() - 2 * expected_used, written.end(),
                             expected_words.end() - 2 * expected_used));
      ASSERT_TRUE(std::equal(written.end() - 2 * expected_used, written.end(),
                             words.begin()));
    }
  });
}

TEST(Rans, TakesTheBitsThatTheProbabilitiesSay) {
  constexpr size_t kBits = 1 << 18;
  const std::vector<RansOnes> ones(kBits, 410);  // a tenth
  Random random({1, Purpose::kSynthetic, 0});
  Bytes bits(kBits / 8);
  for (size_t i = 0; i < kBits; ++i) {
    if (random.Below(kRansScale) < 410) {
      bits[i / 8] |= static_cast<uint8_t>(1u << i % 8);
    }
  }
  RansEncoder encoder;
  encoder.Put(0, ones, bits.data());
  Bytes coded;
  encoder.Finish(coded);
  const double per_bit =
      8.0 * static_cast<double>(coded.size() - kRansStateBytes) / kBits;
  EXPECT_NEAR(per_bit, 0.469, 0.003);  // the entropy of a tenth
}

TEST(Rans, EndsEarlyOrLateAreSeen) {
  const RandomBits random(3000);
  const Bytes good = random.Coded();
  const auto ends_well = [&](const Bytes& coded) {
    Result<RansDecoder> decoder = RansDecoder::Create(coded);
    if (!decoder) return false;
    Bytes bits(random.bits.size());
    return decoder->Get(random.ones, bits) && decoder->AtEnd();
  };
  ASSERT_TRUE(ends_well(good));
  for (size_t n = 0; n < good.size(); ++n) {
    // In memory of exactly this size, so that a sanitizer sees any overrun.
    ASSERT_FALSE(ends_well(Bytes(good.begin(), good.begin() + n))) << n;
  }
  Bytes longer = good;
  longer.insert(longer.end(), {0, 0});
  EXPECT_FALSE(ends_well(longer));
  Bytes low = good;
  StoreLe(kRansLow - 1, low.data() + 8);
  EXPECT_EQ(RansDecoder::Create(low).error().offset, 8u);
}

TEST(BitContexts, VectorsEqualDefinition) {
  for (NoiseKind kind : kNoiseKinds) {
    for (MaskKind mask : kMaskKinds) {
      for (uint64_t tile : {uint64_t{0}, uint64_t{5}, uint64_t{1} << 30}) {
        BitContexts expected, got;
        ref::BitContextsOf(mask, {kind, 1, 77}, tile, expected);
        ForEachTarget([&] {
          BitContextsOf(mask, {kind, 1, 77}, tile, got);
          for (size_t i = 0; i < kTile; ++i) {
            ASSERT_EQ(got.contexts[i], expected.contexts[i]) << i;
            ASSERT_LT(got.contexts[i], kBitContexts);
            ASSERT_EQ(TestBit(got.flips, i), TestBit(expected.flips, i)) << i;
          }
        });
      }
    }
  }
}

// A bit that is not flipped is one where u lies beyond a threshold that grows
// with the context: what is beyond a large one is beyond a small one.
TEST(BitContexts, OrderThresholds) {
  for (NoiseKind kind : kNoiseKinds) {
    for (MaskKind mask : kMaskKinds) {
      const Noise noise{kind, 0.01f, 3};
      BitContexts known;
      BitContextsOf(mask, noise, 0, known);
      for (float u : {0.0003f, 0.002f, 0.006f}) {
        // Alongside the noise, or, for signed masks, the threshold.
        std::vector<float> update(kTile);
        NoiseValues(noise, 0, update);
        for (size_t i = 0; i < kTile; ++i) {
          const bool negative =
              mask == MaskKind::kBinary
                  ? update[i] < 0
                  : TestBit(known.flips, i) != (update[i] < 0);
          update[i] = negative ? -u : u;
        }
        Bytes bits(kTile / 8);
        FinalMask({.kind = mask, .noise = noise}, update, bits);
        int least_missed = 64, most_passed = -1;
        for (size_t i = 0; i < kTile; ++i) {
          const bool beyond =
              TestBit(bits.data(), i) != TestBit(known.flips, i);
          const int context = known.contexts[i];
          if (beyond) {
            most_passed = std::max(most_passed, context);
          } else {
            least_missed = std::min(least_missed, context);
          }
        }
        EXPECT_LE(most_passed, least_missed);
      }
    }
  }
}

Bytes MaskOf(MaskKind mask, const Noise& noise, size_t count, float sigma) {
  Bytes bits(BytesForBits(count));
  FinalMask({.kind = mask, .noise = noise}, Normal(count, count, sigma), bits);
  return bits;
}

TEST(CodedMask, DecodesToItself) {
  for (NoiseKind kind : kNoiseKinds) {
    for (MaskKind mask : kMaskKinds) {
      const Noise noise{kind, 0.01f, 11};
      for (size_t n : TestLengths()) {
        if (n == 0) continue;
        const Bytes bits = MaskOf(mask, noise, n, 0.004f);
        std::vector<uint32_t> tensors = {static_cast<uint32_t>(n)};
        if (n > 3) {
          const auto third = static_cast<uint32_t>(n / 3);
          tensors = {third, 1, static_cast<uint32_t>(n) - third - 1};
        }
        Bytes coded;
        AppendCodedMask(mask, noise, tensors, bits, coded);
        EXPECT_EQ(CodedTensors(coded), tensors.size());
        ForEachTarget([&] {
          Bytes same, decoded(bits.size(), 0xFF);
          AppendCodedMask(mask, noise, tensors, bits, same);
          ASSERT_EQ(same, coded);
          const uint64_t ones =
              DecodeMask(mask, noise, n, coded, decoded).value();
          ASSERT_EQ(decoded, bits) << n;
          uint64_t expected = 0;
          for (size_t i = 0; i < n; ++i) expected += TestBit(bits.data(), i);
          ASSERT_EQ(ones, expected);
        });
      }
    }
  }
}

double BitsPerParam(MaskKind mask, const Noise& noise,
                    std::span<const uint32_t> tensors, const Bytes& bits,
                    size_t params) {
  Bytes coded;
  AppendCodedMask(mask, noise, tensors, bits, coded);
  return 8.0 * static_cast<double>(coded.size()) / static_cast<double>(params);
}

// For a Gaussian update of 0.4 magnitudes the entropy of a mask's bits when the
// dither is known, by numerical integration; without it the mask of uniform
// noise has 0.877 bits, that of Bernoulli noise 0.632.
TEST(CodedMask, TakesTheBitsThatItsLawSays) {
  constexpr uint32_t kParams = 400000;
  const uint32_t tensors[] = {kParams};
  const struct {
    MaskKind mask;
    NoiseKind kind;
    double bits;
  } rows[] = {
      {MaskKind::kBinary, NoiseKind::kUniform, 0.7899},
      {MaskKind::kSigned, NoiseKind::kUniform, 0.7898},
      {MaskKind::kBinary, NoiseKind::kBernoulli, 0.5135},
      {MaskKind::kBinary, NoiseKind::kGaussian, 0.6717},
  };
  for (const auto& row : rows) {
    const Noise noise{row.kind, 0.01f, 11};
    EXPECT_NEAR(BitsPerParam(row.mask, noise, tensors,
                             MaskOf(row.mask, noise, kParams, 0.004f), kParams),
                row.bits, 0.006);
  }
}

TEST(ContextOnes, VectorsEqualDefinition) {
  ContextOnes table;
  for (size_t c = 0; c < kBitContexts; ++c) {
    const auto ones = static_cast<RansOnes>((c * 997 + 1) % kRansScale);
    table.Set(c, ones);
    EXPECT_EQ(table[c], ones);
  }
  Bytes contexts(5003);
  for (size_t i = 0; i < contexts.size(); ++i) {
    contexts[i] = static_cast<uint8_t>(i * i % kBitContexts);
  }
  ForEachTarget([&] {
    for (size_t n : TestLengths()) {
      const auto some = std::span<const uint8_t>(contexts).last(n);
      std::vector<RansOnes> expected(n), got(n);
      ref::OnesOfContexts(table, some, expected.data());
      OnesOfContexts(table, some, got.data());
      ASSERT_EQ(got, expected) << n;
    }
  });
}

// Random bits, which have no shorter code, cost one bit each and a byte in all.
TEST(CodedMask, FallsBackToPlainBitsForATensor) {
  constexpr uint32_t kParams = 100000;
  const uint32_t tensors[] = {kParams};
  const Noise noise{NoiseKind::kUniform, 0.01f, 11};
  std::vector<float> update(kParams);
  NoiseValues({NoiseKind::kBernoulli, 0.001f, 99}, 0, update);
  Bytes bits(BytesForBits(kParams));
  FinalMask({.stochastic = false, .noise = noise}, update, bits);
  Bytes coded;
  AppendCodedMask(MaskKind::kBinary, noise, tensors, bits, coded);
  EXPECT_EQ(coded[8], 0);  // an empty table
  EXPECT_LE(coded.size(), kParams / 8 + kRansStateBytes + 9 + 64);
}

TEST(CodedMask, TablesArePerTensor) {
  const uint32_t tensors[] = {200000, 200000}, one[] = {400000};
  const Noise noise{NoiseKind::kUniform, 0.01f, 11};
  std::vector<float> update = Normal(1, 400000, 0.001f);
  for (size_t i = 0; i < 200000; ++i) update[i] *= 10;
  Bytes bits(update.size() / 8);
  FinalMask({.noise = noise}, update, bits);
  EXPECT_LT(
      BitsPerParam(MaskKind::kBinary, noise, tensors, bits, 400000) + 0.05,
      BitsPerParam(MaskKind::kBinary, noise, one, bits, 400000));
}

class HostileMask : public testing::Test {
 protected:
  static constexpr size_t kParams = 3000;
  const Noise noise_{NoiseKind::kUniform, 0.01f, 11};
  const std::vector<uint32_t> tensors_ = {1000, 1, 1999};
  Bytes good_;

  void SetUp() override {
    AppendCodedMask(MaskKind::kBinary, noise_, tensors_,
                    MaskOf(MaskKind::kBinary, noise_, kParams, 0.004f), good_);
    ASSERT_TRUE(Decode(good_).ok());
  }
  Result<uint64_t> Decode(const Bytes& coded) const {
    return DecodeMask(MaskKind::kBinary, noise_, kParams, coded, {});
  }
  // Refused with words, at this place.
  void ExpectRefused(const Bytes& coded, const char* words, size_t offset) {
    const Result<uint64_t> result = Decode(coded);
    ASSERT_FALSE(result.ok()) << words;
    EXPECT_NE(result.error().message.find(words), std::string::npos)
        << result.error().message;
    EXPECT_EQ(result.error().offset, offset) << result.error().message;
  }
  Bytes Changed(size_t at, uint32_t value) const {
    Bytes coded = good_;
    StoreLe(value, coded.data() + at);
    return coded;
  }
  size_t TableAt(size_t tensor) const {
    size_t at = 4 + 4 * tensors_.size();
    while (tensor-- > 0) at += size_t{1} + good_[at];
    return at;
  }
};

TEST_F(HostileMask, CutOffAnywhere) {
  for (size_t n = 0; n < good_.size(); ++n) {
    const Result<uint64_t> result =
        Decode(Bytes(good_.begin(), good_.begin() + n));
    ASSERT_FALSE(result.ok()) << n;
    ASSERT_LE(result.error().offset, n);
  }
}

TEST_F(HostileMask, IsRefusedWithWhatAndWhere) {
  ExpectRefused(Changed(0, 0), "0 tensors do not fit", 0);
  ExpectRefused(Changed(0, 0xFFFFFFFF), "tensors do not fit", 0);
  ExpectRefused(Changed(8, 0), "tensor 1 is empty", 8);
  ExpectRefused(Changed(8, 2), "sum to 3001 instead of 3000", 4);
  ExpectRefused(Changed(8, 0xFFFFFFFF), "instead of 3000", 4);
  Bytes table = good_;
  table[TableAt(2)] = 65;
  ExpectRefused(table, "the table of tensor 2 has 65 bytes", TableAt(2));
  ExpectRefused(Changed(TableAt(3) + 4, 0x7FFF),
                "state 1 is not 2^15 to 2^31 - 1", TableAt(3) + 4);
  Bytes longer = good_;
  longer.push_back(0);
  ExpectRefused(longer, "half a word", good_.size());
  longer.push_back(0);
  ExpectRefused(longer, "do not end where the mask does", TableAt(3));
  Bytes shorter = good_;
  shorter.resize(good_.size() - 2);
  ExpectRefused(shorter, "end before the mask does", shorter.size());
}

// Every flipped byte is either refused or some other mask.
TEST_F(HostileMask, FlippedBytesDoNoHarm) {
  size_t refused = 0;
  for (size_t i = 0; i < good_.size(); ++i) {
    for (uint8_t flip : {0x01, 0x80, 0xFF}) {
      Bytes coded = good_;
      coded[i] ^= flip;
      const Result<uint64_t> result = Decode(coded);
      if (!result) {
        ++refused;
      } else {
        EXPECT_LE(*result, kParams);
      }
    }
  }
  EXPECT_GT(refused, 2 * good_.size());
}

TEST(TableBytes, RiseFromAlmostNeverToAlmostAlways) {
  EXPECT_EQ(OnesOfByte(0), 1);
  EXPECT_EQ(OnesOfByte(127), 2048);
  EXPECT_EQ(OnesOfByte(255), 4095);
  for (int byte = 1; byte < 256; ++byte) {
    EXPECT_GE(OnesOfByte(static_cast<uint8_t>(byte)),
              OnesOfByte(static_cast<uint8_t>(byte - 1)));
    EXPECT_EQ(OnesOfByte(static_cast<uint8_t>(byte)) +
                  OnesOfByte(static_cast<uint8_t>(255 - byte)),
              4096);
  }
}

}  // namespace
}  // namespace fedmrn
