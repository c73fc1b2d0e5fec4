#include "fedmrn/core/noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "fedmrn/base/check.h"
#include "fedmrn/core/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/core/noise.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "fedmrn/core/noise-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fedmrn {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
// Highway's one-lane fallback lacks most operations: use the definition.
using ref::NoiseOdds;
#else

void NoiseOdds(const Noise& noise, uint64_t first, std::span<int16_t> odds) {
  alignas(64) int16_t tile[kTile];
  for (size_t done = 0; done < odds.size();) {
    const uint64_t at = first + done;
    const size_t skip = at % kTile;
    const size_t count = std::min(kTile - skip, odds.size() - done);
    NoiseTile(noise, at / kTile, tile);
    std::copy_n(tile + skip, count, odds.data() + done);
    done += count;
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn {
namespace {

using GaussianTable = std::array<int16_t, 65536>;

// Walks the standard normal distribution function in steps of h = 1/2048 with
// IEEE basic operations alone, so that every machine gets the same table
// without trusting its math library. noise_test.cc shows that no quantile
// comes close enough to a step's edge for rounding to matter.
std::unique_ptr<const GaussianTable> MakeGaussianTable() {
  auto table = std::make_unique<GaussianTable>();
  constexpr double h = 0x1p-11;
  // Density at the middle m of the current step, starting from m = h/2.
  double m = h / 2;
  double density = 0.39894228040143267794 * (1 - m * m / 2 + m * m * m * m / 8);
  double below_edge = 0;  // Phi(j*h) - 1/2, then of the step's upper edge
  size_t k = 32768;
  for (int j = 0; k < 65536; ++j) {
    // Midpoint rule with its h^2 and h^4 corrections.
    const double m2 = m * m;
    below_edge += density * h *
                  (1 + h * h / 24 * (m2 - 1) +
                   h * h * h * h / 1920 * (m2 * m2 - 6 * m2 + 3));
    while (k < 65536 &&
           (static_cast<double>(k) - 32767.5) / 65536 < below_edge) {
      (*table)[k] = static_cast<int16_t>(2 * j + 1);
      (*table)[65535 - k] = static_cast<int16_t>(-(2 * j + 1));
      ++k;
    }
    // density(m + h) = density(m) * exp(-t), t = m*h + h^2/2 < 0.0021.
    const double t = m * h + h * h / 2;
    density *= 1 - t * (1 - t / 2 * (1 - t / 3 * (1 - t / 4 * (1 - t / 5))));
    m += h;
  }
  return table;
}

}  // namespace

bool IsValid(const Noise& noise) {
  switch (noise.kind) {
    case NoiseKind::kUniform:
    case NoiseKind::kGaussian:
    case NoiseKind::kBernoulli: {
      // False for NaN.
      const auto sound = [](float magnitude) {
        return magnitude >= kMinMagnitude && magnitude <= kMaxMagnitude;
      };
      if (noise.magnitudes.empty()) return sound(noise.magnitude);
      for (size_t t = 0; t < noise.magnitudes.size(); ++t) {
        if (!sound(noise.magnitudes[t].magnitude)) return false;
      }
      return noise.magnitude == 0;
    }
    case NoiseKind::kNone:
      break;
  }
  return false;
}

float NoiseUnit(NoiseKind kind, float magnitude) {
  switch (kind) {
    case NoiseKind::kUniform:
      return magnitude * 0x1p-8f;
    case NoiseKind::kGaussian:
      return magnitude * 0x1p-12f;
    case NoiseKind::kBernoulli:
      return magnitude;
    case NoiseKind::kNone:
      break;
  }
  return 0;
}

UnitTiles::UnitTiles(const Noise& noise)
    : noise_(noise), unit_(NoiseUnit(noise.kind, noise.magnitude)) {
  if (noise.magnitudes.empty()) end_ = std::numeric_limits<uint64_t>::max();
}

const float* UnitTiles::At(uint64_t tile) {
  const uint64_t first = tile * kTile;
  if (first + kTile <= filled_) return units_;
  filled_ = first + kTile;
  for (size_t i = 0; i < kTile;) {
    while (first + i >= end_ && next_ < noise_.magnitudes.size()) {
      const auto [length, magnitude] = noise_.magnitudes[next_++];
      unit_ = NoiseUnit(noise_.kind, magnitude);
      end_ += length;
    }
    const size_t count = first + i >= end_
                             ? kTile - i  // behind the last
                             : std::min<uint64_t>(kTile - i, end_ - first - i);
    std::fill_n(units_ + i, count, unit_);
    // A tensor that fills the tile may fill those behind it as well.
    if (count == kTile) filled_ = std::max(filled_, end_);
    i += count;
  }
  return units_;
}

int32_t MaxOdd(NoiseKind kind) {
  switch (kind) {
    case NoiseKind::kUniform:
      return 255;
    case NoiseKind::kGaussian:
      return GaussianOdds()[65535];
    case NoiseKind::kBernoulli:
      return 1;
    case NoiseKind::kNone:
      break;
  }
  return 0;
}

const int16_t* GaussianOdds() {
  static const std::unique_ptr<const GaussianTable> table = MakeGaussianTable();
  return table->data();
}

HWY_EXPORT(NoiseOdds);

void NoiseOdds(const Noise& noise, uint64_t first, std::span<int16_t> odds) {
  HWY_DYNAMIC_DISPATCH(NoiseOdds)(noise, first, odds);
}

void NoiseValues(const Noise& noise, uint64_t first, std::span<float> values) {
  UnitTiles units(noise);
  int16_t odds[kTile];
  for (size_t done = 0; done < values.size();) {
    const uint64_t at = first + done;
    const size_t skip = at % kTile;
    const size_t count = std::min(kTile - skip, values.size() - done);
    NoiseOdds(noise, at, {odds, count});
    const float* unit = units.At(at / kTile) + skip;
    for (size_t i = 0; i < count; ++i) {
      values[done + i] = static_cast<float>(odds[i]) * unit[i];
    }
    done += count;
  }
}

namespace ref {

void NoiseOdds(const Noise& noise, uint64_t first, std::span<int16_t> odds) {
  const PhiloxStream stream{noise.seed, Purpose::kNoise, 0};
  // Bits `bits_each*i` up to `bits_each*(i+1)` of the stream.
  const auto bits_of = [&](uint64_t i, uint32_t bits_each) {
    const uint64_t bit = i * bits_each;
    uint32_t block[4];
    ref::PhiloxWords(stream, bit / 128, block);
    return (block[bit % 128 / 32] >> (bit % 32)) & ((1u << bits_each) - 1);
  };
  for (size_t n = 0; n < odds.size(); ++n) {
    const uint64_t i = first + n;
    switch (noise.kind) {
      case NoiseKind::kUniform:
        odds[n] = static_cast<int16_t>(
            2 * static_cast<int8_t>(static_cast<uint8_t>(bits_of(i, 8))) + 1);
        break;
      case NoiseKind::kGaussian:
        odds[n] = GaussianOdds()[bits_of(i, 16)];
        break;
      case NoiseKind::kBernoulli:
        odds[n] = bits_of(i, 1) != 0 ? 1 : -1;
        break;
      case NoiseKind::kNone:
        odds[n] = 0;
        break;
    }
  }
}

void NoiseValues(const Noise& noise, uint64_t first, std::span<float> values) {
  for (size_t n = 0; n < values.size(); ++n) {
    int16_t odd;
    ref::NoiseOdds(noise, first + n, {&odd, 1});
    float magnitude = noise.magnitude;
    uint64_t end = 0;  // of the tensor that parameter first + n is in
    for (size_t t = 0; t < noise.magnitudes.size() && first + n >= end; ++t) {
      magnitude = noise.magnitudes[t].magnitude;
      end += noise.magnitudes[t].length;
    }
    values[n] = static_cast<float>(odd) * NoiseUnit(noise.kind, magnitude);
  }
}

}  // namespace ref
}  // namespace fedmrn
#endif  // HWY_ONCE
