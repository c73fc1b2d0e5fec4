#include "fedmrn/core/accumulate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/check.h"
#include "fedmrn/core/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/core/accumulate.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "fedmrn/core/noise-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fedmrn {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
// Highway's one-lane fallback lacks most operations: use the definition.
using ref::AddFloats;

void AddMasked(MaskKind mask, std::span<const MaskedUpdate> updates,
               uint64_t first_tile, uint64_t end_tile, uint64_t params,
               std::span<SmallTile> small) {
  std::vector<int64_t> sum(params);
  ref::AddMasked(mask, updates, first_tile, end_tile, sum);
  const size_t end = std::min<size_t>(end_tile * kTile, params);
  for (size_t i = first_tile * kTile; i < end; ++i) {
    small[i / kTile].sums[i % kTile] += static_cast<int32_t>(sum[i]);
  }
}

void DrainMasked(NoiseKind, int64_t factor, uint64_t first_tile,
                 uint64_t end_tile, std::span<SmallTile> small,
                 std::span<int64_t> sum) {
  for (size_t i = first_tile * kTile; i < end_tile * kTile; ++i) {
    int32_t& from = small[i / kTile].sums[i % kTile];
    if (i < sum.size()) sum[i] += factor * from;
    from = 0;
  }
}
#else

using D8 = hn::ScalableTag<uint8_t>;
using D16 = hn::ScalableTag<int16_t>;
using D32 = hn::ScalableTag<int32_t>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;

// In each 32-bit lane: low half * low half + high half * high half.
HWY_INLINE V32 MulAddPairs(V16 a, V16 b) {
  const D32 d32;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
  V32 unused = hn::Zero(d32);
  return hn::ReorderWidenMulAccumulate(d32, a, b, hn::Zero(d32), unused);
#else
  const auto low = [&](V16 v) HWY_ATTR {
    return hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(d32, v)));
  };
  const auto high = [&](V16 v) HWY_ATTR {
    return hn::ShiftRight<16>(hn::BitCast(d32, v));
  };
  return hn::Add(hn::Mul(low(a), low(b)), hn::Mul(high(a), high(b)));
#endif
}

// Parameters that one turn of AddStep takes: a vector of bytes or of int16.
template <bool kBytes>
HWY_INLINE size_t TurnParams() {
  return kBytes ? hn::Lanes(D8()) : hn::Lanes(D16());
}

// The masked noise of one turn's parameters: odd*m, and 128*odd*m if kBytes.
struct MaskedOdds {
  // kBytes: the lower and the upper halves of the 128-bit blocks of bytes;
  // else all in `lower`.
  V16 lower, upper;
};

template <MaskKind kKind>
HWY_INLINE MaskedOdds LoadMasked(const int16_t* odds, const uint8_t* bits) {
  const D16 d;
  const auto mask = hn::LoadMaskBits(d, bits);
  const V16 odd = hn::Load(d, odds);
  if constexpr (kKind == MaskKind::kBinary) {
    return {hn::IfThenElseZero(mask, odd), hn::Zero(d)};
  } else {
    return {hn::IfThenElse(mask, odd, hn::Neg(odd)), hn::Zero(d)};
  }
}

template <MaskKind kKind>
HWY_INLINE MaskedOdds LoadMasked(const uint8_t* bytes, const uint8_t* bits) {
  const D8 d;
  const D16 d16;
  const auto mask = hn::LoadMaskBits(d, bits);
  const auto k = hn::Load(d, bytes);
  // 256*k + 128 = 128 * (2k + 1): the widening is one interleave.
  auto low = hn::Set(d, 0x80), high = k;
  if constexpr (kKind == MaskKind::kBinary) {
    low = hn::IfThenElseZero(mask, low);
    high = hn::IfThenElseZero(mask, high);
  } else {
    // -(2k + 1) = 2*(-1 - k) + 1, and -1 - k is ~k.
    high = hn::IfThenElse(mask, k, hn::Not(k));
  }
  return {hn::BitCast(d16, hn::InterleaveLower(d, low, high)),
          hn::BitCast(d16, hn::InterleaveUpper(d, low, high))};
}

// sums += weighted masked noise of one client, or of two at once.
template <MaskKind kKind, bool kBytes, bool kTwo>
HWY_INLINE void AddStep(const NoiseCursor<kBytes>& a, const uint8_t* bits_a,
                        const NoiseCursor<kBytes>& b, const uint8_t* bits_b,
                        V16 weights, int32_t* HWY_RESTRICT sums) {
  const D16 d16;
  const D32 d32;
  const size_t lanes = hn::Lanes(d32);
  const size_t turn = TurnParams<kBytes>();
  const auto add = [&](V16 of_a, V16 of_b, int32_t* to) HWY_ATTR {
    const V32 lower =
        MulAddPairs(hn::InterleaveLower(d16, of_a, of_b), weights);
    const V32 upper =
        MulAddPairs(hn::InterleaveUpper(d16, of_a, of_b), weights);
    hn::Store(hn::Add(hn::Load(d32, to), lower), d32, to);
    hn::Store(hn::Add(hn::Load(d32, to + lanes), upper), d32, to + lanes);
  };
  for (size_t i = 0; i < NoiseCursor<kBytes>::StepParams(); i += turn) {
    const MaskedOdds of_a = LoadMasked<kKind>(a.data() + i, bits_a + i / 8);
    const MaskedOdds of_b =
        kTwo ? LoadMasked<kKind>(b.data() + i, bits_b + i / 8) : of_a;
    add(of_a.lower, of_b.lower, sums + i);
    if constexpr (kBytes) add(of_a.upper, of_b.upper, sums + i + 2 * lanes);
  }
}

// Tiles of sums += weight_a * masked noise of a, and of b if kTwo.
template <MaskKind kKind, bool kBytes, bool kTwo>
HWY_INLINE void AddRun(const MaskedUpdate& a, const MaskedUpdate& b,
                       uint64_t first_tile, uint64_t end_tile, uint64_t params,
                       int32_t* HWY_RESTRICT sums) {
  const V16 weights = hn::BitCast(
      D16(),
      hn::Set(D32(), static_cast<int32_t>(
                         static_cast<uint32_t>(kTwo ? b.weight : 0) << 16 |
                         static_cast<uint32_t>(a.weight))));
  NoiseCursor<kBytes> noise_a(a.noise, first_tile);
  NoiseCursor<kBytes> noise_b(kTwo ? b.noise : a.noise, first_tile);
  // The mask ends within the last tile.
  uint8_t tail_a[kTile / 8] = {}, tail_b[kTile / 8] = {};
  const size_t step = NoiseCursor<kBytes>::StepParams();
  for (uint64_t tile = first_tile; tile < end_tile; ++tile) {
    const uint8_t* bits_a = a.bits + tile * (kTile / 8);
    const uint8_t* bits_b = kTwo ? b.bits + tile * (kTile / 8) : bits_a;
    if ((tile + 1) * kTile > params) {
      const size_t bytes = BytesForBits(params - tile * kTile);
      std::memcpy(tail_a, bits_a, bytes);
      std::memcpy(tail_b, bits_b, bytes);
      bits_a = tail_a;
      bits_b = tail_b;
    }
    for (size_t i = 0; i < kTile; i += step) {
      noise_a.Step();
      if constexpr (kTwo) noise_b.Step();
      AddStep<kKind, kBytes, kTwo>(noise_a, bits_a + i / 8, noise_b,
                                   bits_b + i / 8, weights,
                                   sums + tile * kTile + i);
    }
  }
}

template <MaskKind kKind, bool kBytes>
HWY_INLINE void AddAllMasked(std::span<const MaskedUpdate> updates,
                             uint64_t first_tile, uint64_t end_tile,
                             uint64_t params, int32_t* sums) {
  // 16 KiB of sums stay in L1 while all clients are added to them.
  constexpr uint64_t kTiles = 4;
  for (uint64_t tile = first_tile; tile < end_tile; tile += kTiles) {
    const uint64_t end = std::min(tile + kTiles, end_tile);
    size_t k = 0;
    for (; k + 2 <= updates.size(); k += 2) {
      AddRun<kKind, kBytes, true>(updates[k], updates[k + 1], tile, end, params,
                                  sums);
    }
    if (k < updates.size()) {
      AddRun<kKind, kBytes, false>(updates[k], updates[k], tile, end, params,
                                   sums);
    }
  }
}

void AddMasked(MaskKind mask, std::span<const MaskedUpdate> updates,
               uint64_t first_tile, uint64_t end_tile, uint64_t params,
               std::span<SmallTile> small) {
  if (updates.empty() || small.empty()) return;
  using enum MaskKind;
  const bool bytes = updates[0].noise.kind == NoiseKind::kUniform;
  const auto run =
      mask == kBinary
          ? (bytes ? AddAllMasked<kBinary, true> : AddAllMasked<kBinary, false>)
          : (bytes ? AddAllMasked<kSigned, true>
                   : AddAllMasked<kSigned, false>);
  run(updates, first_tile, end_tile, params, small.data()->sums);
}

// Four neighbouring parameters' sums are neighbours in `small` too, but
// interleaving, which works within 128-bit blocks, has shuffled the fours.
template <bool kBytes>
HWY_INLINE void DrainTile(int64_t factor, size_t count,
                          int32_t* HWY_RESTRICT small,
                          int64_t* HWY_RESTRICT sum) {
  constexpr size_t kPerBlock = kBytes ? 16 : 8;
  constexpr int kShift = kBytes ? 7 : 0;  // the 128 of LoadMasked
  const size_t turn = TurnParams<kBytes>();
  const size_t lanes = hn::Lanes(D32());
  for (size_t t = 0; t < count; t += turn) {
    for (size_t block = 0; block < turn / kPerBlock; ++block) {
      for (size_t quad = 0; quad < kPerBlock / 4; ++quad) {
        const size_t first = t + block * kPerBlock + quad * 4;
        int32_t* from = small + t + quad * lanes + block * 4;
        for (size_t i = 0; i < 4; ++i) {
          if (first + i < count) sum[first + i] += factor * (from[i] >> kShift);
          from[i] = 0;
        }
      }
    }
  }
}

void DrainMasked(NoiseKind kind, int64_t factor, uint64_t first_tile,
                 uint64_t end_tile, std::span<SmallTile> small,
                 std::span<int64_t> sum) {
  for (uint64_t tile = first_tile; tile < end_tile; ++tile) {
    const size_t at = tile * kTile;
    const size_t count = std::min(kTile, sum.size() - at);
    const auto drain =
        kind == NoiseKind::kUniform ? DrainTile<true> : DrainTile<false>;
    drain(factor, count, small[tile].sums, sum.data() + at);
  }
}

void AddFloats(std::span<const FloatUpdate> updates, uint64_t first_tile,
               uint64_t end_tile, std::span<int64_t> sum) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const hn::RebindToSigned<decltype(d)> di;
  const size_t lanes = hn::Lanes(d);
  // Adding 1.5 * 2^52 leaves a number's nearest integer in the low mantissa.
  const auto magic = hn::Set(d, 0x1.8p52);
  const auto magic_bits = hn::BitCast(di, magic);
  const auto add_tile = [&](const float* values, double scale,
                            int64_t* to) HWY_ATTR {
    const auto scale_v = hn::Set(d, scale);
    for (size_t i = 0; i < kTile; i += lanes) {
      const auto value = hn::PromoteTo(d, hn::LoadU(df, values + i));
      const auto shifted = hn::Add(hn::Mul(value, scale_v), magic);
      const auto integer = hn::Sub(hn::BitCast(di, shifted), magic_bits);
      hn::StoreU(hn::Add(hn::LoadU(di, to + i), integer), di, to + i);
    }
  };

  for (uint64_t tile = first_tile; tile < end_tile; ++tile) {
    const size_t at = tile * kTile;
    const size_t count = std::min(kTile, sum.size() - at);
    for (const FloatUpdate& update : updates) {
      const uint8_t* values = update.values + 4 * at;
      if (count == kTile) {
        add_tile(reinterpret_cast<const float*>(values), update.scale,
                 sum.data() + at);
      } else {
        float padded[kTile] = {};
        int64_t padded_sum[kTile] = {};
        std::memcpy(padded, values, 4 * count);
        std::copy_n(sum.data() + at, count, padded_sum);
        add_tile(padded, update.scale, padded_sum);
        std::copy_n(padded_sum, count, sum.data() + at);
      }
    }
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn {

HWY_EXPORT(AddMasked);
HWY_EXPORT(DrainMasked);
HWY_EXPORT(AddFloats);

uint64_t MaxSmallWeight(NoiseKind kind) {
  // What fits an int16 factor and, times the largest noise, an int32 sum. The
  // vector kernels carry uniform noise times 128.
  const int32_t largest =
      MaxOdd(kind) * (kind == NoiseKind::kUniform ? 128 : 1);
  return static_cast<uint64_t>(
      std::min(std::numeric_limits<int32_t>::max() / largest,
               int32_t{std::numeric_limits<int16_t>::max()}));
}

void AddMasked(MaskKind mask, std::span<const MaskedUpdate> updates,
               uint64_t first_tile, uint64_t end_tile, uint64_t params,
               std::span<SmallTile> small) {
  FEDMRN_CHECK(end_tile <= TilesFor(params));
  FEDMRN_CHECK(small.size() == TilesFor(params));
  HWY_DYNAMIC_DISPATCH(AddMasked)
  (mask, updates, first_tile, end_tile, params, small);
}

void DrainMasked(NoiseKind kind, int64_t factor, uint64_t first_tile,
                 uint64_t end_tile, std::span<SmallTile> small,
                 std::span<int64_t> sum) {
  FEDMRN_CHECK(end_tile <= TilesFor(sum.size()));
  FEDMRN_CHECK(small.size() == TilesFor(sum.size()));
  HWY_DYNAMIC_DISPATCH(DrainMasked)
  (kind, factor, first_tile, end_tile, small, sum);
}

void AddFloats(std::span<const FloatUpdate> updates, uint64_t first_tile,
               uint64_t end_tile, std::span<int64_t> sum) {
  FEDMRN_CHECK(end_tile <= TilesFor(sum.size()));
  HWY_DYNAMIC_DISPATCH(AddFloats)(updates, first_tile, end_tile, sum);
}

namespace ref {

void AddMasked(MaskKind mask, std::span<const MaskedUpdate> updates,
               uint64_t first_tile, uint64_t end_tile, std::span<int64_t> sum) {
  const size_t end = std::min<size_t>(end_tile * kTile, sum.size());
  for (const MaskedUpdate& update : updates) {
    for (size_t i = first_tile * kTile; i < end; ++i) {
      int16_t odd;
      ref::NoiseOdds(update.noise, i, {&odd, 1});
      const int64_t m = TestBit(update.bits, i)     ? 1
                        : mask == MaskKind::kBinary ? 0
                                                    : -1;
      sum[i] += static_cast<int64_t>(update.weight) * odd * m;
    }
  }
}

void AddFloats(std::span<const FloatUpdate> updates, uint64_t first_tile,
               uint64_t end_tile, std::span<int64_t> sum) {
  const size_t end = std::min<size_t>(end_tile * kTile, sum.size());
  for (const FloatUpdate& update : updates) {
    for (size_t i = first_tile * kTile; i < end; ++i) {
      const double value = LoadLe<float>(update.values + 4 * i);
      sum[i] += static_cast<int64_t>(std::nearbyint(value * update.scale));
    }
  }
}

}  // namespace ref
}  // namespace fedmrn
#endif  // HWY_ONCE
