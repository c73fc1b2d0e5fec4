#include "fedmrn/core/hadamard.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

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

constexpr size_t kBase = 4096;  // floats: half of a small L1
// The most stages of a pass: within a base, what registers hold, of which
// AVX-512 has 32; beyond, as many floats far apart as caches hold with ease.
constexpr size_t kMostStages = HWY_MAX_BYTES >= 64 ? 4 : 3, kMostFarStages = 3;

// One stage whose partners sit in the same vector, h lanes apart: the lower of
// a pair becomes a + b, the upper a - b. Times 1 or -1 is exact, so that
// multiply-and-add rounds as the definition does, fused or not.
template <size_t kH>
HWY_INLINE V StageInVector(V v) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  const auto upper =
      hn::Ne(hn::And(hn::Iota(du, 0), hn::Set(du, kH)), hn::Zero(du));
  const V signs =
      hn::IfThenElse(hn::RebindMask(d, upper), hn::Set(d, -1), hn::Set(d, 1));
  V partner = v;
  if constexpr (kH == 1) partner = hn::Reverse2(d, v);
  if constexpr (kH == 2) partner = hn::Shuffle1032(v);
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SSSE3 && \
    HWY_TARGET != HWY_SSE4 && HWY_TARGET != HWY_NEON
  if constexpr (kH == 4) partner = hn::SwapAdjacentBlocks(v);
  if constexpr (kH == 8) partner = hn::ConcatLowerUpper(d, v, v);
#endif
  return hn::MulAdd(v, signs, partner);
}

// All stages below the vector length.
HWY_INLINE V StagesInVector(V v) {
  const size_t lanes = hn::Lanes(D());
  v = StageInVector<1>(v);
  v = StageInVector<2>(v);
  if (lanes > 4) v = StageInVector<4>(v);
  if (lanes > 8) v = StageInVector<8>(v);
  return v;
}

template <class Vector>
HWY_INLINE void Butterfly(Vector& a, Vector& b) {
  const Vector sum = hn::Add(a, b);
  b = hn::Sub(a, b);
  a = sum;
}

// log2(kRadix) stages of the columns [begin, end), which are a multiple of D's
// lanes: floats begin + r * h, r = 0 to kRadix - 1, are one.
template <size_t kRadix, class D, class BeforeStages>
HWY_INLINE void Columns(D d, float* x, size_t h, size_t begin, size_t end,
                        BeforeStages before_stages) {
  for (size_t i = begin; i < end; i += hn::Lanes(d)) {
    hn::Vec<D> v[kRadix];
    HWY_UNROLL(16) for (size_t r = 0; r < kRadix; ++r) {
      v[r] = before_stages(hn::LoadU(d, x + i + r * h));
    }
    HWY_UNROLL(4) for (size_t s = 1; s < kRadix; s *= 2) {
      HWY_UNROLL(16) for (size_t r = 0; r < kRadix; ++r) {
        if ((r & s) == 0) Butterfly(v[r], v[r + s]);
      }
    }
    HWY_UNROLL(16) for (size_t r = 0; r < kRadix; ++r) {
      hn::StoreU(v[r], d, x + i + r * h);
    }
  }
}

// All stages within vectors, and log2(kRadix) more.
template <size_t kRadix>
HWY_INLINE void FirstStages(float* x, size_t n) {
  const size_t lanes = hn::Lanes(D());
  for (size_t base = 0; base < n; base += kRadix * lanes) {
    Columns<kRadix>(D(), x + base, lanes, 0, lanes,
                    [](V v) HWY_ATTR { return StagesInVector(v); });
  }
}

// log2(kRadix) stages, from distance h on, in one pass over n floats.
template <size_t kRadix>
HWY_INLINE void StagesAcross(float* x, size_t n, size_t h) {
  const size_t lanes = hn::Lanes(D());
  // Far apart, the floats of a column compete for a few lines of each cache,
  // and a line that two vectors share would be fetched twice: vectors that are
  // aligned share none.
  const size_t off = reinterpret_cast<uintptr_t>(x) / sizeof(float) % lanes;
  const size_t head = h >= kBase && off != 0 ? lanes - off : 0;
  const size_t tail = head == 0 ? h : h - off;
  const hn::CappedTag<float, 1> d1;
  const auto as_it_is = [](auto v) HWY_ATTR { return v; };
  for (size_t base = 0; base < n; base += kRadix * h) {
    float* const block = x + base;
    Columns<kRadix>(d1, block, h, 0, head, as_it_is);
    Columns<kRadix>(D(), block, h, head, tail, as_it_is);
    Columns<kRadix>(d1, block, h, tail, h, as_it_is);
  }
}

// Calls run with an integral constant 2^stages, stages at most kMostStages.
template <class Run>
HWY_INLINE void WithRadix(size_t stages, Run run) {
  using std::integral_constant;
  if (stages == 0) run(integral_constant<size_t, 1>());
  if (stages == 1) run(integral_constant<size_t, 2>());
  if (stages == 2) run(integral_constant<size_t, 4>());
  if (stages == 3) run(integral_constant<size_t, 8>());
  if constexpr (kMostStages == 4) {
    if (stages == 4) run(integral_constant<size_t, 16>());
  }
}
HWY_INLINE void Pass(float* x, size_t n, size_t h, size_t stages) {
  WithRadix(stages,
            [&](auto radix) HWY_ATTR { StagesAcross<radix()>(x, n, h); });
}

// Parts first, each of which comes to fit a cache, then the last stages over
// all: as few passes as there can be, with about as many stages each.
void Transform(float* x, size_t n) {
  if (n > kBase) {
    const size_t stages = std::countr_zero(n / kBase);
    const size_t passes = (stages + kMostFarStages - 1) / kMostFarStages;
    const size_t last = (stages + passes - 1) / passes;
    const size_t part = n >> last;
    for (size_t i = 0; i < n; i += part) Transform(x + i, part);
    Pass(x, n, part, last);
    return;
  }
  size_t h = hn::Lanes(D());
  size_t stages = std::countr_zero(n / h), now = std::min(stages, kMostStages);
  WithRadix(now, [&](auto radix) HWY_ATTR { FirstStages<radix()>(x, n); });
  for (; stages -= now, h <<= now, stages > 0;) {
    now = std::min(stages, kMostStages);
    Pass(x, n, h, now);
  }
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
