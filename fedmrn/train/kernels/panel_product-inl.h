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
// Vectors in a row of a panel.
inline constexpr size_t kPanelVectors = kPanel / hn::MaxLanes(PanelTag());

// The tile of a result that stays in registers. A row of it is more than one
// vector, so that a value of the left-hand side is loaded for more than one
// multiply-add; where one vector is a whole row of a panel, as with AVX-512,
// two panels are neighbours in a tile, and there are registers for more rows.
inline constexpr size_t kTilePanels = kPanelVectors == 1 ? 2 : 1;
inline constexpr size_t kTileRows = kPanelVectors == 1 ? 12 : 6;

// MultiplyPanels for a tile of kPanels and kRows: the first of each.
template <bool kAdd, size_t kPanels, size_t kRows>
HWY_NOINLINE void MultiplyTile(const float* HWY_RESTRICT a, size_t row,
                               size_t step, size_t rows,
                               const float* HWY_RESTRICT b, size_t inner,
                               float* HWY_RESTRICT c) {
  const PanelTag d;
  using V = hn::Vec<PanelTag>;
  constexpr size_t kVectors = kPanels * kPanelVectors;
  // Where vector v of a row lies, from panels with so many rows.
  const auto place = [d](size_t v, size_t panel_rows) HWY_ATTR {
    return v / kPanelVectors * panel_rows * kPanel +
           v % kPanelVectors * hn::Lanes(d);
  };
  V sum[kRows][kVectors];
  HWY_UNROLL(12) for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(4) for (size_t v = 0; v < kVectors; ++v) {
      sum[r][v] =
          kAdd ? hn::LoadU(d, c + place(v, rows) + r * kPanel) : hn::Zero(d);
    }
  }
  // A pointer for every third row: an address has one multiple of the distance
  // at most, and with more than these registers run out.
  constexpr size_t kPointers = (kRows + 2) / 3;
  const float* HWY_RESTRICT lines[kPointers];
  HWY_UNROLL(4) for (size_t i = 0; i < kPointers; ++i) {
    lines[i] = a + 3 * i * row;
  }
  for (size_t k = 0; k < inner; ++k) {
    V right[kVectors];
    HWY_UNROLL(4) for (size_t v = 0; v < kVectors; ++v) {
      right[v] = hn::LoadU(d, b + place(v, inner) + k * kPanel);
    }
    HWY_UNROLL(12) for (size_t r = 0; r < kRows; ++r) {
      const V left = hn::Set(d, lines[r / 3][r % 3 * row]);
      HWY_UNROLL(4) for (size_t v = 0; v < kVectors; ++v) {
        sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
      }
    }
    HWY_UNROLL(4) for (size_t i = 0; i < kPointers; ++i) lines[i] += step;
  }
  HWY_UNROLL(12) for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(4) for (size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[r][v], d, c + place(v, rows) + r * kPanel);
    }
  }
}

// MultiplyTile for a height known only now, 1 to kMostRows.
template <bool kAdd, size_t kPanels, size_t kMostRows = kTileRows>
HWY_INLINE void MultiplyTileOfHeight(size_t height, const float* a, size_t row,
                                     size_t step, size_t rows, const float* b,
                                     size_t inner, float* c) {
  if constexpr (kMostRows > 1) {
    if (height < kMostRows) {
      return MultiplyTileOfHeight<kAdd, kPanels, kMostRows - 1>(
          height, a, row, step, rows, b, inner, c);
    }
  }
  MultiplyTile<kAdd, kPanels, kMostRows>(a, row, step, rows, b, inner, c);
}

// Calls visit(first, count) for all parts of `total`: as few as `most` allows,
// and as equal as possible.
template <typename Visit>
HWY_INLINE void ForEachPart(size_t total, size_t most, const Visit& visit) {
  size_t first = 0;
  for (size_t parts = (total + most - 1) / most; parts > 0; --parts) {
    const size_t count = (total - first + parts - 1) / parts;
    visit(first, count);
    first += count;
  }
}

// All rows of kPanels: whole tiles, and the last two equal, for a tile of a row
// or two takes as long as one of four, since it waits for its own sums.
template <bool kAdd, size_t kPanels>
HWY_INLINE void MultiplyTiles(const float* a, size_t row, size_t step,
                              size_t rows, const float* b, size_t inner,
                              float* c) {
  size_t whole = 0;
  for (; rows - whole >= 2 * kTileRows; whole += kTileRows) {
    MultiplyTile<kAdd, kPanels, kTileRows>(a + whole * row, row, step, rows, b,
                                           inner, c + whole * kPanel);
  }
  const auto multiply = [&](size_t first, size_t height) HWY_ATTR {
    const size_t r = whole + first;
    MultiplyTileOfHeight<kAdd, kPanels>(height, a + r * row, row, step, rows, b,
                                        inner, c + r * kPanel);
  };
  ForEachPart(rows - whole, kTileRows, multiply);
}

// c[panel][r][16] (+)= sum over k < inner of
// a[r * row + k * step] * b[panel][k][16], one k after the other.
template <bool kAdd>
HWY_INLINE void MultiplyPanels(const float* a, size_t row, size_t step,
                               size_t rows, const float* b, size_t inner,
                               size_t panels, float* c) {
  size_t p = 0;
  for (; p + kTilePanels <= panels; p += kTilePanels) {
    MultiplyTiles<kAdd, kTilePanels>(a, row, step, rows, b + p * inner * kPanel,
                                     inner, c + p * rows * kPanel);
  }
  if (p < panels) {
    MultiplyTiles<kAdd, 1>(a, row, step, rows, b + p * inner * kPanel, inner,
                           c + p * rows * kPanel);
  }
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace fedmrn::train
HWY_AFTER_NAMESPACE();

#endif  // FEDMRN_TRAIN_PANEL_PRODUCT_INL_H_
