// Matrix products whose right-hand side was put into panels before, for kernels
// that use it more than once or fuse something to the product. Included once
// per SIMD target (Highway's -inl.h convention), hence the toggled guard.
#if defined(FEDMRN_TRAIN_PANEL_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FEDMRN_TRAIN_PANEL_PRODUCT_INL_H_
#undef FEDMRN_TRAIN_PANEL_PRODUCT_INL_H_
#else
#define FEDMRN_TRAIN_PANEL_PRODUCT_INL_H_
#endif

#include <cstddef>

#include "fedmrn/train/kernels/panel_product.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fedmrn::train {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR  // which uses the plain definitions

using PanelTag = hn::CappedTag<float, kPanel>;
// Vectors in a row of a panel, and rows of a result that stay in registers.
inline constexpr size_t kPanelVectors = kPanel / hn::MaxLanes(PanelTag());
inline constexpr size_t kPanelRows = 6;

// MultiplyPanel for kR rows.
template <size_t kR, bool kAdd>
HWY_INLINE void MultiplyPanelRows(const float* HWY_RESTRICT a, size_t row,
                                  size_t step, const float* HWY_RESTRICT b,
                                  size_t inner, float* HWY_RESTRICT c) {
  const PanelTag d;
  using V = hn::Vec<PanelTag>;
  V sum[kR][kPanelVectors];
  HWY_UNROLL(6) for (size_t r = 0; r < kR; ++r) {
    HWY_UNROLL(4) for (size_t v = 0; v < kPanelVectors; ++v) {
      sum[r][v] =
          kAdd ? hn::LoadU(d, c + r * kPanel + v * hn::Lanes(d)) : hn::Zero(d);
    }
  }
  for (size_t k = 0; k < inner; ++k) {
    V right[kPanelVectors];
    HWY_UNROLL(4) for (size_t v = 0; v < kPanelVectors; ++v) {
      right[v] = hn::LoadU(d, b + k * kPanel + v * hn::Lanes(d));
    }
    HWY_UNROLL(6) for (size_t r = 0; r < kR; ++r) {
      const V left = hn::Set(d, a[r * row + k * step]);
      HWY_UNROLL(4) for (size_t v = 0; v < kPanelVectors; ++v) {
        sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
      }
    }
  }
  HWY_UNROLL(6) for (size_t r = 0; r < kR; ++r) {
    HWY_UNROLL(4) for (size_t v = 0; v < kPanelVectors; ++v) {
      hn::StoreU(sum[r][v], d, c + r * kPanel + v * hn::Lanes(d));
    }
  }
}

// c[r][16] (+)= sum over k < inner of a[r * row + k * step] * b[k][16].
template <bool kAdd>
HWY_INLINE void MultiplyPanel(const float* a, size_t row, size_t step,
                              size_t rows, const float* b, size_t inner,
                              float* c) {
  size_t r = 0;
  for (; r + kPanelRows <= rows; r += kPanelRows) {
    MultiplyPanelRows<kPanelRows, kAdd>(a + r * row, row, step, b, inner,
                                        c + r * kPanel);
  }
  a += r * row;
  c += r * kPanel;
  switch (rows - r) {
    case 1:
      return MultiplyPanelRows<1, kAdd>(a, row, step, b, inner, c);
    case 2:
      return MultiplyPanelRows<2, kAdd>(a, row, step, b, inner, c);
    case 3:
      return MultiplyPanelRows<3, kAdd>(a, row, step, b, inner, c);
    case 4:
      return MultiplyPanelRows<4, kAdd>(a, row, step, b, inner, c);
    case 5:
      return MultiplyPanelRows<5, kAdd>(a, row, step, b, inner, c);
    default:
      return;
  }
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace fedmrn::train
HWY_AFTER_NAMESPACE();

#endif  // FEDMRN_TRAIN_PANEL_PRODUCT_INL_H_
