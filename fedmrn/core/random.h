// Draws one after the other from a Philox stream, for code that is not hot:
// shuffles, samples, initial weights, partitions.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <utility>

#include "fedmrn/base/check.h"
#include "fedmrn/core/draws.h"
#include "fedmrn/core/philox.h"

namespace fedmrn {

class Random {
 public:
  explicit Random(const PhiloxStream& stream) : reader_(stream) {}

  uint32_t Word() { return reader_.Next(); }
  uint64_t Word64() {
    const uint64_t low = Word();
    return low | uint64_t{Word()} << 32;
  }

  // Uniform in [0, bound), without bias.
  uint64_t Below(uint64_t bound) {
    FEDMRN_CHECK(bound > 0);
    const uint64_t reject = -bound % bound;  // 2^64 mod bound
    uint64_t word;
    do {
      word = Word64();
    } while (word < reject);
    return word % bound;
  }

  // Uniform in [0, 1), 53 bits.
  double Uniform() { return static_cast<double>(Word64() >> 11) * 0x1p-53; }

  double Normal() {  // Box-Muller, the cosine half
    const double radius = std::sqrt(-2 * std::log1p(-Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

  // Marsaglia and Tsang; for shape < 1, Gamma(shape + 1) * U^(1/shape).
  double Gamma(double shape) {
    FEDMRN_CHECK(shape > 0);
    if (shape < 1) {
      const double boosted = Gamma(shape + 1);
      return boosted * std::pow(1 - Uniform(), 1 / shape);
    }
    const double d = shape - 1.0 / 3;
    const double c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = Normal();
      const double v = (1 + c * x) * (1 + c * x) * (1 + c * x);
      if (v > 0 &&
          std::log(1 - Uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
        return d * v;
      }
    }
  }

  template <typename T>
  void Shuffle(std::span<T> values) {  // Fisher-Yates
    for (size_t left = values.size(); left > 1; --left) {
      std::swap(values[left - 1], values[Below(left)]);
    }
  }

 private:
  DrawReader reader_;
};

}  // namespace fedmrn
