#include "fedmrn/core/philox.h"

#include <Random123/philox.h>

#include <random>

#include "fedmrn/core/test_util.h"

namespace fedmrn {
namespace {

using Words4 = std::array<uint32_t, 4>;

// Random123 1.14, tests/kat_vectors.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(ref::Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(ref::Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(ref::Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                            {0xa4093822, 0x299f31d0}),
            (Words4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, KnownAnswersWithSevenRounds) {
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(ref::Philox4x32({0, 0, 0, 0}, {0, 0}, 7),
            (Words4{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  EXPECT_EQ(ref::Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}, 7),
            (Words4{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}));
  EXPECT_EQ(ref::Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                            {0xa4093822, 0x299f31d0}, 7),
            (Words4{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}));
}

// C++26: the 10000th output of a default std::philox4x32.
TEST(Philox, StandardLibraryCheckValue) {
  uint32_t block[4];
  PhiloxWords({20111115}, 2499, block);
  EXPECT_EQ(block[3], 1955073260u);
}

// The known answers once more, through the vector kernels: a stream reaches
// every counter and key.
TEST(Philox, KnownAnswersOnEveryTarget) {
  ForEachTarget([] {
    uint32_t block[4];
    PhiloxWords(
        {0x299f31d0a4093822, static_cast<Purpose>(0x03707344), 0x13198a2e},
        0x85a308d3243f6a88, block);
    EXPECT_EQ(block[0], 0xd16cfe09u);
    EXPECT_EQ(block[1], 0x94fdccebu);
    EXPECT_EQ(block[2], 0x5001e420u);
    EXPECT_EQ(block[3], 0x24126ea1u);
  });
}

TEST(Philox, EqualsRandom123) {
  std::mt19937_64 random(1);
  r123::Philox4x32 other;
  for (int i = 0; i < 10000; ++i) {
    const uint64_t a = random(), b = random(), key = random();
    const Words4 counter = {
        static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32),
        static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)};
    const auto expected =
        other({{counter[0], counter[1], counter[2], counter[3]}},
              {{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}});
    const Words4 actual = ref::Philox4x32(
        counter,
        {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
    for (int j = 0; j < 4; ++j) ASSERT_EQ(actual[j], expected[j]);
  }
}

TEST(Philox, VectorsEqualDefinition) {
  // At the start, unaligned, and across a carry into the counter's high word.
  const uint64_t firsts[] = {0,
                             1,
                             7,
                             8,
                             1000003,
                             (uint64_t{1} << 32) - 3,
                             (uint64_t{1} << 32) - 300,
                             ~uint64_t{0} - 5000};
  std::vector<size_t> lengths = TestLengths();
  ForEachTarget([&] {
    for (uint64_t first : firsts) {
      const PhiloxStream stream{
          0x0123456789abcdef ^ first,
          first % 2 == 0 ? Purpose::kStep : Purpose::kEncode, 77};
      std::vector<uint32_t> expected(5003);
      ref::PhiloxWords(stream, first, expected);
      for (size_t n : lengths) {
        for (size_t misalign : {0, 1}) {
          std::vector<uint32_t> words(n + misalign + 1, 0xABCD);
          PhiloxWords(stream, first, std::span(words).subspan(misalign, n));
          for (size_t i = 0; i < n; ++i) {
            ASSERT_EQ(words[misalign + i], expected[i]) << n << " " << i;
          }
          ASSERT_EQ(words[misalign + n], 0xABCDu) << "wrote beyond the end";
        }
      }
    }
  });
}

TEST(Philox, StreamsDiffer) {
  const PhiloxStream streams[] = {
      {1, Purpose::kNoise, 0}, {1, Purpose::kRotation, 0},
      {1, Purpose::kStep, 0},  {1, Purpose::kStep, 1},
      {2, Purpose::kNoise, 0}, {uint64_t{1} << 32, Purpose::kNoise, 0}};
  for (const PhiloxStream& a : streams) {
    for (const PhiloxStream& b : streams) {
      if (&a == &b) continue;
      uint32_t x[64], y[64];
      PhiloxWords(a, 0, x);
      PhiloxWords(b, 0, y);
      int equal = 0;
      for (int i = 0; i < 64; ++i) equal += x[i] == y[i];
      EXPECT_EQ(equal, 0);
    }
  }
}

}  // namespace
}  // namespace fedmrn
