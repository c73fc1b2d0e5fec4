// Vector noise, a tile of parameters at a time. Included once per SIMD target.
#if defined(FEDMRN_CORE_NOISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FEDMRN_CORE_NOISE_INL_H_
#undef FEDMRN_CORE_NOISE_INL_H_
#else
#define FEDMRN_CORE_NOISE_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "fedmrn/core/noise.h"
#include "fedmrn/core/philox-inl.h"
#include "fedmrn/core/tile.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fedmrn {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR  // which uses the plain definitions

// The bytes k (as int8) of uniform noise, whose odd integers are 2k + 1.
HWY_INLINE void UniformBytesTile(const Noise& noise, uint64_t tile,
                                 uint32_t* HWY_RESTRICT words) {
  constexpr size_t kBlocks = kTile / 16;
  PhiloxBlocks({noise.seed, Purpose::kNoise, 0}, tile * kBlocks, kBlocks,
               words);
}

// The odd integers of parameters tile*kTile ... tile*kTile + kTile - 1.
// `odds` is vector-aligned (alignas(64)).
HWY_NOINLINE inline void NoiseTile(const Noise& noise, uint64_t tile,
                                   int16_t* HWY_RESTRICT odds) {
  const PhiloxStream stream{noise.seed, Purpose::kNoise, 0};
  alignas(64) uint32_t words[kTile / 2];
  const hn::ScalableTag<int16_t> d16;
  const size_t lanes = hn::Lanes(d16);
  switch (noise.kind) {
    case NoiseKind::kUniform: {
      UniformBytesTile(noise, tile, words);
      const int8_t* bytes = reinterpret_cast<const int8_t*>(words);
      const hn::Rebind<int8_t, decltype(d16)> d8;
      const auto one = hn::Set(d16, 1);
      for (size_t i = 0; i < kTile; i += lanes) {
        const auto k = hn::PromoteTo(d16, hn::Load(d8, bytes + i));
        hn::Store(hn::Add(hn::Add(k, k), one), d16, odds + i);
      }
      return;
    }
    case NoiseKind::kGaussian: {
      constexpr size_t kBlocks = kTile / 8;
      PhiloxBlocks(stream, tile * kBlocks, kBlocks, words);
      const int16_t* table = GaussianOdds();
      for (size_t i = 0; i < kTile / 2; ++i) {
        odds[2 * i] = table[words[i] & 0xFFFF];
        odds[2 * i + 1] = table[words[i] >> 16];
      }
      return;
    }
    case NoiseKind::kBernoulli: {
      constexpr size_t kBlocks = kTile / 128;
      PhiloxBlocks(stream, tile * kBlocks, kBlocks, words);
      const uint8_t* bits = reinterpret_cast<const uint8_t*>(words);
      const auto plus = hn::Set(d16, 1);
      const auto minus = hn::Set(d16, -1);
      for (size_t i = 0; i < kTile; i += lanes) {
        // EMU128's eight lanes are the least that a byte can feed.
        hn::Store(
            hn::IfThenElse(hn::LoadMaskBits(d16, bits + i / 8), plus, minus),
            d16, odds + i);
      }
      return;
    }
    case NoiseKind::kNone:
      break;
  }
  for (size_t i = 0; i < kTile; ++i) odds[i] = 0;
}

// Noise, a step of some parameters at a time: as NoiseTile's odd integers or,
// kBytes, for uniform noise, as the bytes k that they come from (odd = 2k + 1),
// which saves widening them.
template <bool kBytes>
class NoiseCursor;

template <>
class NoiseCursor<false> {
 public:
  NoiseCursor(const Noise& noise, uint64_t tile) : noise_(noise), tile_(tile) {}
  static size_t StepParams() { return kTile; }
  HWY_INLINE void Step() { NoiseTile(noise_, tile_++, odds_); }
  const int16_t* data() const { return odds_; }

 private:
  Noise noise_;
  uint64_t tile_;
  alignas(64) int16_t odds_[kTile];
};

// Steps are short, so that the CPU's prefetcher, which runs about as far ahead,
// keeps fetching what the caller adds the noise to.
template <>
class NoiseCursor<true> {
  using Philox = PhiloxCursor<RoundsFor(Purpose::kNoise)>;

 public:
  NoiseCursor(const Noise& noise, uint64_t tile)
      : philox_({noise.seed, Purpose::kNoise, 0}, tile * (kTile / 16)) {}
  static size_t StepParams() { return 16 * Philox::StepBlocks(); }
  HWY_INLINE void Step() { philox_.Step(words_); }
  const uint8_t* data() const {
    return reinterpret_cast<const uint8_t*>(words_);
  }

 private:
  Philox philox_;
  alignas(64) uint32_t words_[4 * Philox::kMaxStepBlocks];
};

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
