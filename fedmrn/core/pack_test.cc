#include "fedmrn/core/pack.h"

#include <cmath>
#include <initializer_list>
#include <utility>

#include "fedmrn/base/bytes.h"
#include "fedmrn/core/philox.h"
#include "fedmrn/core/test_util.h"

namespace fedmrn {
namespace {

// Zeros of both signs and equal values among them.
std::vector<float> Values(uint64_t seed) {
  std::vector<float> x = Normal(seed, 5003);
  for (size_t i = 0; i < x.size(); i += 5) x[i] = i % 2 == 0 ? 0.0f : -0.0f;
  return x;
}

TEST(Pack, VectorsEqualDefinition) {
  const std::vector<float> a = Values(1);
  ForEachTarget([&] {
    for (size_t n : TestLengths()) {
      // A byte more, which nobody may touch.
      Bytes fast(BytesForBits(n) + 1, 0x5A), plain = fast;
      const auto x = std::span(a).last(n);  // at any alignment
      for (float threshold : {0.0f, -0.0f, 0.5f}) {
        PackAbove(x, threshold, fast.data());
        ref::PackAbove(x, threshold, plain.data());
        ASSERT_EQ(fast, plain) << n;
        PackFarther(x, threshold, fast.data());
        ref::PackFarther(x, threshold, plain.data());
        ASSERT_EQ(fast, plain) << n;
      }
    }
  });
}

TEST(Pack, DrawsEqualDefinition) {
  const std::vector<float> x = Values(5);
  std::vector<float> scales = Normal(6, 5003);
  for (float& scale : scales) scale = std::fabs(scale);
  std::vector<uint32_t> words(5003);
  PhiloxWords({7}, 0, words);
  words[5000] = 0;  // of nearly every length
  words[5001] = 0xFFFFFFFF;
  ForEachTarget([&] {
    for (size_t n : TestLengths()) {
      Bytes fast(BytesForBits(n) + 1, 0x5A), plain = fast;
      using Kernel = decltype(&PackUniform);
      for (const auto& [kernel, definition] :
           std::initializer_list<std::pair<Kernel, Kernel>>{
               {PackUniform, ref::PackUniform},
               {PackUniformFarther, ref::PackUniformFarther},
               {PackCentred, ref::PackCentred}}) {
        const auto some = std::span(x).last(n);  // at any alignment
        const size_t at = x.size() - n;
        kernel(words.data() + at, scales.data() + at, some, fast.data());
        definition(words.data() + at, scales.data() + at, some, plain.data());
        ASSERT_EQ(fast, plain) << n;
      }
    }
  });
}

TEST(Pack, BitsAreWhatTheComparisonsSay) {
  const float a[] = {1, 2, 3, 0, 5, 6, 7, 8, 9, 1};
  uint8_t bits[2];
  PackAbove(a, 5, bits);
  EXPECT_EQ(bits[0], 0b11100000);
  EXPECT_EQ(bits[1], 0b01);
  const float b[] = {-6, 6, -5, 5, 0};
  PackFarther(b, 5, bits);
  EXPECT_EQ(bits[0], 0b00011);
}

TEST(Pack, TritsAreWhatTheBitsSay) {
  const uint8_t kept = 0b10110, positive = 0b01010;
  float out[4];
  SelectTrits(&kept, &positive, 1, 2, out);
  EXPECT_EQ(std::vector<float>(out, out + 4),
            (std::vector<float>{2, -2, 0, -2}));
}

TEST(Pack, SelectedFloatsEqualDefinition) {
  const std::vector<float> x = Values(3), y = Values(2);
  Bytes bits(BytesForBits(x.size())), signs = bits;
  ref::PackAbove(x, 0.2f, bits.data());
  ref::PackAbove(y, 0, signs.data());
  ForEachTarget([&] {
    for (size_t n : TestLengths()) {
      for (uint64_t first : {0, 1, 7, 8, 13}) {
        if (first + n > x.size()) continue;
        std::vector<float> fast(n, 9.0f), plain(n, 9.0f);
        SelectByBits(bits.data(), first, -1.5f, 2.5f, fast);
        ref::SelectByBits(bits.data(), first, -1.5f, 2.5f, plain);
        ASSERT_EQ(fast, plain) << n << " from " << first;
        SelectTrits(bits.data(), signs.data(), first, 2.5f, fast);
        ref::SelectTrits(bits.data(), signs.data(), first, 2.5f, plain);
        ASSERT_EQ(fast, plain) << n << " from " << first;
      }
    }
  });
}

TEST(Pack, CountsOnesBetween) {
  const std::vector<float> x = Values(4);
  Bytes bits(BytesForBits(x.size()));
  ref::PackAbove(x, 0.2f, bits.data());
  ForEachTarget([&] {
    for (size_t from : {0, 1, 7, 8, 300, 4999}) {
      for (size_t to : TestLengths()) {
        if (to < from) continue;
        ASSERT_EQ(CountBits(bits.data(), from, to),
                  ref::CountBits(bits.data(), from, to))
            << from << " to " << to;
      }
    }
  });
  EXPECT_EQ(CountBits(bits.data(), 0, x.size()),
            static_cast<uint64_t>(std::count_if(
                x.begin(), x.end(), [](float v) { return v > 0.2f; })));
}

}  // namespace
}  // namespace fedmrn
