#include "fedmrn/core/bit_context.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "fedmrn/core/draws.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/core/bit_context.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "fedmrn/core/noise-inl.h"
#include "hwy/highway.h"

// Shared by all targets.
#ifndef FEDMRN_CORE_BIT_CONTEXT_CC_SHARED_
#define FEDMRN_CORE_BIT_CONTEXT_CC_SHARED_
namespace fedmrn {

// Takes a threshold below 2^17 whatever the noise.
inline int ThresholdShift(NoiseKind kind) {
  return kind == NoiseKind::kUniform    ? 8
         : kind == NoiseKind::kGaussian ? 15
                                        : 0;
}

}  // namespace fedmrn
#endif

HWY_BEFORE_NAMESPACE();
namespace fedmrn {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
// Highway's one-lane fallback lacks most operations: use the definition.
using ref::BitContextsOf;
using ref::OnesOfContexts;
#else

template <MaskKind kMask>
HWY_INLINE void ContextsTile(const Noise& noise, uint64_t tile,
                             BitContexts& out) {
  alignas(64) int16_t odds[kTile];
  alignas(64) uint32_t words[kTile / 2];
  if (noise.kind == NoiseKind::kNone) {
    std::fill_n(odds, kTile, int16_t{kMask == MaskKind::kSigned});
  } else {
    NoiseTile(noise, tile, odds);
  }
  PhiloxBlocks({noise.seed, Purpose::kDither, 0}, tile * (kTile / 8), kTile / 8,
               words);
  const uint16_t* dither = reinterpret_cast<const uint16_t*>(words);

  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::Repartition<uint16_t, decltype(df)> du16;
  const hn::RebindToSigned<decltype(du16)> di16;
  const hn::Rebind<uint8_t, decltype(di16)> d8;
  const int shift = ThresholdShift(noise.kind);
  // 4 times a threshold's logarithm, and an offset: a float's exponent and
  // upper mantissa bits. Integers below 2^17 are exact.
  const auto log_of = [&](hn::Vec<decltype(du)> k,
                          hn::Vec<decltype(du)> odd) HWY_ATTR {
    auto w = hn::BitCast(di, hn::Add(hn::Add(k, k), hn::Set(du, 1)));
    if constexpr (kMask == MaskKind::kSigned) {
      w = hn::Abs(hn::Sub(hn::Add(w, w), hn::Set(di, 1 << 17)));
    }
    const auto threshold =
        hn::ShiftRightSame(hn::Mul(hn::BitCast(du, w), odd), shift);
    const auto real = hn::ConvertTo(df, hn::BitCast(di, threshold));
    return hn::ShiftRight<21>(hn::BitCast(di, real));
  };
  const auto zero = hn::Zero(du16);
  const auto offset = hn::Set(di16, (127 + 1) * 4);
  for (size_t i = 0; i < kTile; i += hn::Lanes(du16)) {
    const auto k = hn::Load(du16, dither + i);
    const auto odd = hn::BitCast(du16, hn::Abs(hn::Load(di16, odds + i)));
    // Zipped with zeros within blocks of 128 bits, and packed within them.
    const auto log = hn::ReorderDemote2To(
        di16, log_of(hn::ZipLower(du, k, zero), hn::ZipLower(du, odd, zero)),
        log_of(hn::ZipUpper(du, k, zero), hn::ZipUpper(du, odd, zero)));
    hn::StoreU(hn::DemoteTo(d8, hn::Sub(hn::Max(log, offset), offset)), d8,
               out.contexts + i);
  }
  if constexpr (kMask == MaskKind::kSigned) {
    const hn::ScalableTag<int16_t> d;
    for (size_t i = 0; i < kTile; i += hn::Lanes(d)) {
      // A threshold is negative where the dither is below 2^15.
      const auto k = hn::Load(d, reinterpret_cast<const int16_t*>(dither) + i);
      const auto differ = hn::Xor(hn::Not(k), hn::Load(d, odds + i));
      hn::StoreMaskBits(d, hn::Lt(differ, hn::Zero(d)), out.flips + i / 8);
    }
  } else {
    std::fill_n(out.flips, kTile / 8, uint8_t{0});
  }
}

void BitContextsOf(MaskKind mask, const Noise& noise, uint64_t tile,
                   BitContexts& out) {
  const auto run = mask == MaskKind::kBinary ? ContextsTile<MaskKind::kBinary>
                                             : ContextsTile<MaskKind::kSigned>;
  run(noise, tile, out);
}

void OnesOfContexts(const ContextOnes& table, std::span<const uint8_t> contexts,
                    RansOnes* ones) {
  const hn::ScalableTag<uint8_t> d8;
  using V = hn::Vec<decltype(d8)>;
  const size_t lanes = hn::Lanes(d8);
  // A table of 64 bytes is four that a vector can look up at once.
  const auto part = [&](const uint8_t* bytes, size_t k)
                        HWY_ATTR { return hn::LoadDup128(d8, bytes + 16 * k); };
  const V l0 = part(table.low, 0), l1 = part(table.low, 1),
          l2 = part(table.low, 2), l3 = part(table.low, 3);
  const V h0 = part(table.high, 0), h1 = part(table.high, 1),
          h2 = part(table.high, 2), h3 = part(table.high, 3);
  const V in_16 = hn::Set(d8, 15), from_16 = hn::Set(d8, 16),
          from_32 = hn::Set(d8, 32);
  size_t i = 0;
  for (; i + lanes <= contexts.size(); i += lanes) {
    const V context = hn::LoadU(d8, contexts.data() + i);
    const V index = hn::And(context, in_16);
    const auto odd16 = hn::Eq(hn::And(context, from_16), from_16);
    const auto upper = hn::Eq(hn::And(context, from_32), from_32);
    const auto look_up = [&](V t0, V t1, V t2, V t3) HWY_ATTR {
      return hn::IfThenElse(
          upper,
          hn::IfThenElse(odd16, hn::TableLookupBytes(t3, index),
                         hn::TableLookupBytes(t2, index)),
          hn::IfThenElse(odd16, hn::TableLookupBytes(t1, index),
                         hn::TableLookupBytes(t0, index)));
    };
    const V low = look_up(l0, l1, l2, l3), high = look_up(h0, h1, h2, h3);
    // Little-endian, as all targets are.
    hn::StoreInterleaved2(low, high, d8, reinterpret_cast<uint8_t*>(ones + i));
  }
  ref::OnesOfContexts(table, contexts.subspan(i), ones + i);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn {

HWY_EXPORT(BitContextsOf);
HWY_EXPORT(OnesOfContexts);

void BitContextsOf(MaskKind mask, const Noise& noise, uint64_t tile,
                   BitContexts& out) {
  if (!HasContexts(mask, noise)) {
    out = {};  // what the others come to as well, without drawing it
    return;
  }
  HWY_DYNAMIC_DISPATCH(BitContextsOf)(mask, noise, tile, out);
}

void OnesOfContexts(const ContextOnes& table, std::span<const uint8_t> contexts,
                    RansOnes* ones) {
  HWY_DYNAMIC_DISPATCH(OnesOfContexts)(table, contexts, ones);
}

namespace ref {

void OnesOfContexts(const ContextOnes& table, std::span<const uint8_t> contexts,
                    RansOnes* ones) {
  for (size_t i = 0; i < contexts.size(); ++i) {
    ones[i] = table[contexts[i]];
  }
}

void BitContextsOf(MaskKind mask, const Noise& noise, uint64_t tile,
                   BitContexts& out) {
  const PhiloxStream stream{noise.seed, Purpose::kDither, 0};
  std::fill_n(out.flips, kTile / 8, uint8_t{0});
  for (size_t j = 0; j < kTile; ++j) {
    const uint64_t i = tile * kTile + j;
    int16_t odd;
    ref::NoiseOdds(noise, i, {&odd, 1});
    if (noise.kind == NoiseKind::kNone && mask == MaskKind::kSigned) odd = 1;
    const auto w = static_cast<int32_t>(2 * HalfWord(stream, i) + 1);
    const int32_t height =
        mask == MaskKind::kBinary ? w : std::abs(2 * w - (1 << 17));
    const uint32_t r =
        static_cast<uint32_t>(height) * static_cast<uint32_t>(std::abs(odd)) >>
        ThresholdShift(noise.kind);
    const int e = std::bit_width(r) - 1;
    const uint32_t below = r < 2 ? 0 : (r << 2 >> e) & 3;
    out.contexts[j] = static_cast<uint8_t>(
        r < 2 ? 0 : 4 * (static_cast<uint32_t>(e) - 1) + below);
    if (mask == MaskKind::kSigned && (w < (1 << 16)) != (odd < 0)) {
      out.flips[j / 8] |= static_cast<uint8_t>(1u << j % 8);
    }
  }
}

}  // namespace ref
}  // namespace fedmrn
#endif  // HWY_ONCE
