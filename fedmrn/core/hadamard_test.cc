#include "fedmrn/core/hadamard.h"

#include "fedmrn/core/test_util.h"

namespace fedmrn {
namespace {

TEST(Hadamard, SmallCasesByHand) {
  std::vector<float> x = {1, 2, 3, 4};
  Hadamard(x);
  EXPECT_EQ(x, (std::vector<float>{10, -2, -4, 0}));
  std::vector<float> one = {5};
  Hadamard(one);
  EXPECT_EQ(one[0], 5);
}

TEST(Hadamard, VectorsEqualDefinition) {
  ForEachTarget([] {
    for (int bits = 0; bits <= 17; ++bits) {
      const size_t n = size_t{1} << bits;
      const std::vector<float> x = Normal(bits, n + 1);
      std::vector<float> expected(x.begin() + 1, x.end());
      ref::Hadamard(expected);
      std::vector<float> actual = x;  // misaligned by one float
      Hadamard(std::span(actual).subspan(1));
      EXPECT_EQ(actual[0], x[0]);
      ExpectSameBits(std::span(actual).subspan(1), expected);
    }
  });
}

TEST(Hadamard, IsItsOwnInverseAndKeepsTheNorm) {
  const std::vector<float> x = Normal(1, 1 << 14);
  std::vector<float> y = x;
  Hadamard(y);
  for (float& v : y) v *= 0x1p-7f;
  EXPECT_NEAR(SquaredNorm(y) / SquaredNorm(x), 1, 1e-5);
  Hadamard(y);
  for (float& v : y) v *= 0x1p-7f;
  EXPECT_LT(SquaredError(x, y) / SquaredNorm(x), 1e-11);
}

}  // namespace
}  // namespace fedmrn
