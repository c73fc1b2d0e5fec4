#include "fedmrn/train/kernels/winograd.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "fedmrn/base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/train/kernels/winograd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "fedmrn/train/kernels/panel_product-inl.h"
#include "hwy/highway.h"

#ifndef FEDMRN_TRAIN_WINOGRAD_ONCE
#define FEDMRN_TRAIN_WINOGRAD_ONCE
namespace fedmrn::train {

inline constexpr size_t kElements = 36;
// The 36 matrices would else begin at equal places of the cache's sets.
inline constexpr size_t kPadding = 16;

// Channels of the result that are worked on together: with all 36 matrices of
// them in the cache, they are transformed as soon as they are multiplied.
inline constexpr size_t kSlice = 2 * kPanel;

// Most tiles worked on together: as many as keep the left-hand sides of the
// products and a slice of the other in the second-level cache, but enough to
// pay for reading the weights.
inline size_t TilesAtOnce(uint32_t in_channels) {
  return std::clamp<size_t>(4000 / (in_channels + kSlice), 16, 96);
}

// Floats between one of the 36 matrices and the next.
inline size_t MatrixStride(size_t rows, size_t columns) {
  return rows * columns + kPadding;
}

inline size_t PanelsOfSlice(const Activation& at, size_t slice) {
  return std::min<size_t>(kSlice, at.channels - slice) / kPanel;
}

// The 4x4 tiles of a batch, in order.
struct Tiles {
  explicit Tiles(const Activation& at)
      : images(at.images),
        rows((at.height + 3) / 4),
        columns((at.width + 3) / 4) {}
  size_t count() const { return images * rows * columns; }

  size_t images, rows, columns;
};

// Where the kRows x kRows pixels of a tile lie in a channel, or -1 outside. The
// tile begins `before` pixels left of and above its 4x4 square.
template <size_t kRows>
struct TilePixels {
  TilePixels(const Tiles& tiles, const Activation& at, size_t tile, int before)
      : image(tile / (tiles.rows * tiles.columns)) {
    const int top = static_cast<int>(tile / tiles.columns % tiles.rows) * 4,
              left = static_cast<int>(tile % tiles.columns) * 4;
    const int height = static_cast<int>(at.height),
              width = static_cast<int>(at.width);
    for (int y = 0; y < static_cast<int>(kRows); ++y) {
      for (int x = 0; x < static_cast<int>(kRows); ++x) {
        const int row = top + y - before, column = left + x - before;
        const bool inside =
            row >= 0 && row < height && column >= 0 && column < width;
        offset[static_cast<size_t>(y) * kRows + static_cast<size_t>(x)] =
            inside ? static_cast<ptrdiff_t>(row * width + column) *
                         static_cast<ptrdiff_t>(at.block)
                   : -1;
      }
    }
  }

  size_t image;
  std::array<ptrdiff_t, kRows * kRows> offset;
};

alignas(64) inline constexpr float kZeros[kPanel] = {};

}  // namespace fedmrn::train
#endif

HWY_BEFORE_NAMESPACE();
namespace fedmrn::train {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

using D = PanelTag;
using V = hn::Vec<D>;

// --- The five one-dimensional transforms -------------------------------------

// B^T, 6 to 6.
HWY_INLINE void InputLine(V& d0, V& d1, V& d2, V& d3, V& d4, V& d5) {
  const D d;
  const V two = hn::Set(d, 2.0f), four = hn::Set(d, 4.0f),
          five = hn::Set(d, 5.0f);
  const V even = hn::NegMulAdd(four, d2, d4), odd = hn::NegMulAdd(four, d1, d3);
  const V even2 = hn::Sub(d4, d2), odd2 = hn::Sub(d3, d1);
  d0 = hn::MulAdd(four, d0, hn::NegMulAdd(five, d2, d4));
  d5 = hn::MulAdd(four, d1, hn::NegMulAdd(five, d3, d5));
  d1 = hn::Add(even, odd);
  d2 = hn::Sub(even, odd);
  d3 = hn::MulAdd(two, odd2, even2);
  d4 = hn::NegMulAdd(two, odd2, even2);
}

// A^T, 6 to 4: the results are the first four.
HWY_INLINE void OutputLine(V& m0, V& m1, V& m2, V& m3, V m4, V m5) {
  const D d;
  const V sum = hn::Add(m1, m2), difference = hn::Sub(m1, m2);
  const V sum2 = hn::Add(m3, m4), difference2 = hn::Sub(m3, m4);
  m0 = hn::Add(m0, hn::Add(sum, sum2));
  m1 = hn::MulAdd(hn::Set(d, 2.0f), difference2, difference);
  m2 = hn::MulAdd(hn::Set(d, 4.0f), sum2, sum);
  m3 = hn::Add(hn::MulAdd(hn::Set(d, 8.0f), difference2, difference), m5);
}

// A, 4 to 6.
HWY_INLINE void OutputGradientLine(V& y0, V& y1, V& y2, V& y3, V& y4, V& y5) {
  const D d;
  const V even = hn::Add(y0, y2), odd = hn::Add(y1, y3);
  const V even2 = hn::MulAdd(hn::Set(d, 4.0f), y2, y0);
  const V odd2 = hn::MulAdd(hn::Set(d, 8.0f), y3, hn::Add(y1, y1));
  y5 = y3;
  y1 = hn::Add(even, odd);
  y2 = hn::Sub(even, odd);
  y3 = hn::Add(even2, odd2);
  y4 = hn::Sub(even2, odd2);
}

// G, 3 to 6.
HWY_INLINE void WeightLine(V g0, V g1, V g2, V* HWY_RESTRICT u) {
  const D d;
  const V ends = hn::Add(g0, g2);
  u[0] = hn::Mul(hn::Set(d, 0.25f), g0);
  u[1] = hn::Mul(hn::Set(d, -1.0f / 6), hn::Add(ends, g1));
  u[2] = hn::Mul(hn::Set(d, -1.0f / 6), hn::Sub(ends, g1));
  const V even =
      hn::MulAdd(hn::Set(d, 1.0f / 24), g0, hn::Mul(hn::Set(d, 1.0f / 6), g2));
  const V odd = hn::Mul(hn::Set(d, 1.0f / 12), g1);
  u[3] = hn::Add(even, odd);
  u[4] = hn::Sub(even, odd);
  u[5] = g2;
}

// G^T, 6 to 3.
HWY_INLINE void WeightGradientLine(V u0, V u1, V u2, V u3, V u4, V u5,
                                   V* HWY_RESTRICT g) {
  const D d;
  const V sum = hn::Add(u1, u2), sum2 = hn::Add(u3, u4);
  const V sixth = hn::Set(d, 1.0f / 6);
  g[0] = hn::NegMulAdd(
      sixth, sum,
      hn::MulAdd(hn::Set(d, 1.0f / 24), sum2, hn::Mul(hn::Set(d, 0.25f), u0)));
  g[1] = hn::MulAdd(hn::Set(d, 1.0f / 12), hn::Sub(u3, u4),
                    hn::Mul(sixth, hn::Sub(u2, u1)));
  g[2] = hn::MulAdd(sixth, hn::Sub(sum2, sum), u5);
}

// --- Whole tiles -------------------------------------------------------------

// B^T d B of `count` tiles, to [element][tile][channel].
HWY_NOINLINE void TransformInput(const Activation& at, const Tiles& tiles,
                                 const float* x, size_t first, size_t count,
                                 size_t stride, float* HWY_RESTRICT to) {
  const D d;
  for (size_t t = 0; t < count; ++t) {
    const TilePixels<6> pixels(tiles, at, first + t, 1);
    for (size_t c = 0; c < at.channels; c += hn::Lanes(d)) {
      const float* HWY_RESTRICT from = x + at.Offset(pixels.image, c);
      V v[6][6];
      HWY_UNROLL(6) for (size_t i = 0; i < 6; ++i) {
        HWY_UNROLL(6) for (size_t j = 0; j < 6; ++j) {
          const ptrdiff_t offset = pixels.offset[6 * i + j];
          v[i][j] = hn::LoadU(d, offset >= 0 ? from + offset : kZeros);
        }
        InputLine(v[i][0], v[i][1], v[i][2], v[i][3], v[i][4], v[i][5]);
      }
      float* HWY_RESTRICT out = to + t * at.channels + c;
      HWY_UNROLL(6) for (size_t j = 0; j < 6; ++j) {
        InputLine(v[0][j], v[1][j], v[2][j], v[3][j], v[4][j], v[5][j]);
        HWY_UNROLL(6) for (size_t i = 0; i < 6; ++i) {
          hn::StoreU(v[i][j], d, out + (6 * i + j) * stride);
        }
      }
    }
  }
}

// A^T m A of `count` tiles, from [element][panel][tile][16] of a slice of the
// channels.
HWY_NOINLINE void TransformOutput(const Activation& at, const Tiles& tiles,
                                  const float* HWY_RESTRICT from, size_t first,
                                  size_t count, size_t stride, size_t slice,
                                  float* y) {
  const D d;
  const size_t end = std::min<size_t>(slice + kSlice, at.channels);
  for (size_t t = 0; t < count; ++t) {
    const TilePixels<4> pixels(tiles, at, first + t, 0);
    for (size_t c = slice; c < end; c += hn::Lanes(d)) {
      const float* HWY_RESTRICT in =
          from + ((c - slice) / kPanel * count + t) * kPanel + c % kPanel;
      V m[6][6];
      HWY_UNROLL(6) for (size_t i = 0; i < 6; ++i) {
        HWY_UNROLL(6) for (size_t j = 0; j < 6; ++j) {
          m[i][j] = hn::LoadU(d, in + (6 * i + j) * stride);
        }
        OutputLine(m[i][0], m[i][1], m[i][2], m[i][3], m[i][4], m[i][5]);
      }
      float* HWY_RESTRICT to = y + at.Offset(pixels.image, c);
      HWY_UNROLL(4) for (size_t j = 0; j < 4; ++j) {
        OutputLine(m[0][j], m[1][j], m[2][j], m[3][j], m[4][j], m[5][j]);
        HWY_UNROLL(4) for (size_t i = 0; i < 4; ++i) {
          const ptrdiff_t offset = pixels.offset[4 * i + j];
          if (offset >= 0) hn::StoreU(m[i][j], d, to + offset);
        }
      }
    }
  }
}

// A dY A^T of `count` tiles, to [element][panel][tile][16] of a slice of the
// channels.
HWY_NOINLINE void TransformOutputGradient(const Activation& at,
                                          const Tiles& tiles,
                                          const float* y_gradient, size_t first,
                                          size_t count, size_t stride,
                                          size_t slice,
                                          float* HWY_RESTRICT to) {
  const D d;
  const size_t end = std::min<size_t>(slice + kSlice, at.channels);
  for (size_t t = 0; t < count; ++t) {
    const TilePixels<4> pixels(tiles, at, first + t, 0);
    for (size_t c = slice; c < end; c += hn::Lanes(d)) {
      const float* HWY_RESTRICT from = y_gradient + at.Offset(pixels.image, c);
      V v[6][6];
      HWY_UNROLL(4) for (size_t i = 0; i < 4; ++i) {
        HWY_UNROLL(4) for (size_t j = 0; j < 4; ++j) {
          const ptrdiff_t offset = pixels.offset[4 * i + j];
          v[i][j] = hn::LoadU(d, offset >= 0 ? from + offset : kZeros);
        }
        OutputGradientLine(v[i][0], v[i][1], v[i][2], v[i][3], v[i][4],
                           v[i][5]);
      }
      float* HWY_RESTRICT out =
          to + ((c - slice) / kPanel * count + t) * kPanel + c % kPanel;
      HWY_UNROLL(6) for (size_t j = 0; j < 6; ++j) {
        OutputGradientLine(v[0][j], v[1][j], v[2][j], v[3][j], v[4][j],
                           v[5][j]);
        HWY_UNROLL(6) for (size_t i = 0; i < 6; ++i) {
          hn::StoreU(v[i][j], d, out + (6 * i + j) * stride);
        }
      }
    }
  }
}

// --- The three operations ----------------------------------------------------

template <bool kBackward>
HWY_NOINLINE void TransformWeights(uint32_t in_channels, uint32_t out_channels,
                                   const float* HWY_RESTRICT weights,
                                   float* HWY_RESTRICT transformed) {
  const D d;
  const size_t inner = kBackward ? out_channels : in_channels;
  const size_t outer = kBackward ? in_channels : out_channels;
  const size_t stride = MatrixStride(inner, outer);
  // From one kernel to that of the next channel of the panel.
  const size_t next = kBackward ? 9 : size_t{9} * in_channels;
  const hn::RebindToSigned<D> indices;
  const auto places = hn::Mul(hn::Iota(indices, 0),
                              hn::Set(indices, static_cast<int32_t>(next)));
  for (size_t panel = 0; panel < outer; panel += kPanel) {
    for (size_t k = 0; k < inner; ++k) {
      const size_t from = kBackward ? panel : k, into = kBackward ? k : panel;
      const float* const kernel = weights + (into * in_channels + from) * 9;
      float* const to = transformed + (panel * inner + k * kPanel);
      for (size_t n = 0; n < kPanel; n += hn::Lanes(d)) {
        const auto weight = [&](size_t e) HWY_ATTR {
          return hn::GatherIndex(d, kernel + n * next + (kBackward ? 8 - e : e),
                                 places);
        };
        V half[6][3];
        HWY_UNROLL(3) for (size_t j = 0; j < 3; ++j) {
          V u[6];
          WeightLine(weight(j), weight(3 + j), weight(6 + j), u);
          HWY_UNROLL(6) for (size_t i = 0; i < 6; ++i) half[i][j] = u[i];
        }
        HWY_UNROLL(6) for (size_t i = 0; i < 6; ++i) {
          V u[6];
          WeightLine(half[i][0], half[i][1], half[i][2], u);
          HWY_UNROLL(6) for (size_t j = 0; j < 6; ++j) {
            hn::StoreU(u[j], d, to + (6 * i + j) * stride + n);
          }
        }
      }
    }
  }
}

HWY_NOINLINE void WinogradWeights(uint32_t in_channels, uint32_t out_channels,
                                  const float* weights, bool backward,
                                  float* transformed) {
  const auto transform =
      backward ? TransformWeights<true> : TransformWeights<false>;
  transform(in_channels, out_channels, weights, transformed);
}

HWY_NOINLINE void WinogradConvolve(const Activation& in, const float* x,
                                   const float* transformed,
                                   const Activation& out, float* y,
                                   float* scratch) {
  const Tiles tiles(in);
  const size_t weight_stride = MatrixStride(in.channels, out.channels);
  const auto convolve = [&](size_t first, size_t count) HWY_ATTR {
    const size_t in_stride = MatrixStride(count, in.channels);
    const size_t out_stride = MatrixStride(count, kSlice);
    float* const products = scratch + kElements * in_stride;
    TransformInput(in, tiles, x, first, count, in_stride, scratch);
    for (size_t slice = 0; slice < out.channels; slice += kSlice) {
      for (size_t e = 0; e < kElements; ++e) {
        MultiplyPanels<false>(
            scratch + e * in_stride, in.channels, 1, count,
            transformed + e * weight_stride + slice * in.channels, in.channels,
            PanelsOfSlice(out, slice), products + e * out_stride);
      }
      TransformOutput(out, tiles, products, first, count, out_stride, slice, y);
    }
  };
  ForEachPart(tiles.count(), TilesAtOnce(in.channels), convolve);
}

HWY_NOINLINE void WinogradWeightsGradient(const Activation& in, const float* x,
                                          const Activation& out,
                                          const float* y_gradient,
                                          float* transformed,
                                          float* weights_gradient,
                                          float* scratch) {
  const D d;
  const Tiles tiles(in);
  const size_t weight_stride = MatrixStride(in.channels, out.channels);
  const auto add_tiles = [&](size_t first, size_t count) HWY_ATTR {
    const size_t in_stride = MatrixStride(count, in.channels);
    const size_t out_stride = MatrixStride(count, kSlice);
    float* const gradients = scratch + kElements * in_stride;
    TransformInput(in, tiles, x, first, count, in_stride, scratch);
    const auto multiply = [&](auto add_to_former, size_t slice) HWY_ATTR {
      for (size_t e = 0; e < kElements; ++e) {
        MultiplyPanels<add_to_former()>(
            scratch + e * in_stride, 1, in.channels, in.channels,
            gradients + e * out_stride, count, PanelsOfSlice(out, slice),
            transformed + e * weight_stride + slice * in.channels);
      }
    };
    for (size_t slice = 0; slice < out.channels; slice += kSlice) {
      TransformOutputGradient(out, tiles, y_gradient, first, count, out_stride,
                              slice, gradients);
      if (first == 0) {
        multiply(std::false_type(), slice);
      } else {
        multiply(std::true_type(), slice);
      }
    }
  };
  ForEachPart(tiles.count(), TilesAtOnce(in.channels), add_tiles);
  // G^T u G, back to OIHW.
  HWY_ALIGN float g[9][kPanel];
  for (size_t panel = 0; panel < out.channels; panel += kPanel) {
    for (size_t k = 0; k < in.channels; ++k) {
      const float* const from = transformed + panel * in.channels + k * kPanel;
      for (size_t n = 0; n < kPanel; n += hn::Lanes(d)) {
        V half[3][6];
        HWY_UNROLL(6) for (size_t j = 0; j < 6; ++j) {
          V u[6], line[3];
          HWY_UNROLL(6) for (size_t i = 0; i < 6; ++i) {
            u[i] = hn::LoadU(d, from + (6 * i + j) * weight_stride + n);
          }
          WeightGradientLine(u[0], u[1], u[2], u[3], u[4], u[5], line);
          HWY_UNROLL(3) for (size_t i = 0; i < 3; ++i) half[i][j] = line[i];
        }
        HWY_UNROLL(3) for (size_t i = 0; i < 3; ++i) {
          V line[3];
          WeightGradientLine(half[i][0], half[i][1], half[i][2], half[i][3],
                             half[i][4], half[i][5], line);
          HWY_UNROLL(3) for (size_t j = 0; j < 3; ++j) {
            hn::Store(line[j], d, g[3 * i + j] + n);
          }
        }
      }
      for (size_t n = 0; n < kPanel; ++n) {
        float* to = weights_gradient + ((panel + n) * in.channels + k) * 9;
        HWY_UNROLL(9) for (size_t e = 0; e < 9; ++e) to[e] = g[e][n];
      }
    }
  }
}

#else  // HWY_SCALAR

// Highway's one-lane fallback lacks most operations: use the definition, for
// which "transformed" weights are the plain ones.
void WinogradWeights(uint32_t in_channels, uint32_t out_channels,
                     const float* weights, bool backward, float* transformed) {
  for (size_t o = 0; o < out_channels; ++o) {
    for (size_t i = 0; i < in_channels; ++i) {
      for (size_t e = 0; e < 9; ++e) {
        transformed[backward ? (i * out_channels + o) * 9 + 8 - e
                             : (o * in_channels + i) * 9 + e] =
            weights[(o * in_channels + i) * 9 + e];
      }
    }
  }
}

void WinogradConvolve(const Activation& in, const float* x,
                      const float* transformed, const Activation& out, float* y,
                      float*) {
  ref::Convolve(in, x, transformed, out, y);
}

void WinogradWeightsGradient(const Activation& in, const float* x,
                             const Activation& out, const float* y_gradient,
                             float*, float* weights_gradient, float*) {
  ref::ConvolveWeightsGradient(in, x, out, y_gradient, weights_gradient);
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace fedmrn::train
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn::train {

HWY_EXPORT(WinogradWeights);
HWY_EXPORT(WinogradConvolve);
HWY_EXPORT(WinogradWeightsGradient);

namespace {

void CheckPair(const Activation& in, const Activation& out) {
  FEDMRN_CHECK(in.block == kPanel && in.channels % kPanel == 0);
  FEDMRN_CHECK(out.block == kPanel && out.channels % kPanel == 0);
  FEDMRN_CHECK(in.images == out.images && in.height == out.height &&
               in.width == out.width);
}

}  // namespace

size_t WinogradWeightFloats(uint32_t in_channels, uint32_t out_channels) {
  return kElements * MatrixStride(in_channels, out_channels);
}

size_t WinogradScratchFloats(uint32_t in_channels, uint32_t out_channels) {
  const auto floats = [](uint32_t channels) {
    const size_t tiles = TilesAtOnce(channels);
    return kElements *
           (MatrixStride(tiles, channels) + MatrixStride(tiles, kSlice));
  };
  return std::max(floats(in_channels), floats(out_channels));
}

void WinogradWeights(uint32_t in_channels, uint32_t out_channels,
                     const float* weights, bool backward, float* transformed) {
  FEDMRN_CHECK(in_channels % kPanel == 0 && out_channels % kPanel == 0);
  HWY_DYNAMIC_DISPATCH(WinogradWeights)
  (in_channels, out_channels, weights, backward, transformed);
}

void WinogradConvolve(const Activation& in, const float* x,
                      const float* transformed, const Activation& out, float* y,
                      float* scratch) {
  CheckPair(in, out);
  HWY_DYNAMIC_DISPATCH(WinogradConvolve)(in, x, transformed, out, y, scratch);
}

void WinogradWeightsGradient(const Activation& in, const float* x,
                             const Activation& out, const float* y_gradient,
                             float* transformed, float* weights_gradient,
                             float* scratch) {
  CheckPair(in, out);
  FEDMRN_CHECK(in.size() > 0);  // the first tiles overwrite the gradient
  HWY_DYNAMIC_DISPATCH(WinogradWeightsGradient)
  (in, x, out, y_gradient, transformed, weights_gradient, scratch);
}

namespace ref {
namespace {

// Calls visit(x offset, y offset, weight offset) for every product of the
// convolution.
template <typename Visit>
void ForEachProduct(const Activation& in, const Activation& out, Visit visit) {
  const int height = static_cast<int>(in.height),
            width = static_cast<int>(in.width);
  for (size_t image = 0; image < in.images; ++image) {
    for (size_t o = 0; o < out.channels; ++o) {
      for (size_t i = 0; i < in.channels; ++i) {
        for (int e = 0; e < 9; ++e) {
          const int down = e / 3 - 1, right = e % 3 - 1;
          for (int y = std::max(0, -down); y < std::min(height, height - down);
               ++y) {
            for (int x = std::max(0, -right);
                 x < std::min(width, width - right); ++x) {
              visit(in.Offset(image, i) +
                        static_cast<size_t>((y + down) * width + x + right) *
                            in.block,
                    out.Offset(image, o) +
                        static_cast<size_t>(y * width + x) * out.block,
                    (o * in.channels + i) * 9 + static_cast<size_t>(e));
            }
          }
        }
      }
    }
  }
}

}  // namespace

void Convolve(const Activation& in, const float* x, const float* weights,
              const Activation& out, float* y) {
  std::fill_n(y, out.size(), 0.0f);
  ForEachProduct(in, out, [&](size_t from, size_t to, size_t w) {
    y[to] += x[from] * weights[w];
  });
}

void ConvolveInputGradient(const Activation& in, float* x_gradient,
                           const float* weights, const Activation& out,
                           const float* y_gradient) {
  std::fill_n(x_gradient, in.size(), 0.0f);
  ForEachProduct(in, out, [&](size_t from, size_t to, size_t w) {
    x_gradient[from] += y_gradient[to] * weights[w];
  });
}

void ConvolveWeightsGradient(const Activation& in, const float* x,
                             const Activation& out, const float* y_gradient,
                             float* weights_gradient) {
  std::fill_n(weights_gradient, size_t{9} * in.channels * out.channels, 0.0f);
  ForEachProduct(in, out, [&](size_t from, size_t to, size_t w) {
    weights_gradient[w] += x[from] * y_gradient[to];
  });
}

}  // namespace ref
}  // namespace fedmrn::train
#endif  // HWY_ONCE
