// Shared by the core's tests.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "fedmrn/core/codec.h"
#include "fedmrn/core/noise.h"
#include "gtest/gtest.h"
#include "hwy/targets.h"

// Needed for SupportedAndGeneratedTargets.
#include "hwy/highway.h"

namespace fedmrn {

inline constexpr NoiseKind kNoiseKinds[] = {
    NoiseKind::kUniform, NoiseKind::kGaussian, NoiseKind::kBernoulli};
inline constexpr MaskKind kMaskKinds[] = {MaskKind::kBinary, MaskKind::kSigned};

// Runs `test` once for every SIMD target that this CPU can run.
inline void ForEachTarget(const std::function<void()>& test) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    test();
    hwy::SetSupportedTargetsForTest(0);
  }
}

// For suites that sweep the codec table.
inline void PrintTo(const Codec& codec, std::ostream* to) { *to << codec.name; }
inline std::string CodecTestName(const testing::TestParamInfo<Codec>& param) {
  std::string name(param.param.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Below two of the longest vectors of bytes, around tiles, and odd large ones.
inline std::vector<size_t> TestLengths() {
  std::vector<size_t> lengths;
  for (size_t n = 0; n <= 130; ++n) lengths.push_back(n);
  for (size_t n : {255, 256, 257, 1000, 1023, 1024, 1025, 2047, 4095, 5003}) {
    lengths.push_back(n);
  }
  return lengths;
}

// N(0, sigma^2), on 65536 levels.
inline std::vector<float> Normal(uint64_t seed, size_t size,
                                 float sigma = 1.0f) {
  std::vector<float> values(size);
  NoiseValues({NoiseKind::kGaussian, sigma, seed}, 0, values);
  return values;
}

inline double SquaredNorm(std::span<const float> x) {
  double sum = 0;
  for (float v : x) sum += double{v} * v;
  return sum;
}

inline double SquaredError(std::span<const float> x, std::span<const float> y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
  }
  return sum;
}

inline double Dot(std::span<const float> x, std::span<const float> y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += double{x[i]} * y[i];
  return sum;
}

// Equal to the last bit.
inline void ExpectSameBits(std::span<const float> a, std::span<const float> b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(a[i]), std::bit_cast<uint32_t>(b[i]))
        << "at " << i << ": " << a[i] << " and " << b[i];
  }
}

}  // namespace fedmrn
