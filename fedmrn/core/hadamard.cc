#include "fedmrn/core/hadamard.h"

#include <bit>
#include <cstddef>
#include <cstdint>

#include "fedmrn/base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/core/hadamard.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fedmrn {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
// Highway's one-lane fallback lacks most operations: use the definition.
using ref::Hadamard;
#else

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

// One stage whose partners sit in the same vector, h lanes apart: the lower of
// a pair becomes a + b, the upper a - b = a + (-b).
template <size_t kH>
HWY_INLINE V StageInVector(V v) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  const auto upper =
      hn::Ne(hn::And(hn::Iota(du, 0), hn::Set(du, kH)), hn::Zero(du));
  const V flipped = hn::Xor(
      v, hn::BitCast(d, hn::IfThenElseZero(upper, hn::Set(du, 0x80000000u))));
  V partner = v;
  if constexpr (kH == 1) partner = hn::Reverse2(d, v);
  if constexpr (kH == 2) partner = hn::Shuffle1032(v);
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SSSE3 && \
    HWY_TARGET != HWY_SSE4 && HWY_TARGET != HWY_NEON
  if constexpr (kH == 4) partner = hn::SwapAdjacentBlocks(v);
  if constexpr (kH == 8) partner = hn::ConcatLowerUpper(d, v, v);
#endif
  return hn::Add(partner, flipped);
}

// All stages below the vector length.
HWY_INLINE void StagesInVectors(float* x, size_t n) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < n; i += lanes) {
    V v = hn::LoadU(d, x + i);
    v = StageInVector<1>(v);
    v = StageInVector<2>(v);
    if (lanes > 4) v = StageInVector<4>(v);
    if (lanes > 8) v = StageInVector<8>(v);
    hn::StoreU(v, d, x + i);
  }
}

HWY_INLINE void Butterfly(V& a, V& b) {
  const V sum = hn::Add(a, b);
  b = hn::Sub(a, b);
  a = sum;
}

// log2(kRadix) stages, from distance h on, in one pass over n floats.
template <size_t kRadix>
HWY_INLINE void StagesAcross(float* x, size_t n, size_t h) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  for (size_t base = 0; base < n; base += kRadix * h) {
    for (size_t i = base; i < base + h; i += lanes) {
      V v[kRadix];
      HWY_UNROLL(8) for (size_t r = 0; r < kRadix; ++r) {
        v[r] = hn::LoadU(d, x + i + r * h);
      }
      HWY_UNROLL(3) for (size_t s = 1; s < kRadix; s *= 2) {
        HWY_UNROLL(8) for (size_t r = 0; r < kRadix; ++r) {
          if ((r & s) == 0) Butterfly(v[r], v[r + s]);
        }
      }
      HWY_UNROLL(8) for (size_t r = 0; r < kRadix; ++r) {
        hn::StoreU(v[r], d, x + i + r * h);
      }
    }
  }
}

// Cache-oblivious: eighths first, each of which comes to fit a cache, then the
// last three stages over all.
void Transform(float* x, size_t n) {
  constexpr size_t kBase = 4096;  // 16 KiB: half of a small L1
  if (n > kBase) {
    for (size_t part = 0; part < 8; ++part) {
      Transform(x + part * (n / 8), n / 8);
    }
    StagesAcross<8>(x, n, n / 8);
    return;
  }
  StagesInVectors(x, n);
  size_t h = hn::Lanes(D());
  int stages = std::countr_zero(n) - std::countr_zero(h);
  for (; stages >= 3; stages -= 3, h *= 8) StagesAcross<8>(x, n, h);
  if (stages == 2) StagesAcross<4>(x, n, h);
  if (stages == 1) StagesAcross<2>(x, n, h);
}

void Hadamard(std::span<float> values) {
  if (values.size() < hn::Lanes(D())) {
    ref::Hadamard(values);
  } else {
    Transform(values.data(), values.size());
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn {

HWY_EXPORT(Hadamard);

void Hadamard(std::span<float> values) {
  FEDMRN_CHECK(std::has_single_bit(values.size()));
  HWY_DYNAMIC_DISPATCH(Hadamard)(values);
}

namespace ref {

void Hadamard(std::span<float> values) {
  for (size_t h = 1; h < values.size(); h *= 2) {
    for (size_t base = 0; base < values.size(); base += 2 * h) {
      for (size_t i = base; i < base + h; ++i) {
        const float a = values[i], b = values[i + h];
        values[i] = a + b;
        values[i + h] = a - b;
      }
    }
  }
}

}  // namespace ref
}  // namespace fedmrn
#endif  // HWY_ONCE
