#include "fedmrn/core/mask.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/check.h"
#include "fedmrn/core/draws.h"
#include "fedmrn/core/philox.h"
#include "fedmrn/core/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/core/mask.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "fedmrn/core/noise-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

// Shared by all targets.
#ifndef FEDMRN_CORE_MASK_CC_SHARED_
#define FEDMRN_CORE_MASK_CC_SHARED_
namespace fedmrn {

// PM's probability that a parameter is masked in this step, in the unit of the
// steps' 16-bit draws: 65536 is always.
constexpr float kAlways = 0x1p16f;
inline float MaskedShare(const Masking& masking, const LocalStep& at) {
  return masking.progressive ? static_cast<float>(at.step) /
                                   static_cast<float>(at.total_steps) * kAlways
                             : kAlways;
}

}  // namespace fedmrn
#endif

HWY_BEFORE_NAMESPACE();
namespace fedmrn {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
// Highway's one-lane fallback lacks most operations: use the definition.
using ref::FinalMask;
using ref::MaskedStep;
#else

// The noise of a vector of parameters, from odd integers or uniform bytes.
template <class D>
HWY_INLINE hn::Vec<D> NoiseAt(D d, const int16_t* odds, hn::Vec<D> unit) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<int16_t, D> d16;
  return hn::Mul(hn::ConvertTo(d, hn::PromoteTo(di, hn::Load(d16, odds))),
                 unit);
}
template <class D>
HWY_INLINE hn::Vec<D> NoiseAt(D d, const uint8_t* bytes, hn::Vec<D> unit) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<int8_t, D> d8;
  const auto k =
      hn::PromoteTo(di, hn::Load(d8, reinterpret_cast<const int8_t*>(bytes)));
  return hn::Mul(hn::ConvertTo(d, hn::Add(hn::Add(k, k), hn::Set(di, 1))),
                 unit);
}

// Some parameters of MaskedStep. `uniforms` are their 16-bit draws. The
// arithmetic is ref::MaskedStep's, lane by lane.
template <MaskKind kKind, bool kStochastic, class NoiseType>
HWY_INLINE void StepSome(size_t count, const NoiseType* HWY_RESTRICT noise,
                         const uint16_t* HWY_RESTRICT uniforms,
                         const float* HWY_RESTRICT units, float share,
                         float learning_rate, const float* weights,
                         const float* gradient, float* update,
                         float* effective) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint16_t, decltype(d)> du16;
  const size_t lanes = hn::Lanes(d);
  const auto zero = hn::Zero(d);
  const auto half = hn::Set(d, 0.5f);
  const auto share_v = hn::Set(d, share);
  const auto rate_v = hn::Set(d, learning_rate);
  const auto sign_bit = hn::SignBit(d);

  for (size_t i = 0; i < count; i += lanes) {
    auto u = hn::LoadU(d, update + i);
    if (gradient != nullptr) {
      u = hn::Sub(u, hn::Mul(rate_v, hn::LoadU(d, gradient + i)));
      hn::StoreU(u, d, update + i);
    }
    const auto n = NoiseAt(d, noise + i, hn::LoadU(d, units + i));
    const auto a = hn::Abs(n);
    const auto n_sign = hn::And(n, sign_bit);
    const auto uniform = hn::Add(
        hn::ConvertTo(d, hn::PromoteTo(di, hn::Load(du16, uniforms + i))),
        half);
    const auto masked = hn::Lt(uniform, share_v);
    const auto along = hn::Xor(u, n_sign);  // u in the noise's direction

    auto hat = zero;
    if constexpr (kKind == MaskKind::kBinary) {
      const auto clipped = hn::IfThenElseZero(
          hn::Gt(along, zero), hn::IfThenElse(hn::Lt(along, a), along, a));
      const auto keep =
          kStochastic ? hn::Lt(hn::Mul(uniform, a), hn::Mul(share_v, along))
                      : hn::Gt(along, zero);
      hat = hn::IfThenElse(masked, hn::IfThenElseZero(keep, a), clipped);
      hat = hn::Xor(hat, n_sign);
    } else {
      const auto minus_a = hn::Neg(a);
      const auto clipped = hn::IfThenElse(
          hn::Lt(u, a), hn::IfThenElse(hn::Gt(u, minus_a), u, minus_a), a);
      auto drawn = zero;
      if constexpr (kStochastic) {
        const auto positive = hn::Lt(hn::Mul(hn::Add(uniform, uniform), a),
                                     hn::Mul(share_v, hn::Add(u, a)));
        drawn = hn::IfThenElse(positive, a, minus_a);
      } else {
        drawn = hn::IfThenElse(hn::Gt(along, zero), n, hn::Neg(n));
      }
      hat = hn::IfThenElse(masked, drawn, clipped);
    }
    hn::StoreU(hn::Add(hn::LoadU(d, weights + i), hat), d, effective + i);
  }
}

HWY_INLINE void PrefetchFloats(const float* from, size_t count) {
  constexpr size_t kPerLine = 64 / sizeof(float);
  for (size_t i = 0; i < count; i += kPerLine) hwy::Prefetch(from + i);
}

// Tiles [tile, tile + tiles) of MaskedStep; the pointers are to their start.
template <MaskKind kKind, bool kStochastic, bool kBytes>
HWY_INLINE void StepTiles(const Masking& masking, const LocalStep& at,
                          uint64_t tile, size_t tiles, const float* weights,
                          const float* gradient, float* update,
                          float* effective) {
  UnitTiles units(masking.noise);
  const float share = MaskedShare(masking, at);
  // No draw can matter when every parameter is masked by a fixed rule.
  const bool needs_draws = kStochastic || share < kAlways;

  NoiseCursor<kBytes> noise(masking.noise, tile);
  using Draws = PhiloxCursor<RoundsFor(Purpose::kStep)>;
  Draws draws({masking.draw_seed, Purpose::kStep, at.step}, tile * (kTile / 8));
  const size_t step = NoiseCursor<kBytes>::StepParams();
  const size_t draws_each = 8 * Draws::StepBlocks();
  alignas(64) uint32_t words[kTile / 2] = {};
  for (size_t i = 0; i < tiles * kTile; i += step) {
    // The next step's operands come from memory while the generator is busy.
    const size_t next = i + step < tiles * kTile ? i + step : i;
    PrefetchFloats(update + next, step);
    noise.Step();
    PrefetchFloats(weights + next, step);
    for (size_t j = 0; needs_draws && j < step; j += draws_each) {
      draws.Step(words + j / 2);
      if (j == 0 && gradient != nullptr) PrefetchFloats(gradient + next, step);
    }
    PrefetchFloats(effective + next, step);
    StepSome<kKind, kStochastic>(
        step, noise.data(), reinterpret_cast<const uint16_t*>(words),
        units.At(tile + i / kTile) + i % kTile, share, at.learning_rate,
        weights + i, gradient == nullptr ? nullptr : gradient + i, update + i,
        effective + i);
  }
}

template <MaskKind kKind, bool kStochastic, bool kBytes>
HWY_INLINE void StepAll(const Masking& masking, const LocalStep& at,
                        std::span<const float> weights,
                        std::span<const float> gradient,
                        std::span<float> update, std::span<float> effective) {
  const auto run = StepTiles<kKind, kStochastic, kBytes>;
  const size_t whole = update.size() / kTile;
  const size_t left = update.size() % kTile;
  const bool has_gradient = !gradient.empty();
  run(masking, at, 0, whole, weights.data(),
      has_gradient ? gradient.data() : nullptr, update.data(),
      effective.data());
  if (left > 0) {
    const size_t i = whole * kTile;
    alignas(64) float w[kTile] = {}, g[kTile] = {}, u[kTile] = {}, e[kTile];
    std::copy_n(weights.data() + i, left, w);
    std::copy_n(update.data() + i, left, u);
    if (has_gradient) std::copy_n(gradient.data() + i, left, g);
    run(masking, at, whole, 1, w, has_gradient ? g : nullptr, u, e);
    std::copy_n(u, left, update.data() + i);
    std::copy_n(e, left, effective.data() + i);
  }
}

template <bool kBytes>
HWY_INLINE void StepFor(const Masking& masking, const LocalStep& at,
                        std::span<const float> weights,
                        std::span<const float> gradient,
                        std::span<float> update, std::span<float> effective) {
  using enum MaskKind;
  const auto run = masking.kind == kBinary
                       ? (masking.stochastic ? StepAll<kBinary, true, kBytes>
                                             : StepAll<kBinary, false, kBytes>)
                       : (masking.stochastic ? StepAll<kSigned, true, kBytes>
                                             : StepAll<kSigned, false, kBytes>);
  run(masking, at, weights, gradient, update, effective);
}

void MaskedStep(const Masking& masking, const LocalStep& at,
                std::span<const float> weights, std::span<const float> gradient,
                std::span<float> update, std::span<float> effective) {
  const auto run = masking.noise.kind == NoiseKind::kUniform ? StepFor<true>
                                                             : StepFor<false>;
  run(masking, at, weights, gradient, update, effective);
}

// The final mask's bits of one tile, from its dither.
template <MaskKind kKind, bool kStochastic>
HWY_INLINE void FinalTile(const int16_t* HWY_RESTRICT odds,
                          const uint16_t* HWY_RESTRICT dither,
                          const float* HWY_RESTRICT units, const float* update,
                          uint8_t* HWY_RESTRICT bits) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint16_t, decltype(d)> du16;
  const hn::Rebind<int16_t, decltype(d)> d16;
  const size_t lanes = hn::Lanes(d);
  const auto zero = hn::Zero(d);
  const auto one = hn::Set(di, 1);
  // A vector of four lanes fills half a byte: gather eight lanes' bits first.
  uint8_t packed[8];
  for (size_t i = 0; i < kTile; i += lanes < 8 ? 8 : lanes) {
    unsigned half_byte[2] = {0, 0};
    for (size_t part = 0; part < (lanes < 8 ? 8 / lanes : 1); ++part) {
      const size_t at = i + part * lanes;
      const auto u = hn::LoadU(d, update + at);
      const auto n =
          hn::Mul(hn::ConvertTo(d, hn::PromoteTo(di, hn::Load(d16, odds + at))),
                  hn::LoadU(d, units + at));
      const auto a = hn::Abs(n);
      const auto along = hn::Xor(u, hn::And(n, hn::SignBit(d)));
      auto keep = hn::Gt(along, zero);
      if constexpr (kStochastic) {
        const auto k = hn::PromoteTo(di, hn::Load(du16, dither + at));
        const auto w = hn::Add(hn::Add(k, k), one);
        if constexpr (kKind == MaskKind::kBinary) {
          const auto uniform =
              hn::Mul(hn::ConvertTo(d, w), hn::Set(d, 0x1p-17f));
          keep = hn::Lt(hn::Mul(uniform, a), along);
        } else {
          const auto centred =
              hn::Mul(hn::ConvertTo(d, hn::Sub(w, hn::Set(di, 1 << 16))),
                      hn::Set(d, 0x1p-16f));
          const auto positive = hn::Lt(hn::Mul(centred, a), u);
          keep = hn::Xor(positive, hn::Lt(n, zero));
        }
      }
      if (lanes < 8) {
        hn::StoreMaskBits(d, keep, packed);
        half_byte[part] = packed[0];
      } else {
        hn::StoreMaskBits(d, keep, bits + at / 8);
      }
    }
    if (lanes < 8) {
      bits[i / 8] = static_cast<uint8_t>(half_byte[0] | half_byte[1] << 4);
    }
  }
}

template <MaskKind kKind, bool kStochastic>
HWY_INLINE void FinalAll(const Masking& masking, std::span<const float> update,
                         std::span<uint8_t> bits) {
  const PhiloxStream dither{masking.noise.seed, Purpose::kDither, 0};
  UnitTiles units(masking.noise);
  alignas(64) int16_t odds[kTile];
  alignas(64) uint32_t words[kTile / 2];
  // Room behind the last byte: a target may store more than it means.
  alignas(64) uint8_t packed[kTile / 8 + 64];
  alignas(64) float padded[kTile];
  for (size_t i = 0; i < update.size(); i += kTile) {
    const size_t count = std::min(kTile, update.size() - i);
    const float* u = update.data() + i;
    if (count < kTile) {
      std::fill_n(std::copy_n(u, count, padded), kTile - count, 0.0f);
      u = padded;
    }
    NoiseTile(masking.noise, i / kTile, odds);
    if (kStochastic) PhiloxBlocks(dither, i / 8, kTile / 8, words);
    FinalTile<kKind, kStochastic>(odds,
                                  reinterpret_cast<const uint16_t*>(words),
                                  units.At(i / kTile), u, packed);
    const size_t bytes = BytesForBits(count);
    if (count % 8 != 0) {
      packed[bytes - 1] &= static_cast<uint8_t>((1u << (count % 8)) - 1);
    }
    std::copy_n(packed, bytes, bits.data() + i / 8);
  }
}

void FinalMask(const Masking& masking, std::span<const float> update,
               std::span<uint8_t> bits) {
  using enum MaskKind;
  const auto run = masking.kind == kBinary
                       ? (masking.stochastic ? FinalAll<kBinary, true>
                                             : FinalAll<kBinary, false>)
                       : (masking.stochastic ? FinalAll<kSigned, true>
                                             : FinalAll<kSigned, false>);
  run(masking, update, bits);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn {

HWY_EXPORT(MaskedStep);
HWY_EXPORT(FinalMask);

void MaskedStep(const Masking& masking, const LocalStep& at,
                std::span<const float> weights, std::span<const float> gradient,
                std::span<float> update, std::span<float> effective) {
  FEDMRN_CHECK(IsValid(masking.noise));
  FEDMRN_CHECK(masking.noise.magnitudes.empty() ||
               masking.noise.magnitudes.params() == update.size());
  FEDMRN_CHECK(at.step >= 1 && at.step <= at.total_steps);
  FEDMRN_CHECK(update.size() == weights.size() &&
               effective.size() == weights.size() &&
               (gradient.empty() || gradient.size() == weights.size()));
  HWY_DYNAMIC_DISPATCH(MaskedStep)
  (masking, at, weights, gradient, update, effective);
}

void FinalMask(const Masking& masking, std::span<const float> update,
               std::span<uint8_t> bits) {
  FEDMRN_CHECK(IsValid(masking.noise));
  FEDMRN_CHECK(masking.noise.magnitudes.empty() ||
               masking.noise.magnitudes.params() == update.size());
  FEDMRN_CHECK(bits.size() == BytesForBits(update.size()));
  HWY_DYNAMIC_DISPATCH(FinalMask)(masking, update, bits);
}

namespace ref {

void MaskedStep(const Masking& masking, const LocalStep& at,
                std::span<const float> weights, std::span<const float> gradient,
                std::span<float> update, std::span<float> effective) {
  const PhiloxStream draws{masking.draw_seed, Purpose::kStep, at.step};
  const float share = MaskedShare(masking, at);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!gradient.empty()) {
      const float change = at.learning_rate * gradient[i];
      update[i] -= change;
    }
    const float u = update[i];
    float n;
    ref::NoiseValues(masking.noise, i, {&n, 1});
    const float a = std::fabs(n);
    const float along = n < 0 ? -u : u;

    // One draw decides both Bernoulli samples. The parameter is masked if
    // U < share (PM), and given that, U/share is uniform again (SM).
    const float uniform = DrawHalfWord(draws, i);
    float hat;
    if (masking.kind == MaskKind::kBinary) {
      if (!(uniform < share)) {
        hat = along > 0 ? (along < a ? along : a) : 0;
      } else if (masking.stochastic) {
        hat = uniform * a < share * along ? a : 0;  // Eq. 6
      } else {
        hat = along > 0 ? a : 0;
      }
      if (n < 0) hat = -hat;
    } else {
      if (!(uniform < share)) {
        hat = u < a ? (u > -a ? u : -a) : a;
      } else if (masking.stochastic) {
        // Eq. 7, stated for n*m: positive with probability (u + |n|) / (2|n|).
        const float twice = uniform + uniform;
        hat = twice * a < share * (u + a) ? a : -a;
      } else {
        hat = along > 0 ? n : -n;
      }
    }
    effective[i] = weights[i] + hat;
  }
}

void FinalMask(const Masking& masking, std::span<const float> update,
               std::span<uint8_t> bits) {
  const PhiloxStream dither{masking.noise.seed, Purpose::kDither, 0};
  std::fill(bits.begin(), bits.end(), uint8_t{0});
  for (size_t i = 0; i < update.size(); ++i) {
    const float u = update[i];
    float n;
    ref::NoiseValues(masking.noise, i, {&n, 1});
    const float a = std::fabs(n);
    const float along = n < 0 ? -u : u;
    const auto w = static_cast<float>(2 * HalfWord(dither, i) + 1);
    bool keep;
    if (!masking.stochastic) {
      keep = along > 0;
    } else if (masking.kind == MaskKind::kBinary) {
      keep = w * 0x1p-17f * a < along;
    } else {
      const bool positive = (w - 0x1p16f) * 0x1p-16f * a < u;
      keep = positive != (n < 0);
    }
    if (keep) bits[i / 8] |= static_cast<uint8_t>(1u << (i % 8));
  }
}

}  // namespace ref
}  // namespace fedmrn
#endif  // HWY_ONCE
