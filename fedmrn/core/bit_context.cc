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
  const hn::Rebind<uint16_t, decltype(df)> du16;
  const hn::Rebind<int16_t, decltype(df)> di16;
  const hn::Rebind<uint8_t, decltype(df)> d8;
  const int shift = ThresholdShift(noise.kind);
  // A float's exponent and upper mantissa bits are the context of its integer,
  // but for an offset. Integers below 2^17 are exact.
  const auto offset = hn::Set(di, (127 + 1) * 4);
  for (size_t i = 0; i < kTile; i += hn::Lanes(df)) {
    const auto k = hn::PromoteTo(di, hn::Load(du16, dither + i));
    auto w = hn::Add(hn::Add(k, k), hn::Set(di, 1));
    if constexpr (kMask == MaskKind::kSigned) {
      w = hn::Abs(hn::Sub(hn::Add(w, w), hn::Set(di, 1 << 17)));
    }
    const auto odd = hn::Abs(hn::PromoteTo(di, hn::Load(di16, odds + i)));
    const auto threshold = hn::ShiftRightSame(
        hn::Mul(hn::BitCast(du, w), hn::BitCast(du, odd)), shift);
    const auto real = hn::ConvertTo(df, hn::BitCast(di, threshold));
    const auto log = hn::ShiftRight<21>(hn::BitCast(di, real));
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

void OnesOfContexts(const ContextBytes& table,
                    std::span<const uint8_t> contexts, RansOnes* ones) {
  const hn::ScalableTag<uint16_t> d16;
  const hn::ScalableTag<uint8_t> d8;
  const hn::Half<decltype(d8)> d8_half;
  const size_t lanes = hn::Lanes(d8);
  // A table of 64 bytes is four that a vector can look up at once.
  const auto part = [&](size_t k) HWY_ATTR {
    return hn::LoadDup128(d8, table.data() + 16 * k);
  };
  const auto t0 = part(0), t1 = part(1), t2 = part(2), t3 = part(3);
  const auto in_16 = hn::Set(d8, 15), from_32 = hn::Set(d8, 32),
             from_16 = hn::Set(d8, 16);
  const auto widen = [&](hn::Vec<decltype(d16)> byte) HWY_ATTR {
    const auto upper = hn::Gt(byte, hn::Set(d16, 127));
    const auto h = hn::IfThenElse(upper, hn::Sub(hn::Set(d16, 256), byte),
                                  hn::Add(byte, hn::Set(d16, 1)));
    const auto square = hn::Mul(h, h);
    const auto below_half = hn::Add(
        h, hn::Sub(hn::ShiftRight<3>(square), hn::ShiftRight<7>(square)));
    return hn::IfThenElse(upper, hn::Sub(hn::Set(d16, kRansScale), below_half),
                          below_half);
  };
  size_t i = 0;
  for (; i + lanes <= contexts.size(); i += lanes) {
    const auto context = hn::LoadU(d8, contexts.data() + i);
    const auto index = hn::And(context, in_16);
    const auto odd16 = hn::Eq(hn::And(context, from_16), from_16);
    const auto low = hn::IfThenElse(odd16, hn::TableLookupBytes(t1, index),
                                    hn::TableLookupBytes(t0, index));
    const auto high = hn::IfThenElse(odd16, hn::TableLookupBytes(t3, index),
                                     hn::TableLookupBytes(t2, index));
    const auto byte =
        hn::IfThenElse(hn::Eq(hn::And(context, from_32), from_32), high, low);
    hn::StoreU(widen(hn::PromoteTo(d16, hn::LowerHalf(d8_half, byte))), d16,
               ones + i);
    hn::StoreU(widen(hn::PromoteTo(d16, hn::UpperHalf(d8_half, byte))), d16,
               ones + i + lanes / 2);
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

void OnesOfContexts(const ContextBytes& table,
                    std::span<const uint8_t> contexts, RansOnes* ones) {
  HWY_DYNAMIC_DISPATCH(OnesOfContexts)(table, contexts, ones);
}

namespace ref {

void OnesOfContexts(const ContextBytes& table,
                    std::span<const uint8_t> contexts, RansOnes* ones) {
  for (size_t i = 0; i < contexts.size(); ++i) {
    ones[i] = OnesOfByte(table[contexts[i]]);
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
