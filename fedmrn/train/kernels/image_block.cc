#include "fedmrn/train/kernels/image_block.h"

#include <algorithm>

#include "fedmrn/base/check.h"
#include "fedmrn/train/kernels/buffer.h"
#include "fedmrn/train/kernels/compute_threads.h"
#include "fedmrn/train/kernels/panel_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/train/kernels/image_block.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

#ifndef FEDMRN_TRAIN_IMAGE_BLOCK_ONCE
#define FEDMRN_TRAIN_IMAGE_BLOCK_ONCE
namespace fedmrn::train {

// The patches of one image: a row for each of their values, in it a column for
// each pixel, and zeros up to a multiple of 16.
class Patches {
 public:
  // Rows are added up to a multiple of this, of zeros.
  static constexpr size_t kRows = 4;

  explicit Patches(const Activation& images)
      : at_(images),
        rows_((9 * images.channels + kRows) / kRows * kRows),
        stride_((images.pixels() + kPanel - 1) / kPanel * kPanel),
        values_(rows_ * stride_) {
    std::fill_n(values_.get(), rows_ * stride_, 0.0f);
    std::fill_n(values_.get() + 9 * images.channels * stride_, images.pixels(),
                1.0f);
  }

  size_t rows() const { return rows_; }
  size_t stride() const { return stride_; }
  const float* row(size_t i) const { return values_.get() + i * stride_; }

  // Those of the image at x. What lies outside of it stays 0.
  void Read(const float* x) {
    const size_t height = at_.height, width = at_.width, next = at_.channels;
    for (size_t c = 0; c < at_.channels; ++c) {
      for (size_t tap = 0; tap < 9; ++tap) {
        const size_t down = tap / 3, right = tap % 3;  // from -1
        const size_t first_row = down == 0, end_row = height - (down == 2);
        const size_t first = right == 0, end = width - (right == 2);
        for (size_t row = first_row; row < end_row; ++row) {
          float* HWY_RESTRICT to =
              values_.get() + (9 * c + tap) * stride_ + row * width;
          const float* HWY_RESTRICT from =
              x + ((row + down - 1) * width + right) * next - next + c;
          if (next == 1) {
            std::copy(from + first, from + end, to + first);
          } else {
            for (size_t i = first; i < end; ++i) to[i] = from[i * next];
          }
        }
      }
    }
  }

 private:
  Activation at_;
  size_t rows_, stride_;
  Buffer values_;
};

// The four pixels that a pooled value may come from, or else its only one.
template <bool kPooled>
struct Pixels {
  static constexpr size_t kCount = kPooled ? 4 : 1;

  Pixels(const Activation& images, size_t row, size_t column) {
    if constexpr (kPooled) {
      at[0] = 2 * row * images.width + 2 * column;
      at[1] = at[0] + 1;
      at[2] = at[0] + images.width;
      at[3] = at[2] + 1;
    } else {
      at[0] = row * images.width + column;
    }
  }

  size_t at[kCount];
};

}  // namespace fedmrn::train
#endif

HWY_BEFORE_NAMESPACE();
namespace fedmrn::train {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kPanel>;
using V = hn::Vec<D>;
inline constexpr size_t kVectors = kPanel / hn::MaxLanes(D());

// The sums of 16 lanes on every target, in one order.
HWY_INLINE double SumOfPanel(const V (&sum)[kVectors]) {
  const D d;
  HWY_ALIGN float lanes[kPanel];
  for (size_t v = 0; v < kVectors; ++v) {
    hn::Store(sum[v], d, lanes + v * hn::Lanes(d));
  }
  double total = 0;
  for (size_t i = 0; i < 4; ++i) {
    total += (double{lanes[i]} + double{lanes[i + 4]}) +
             (double{lanes[i + 8]} + double{lanes[i + 12]});
  }
  return total;
}

// A square of products stays in registers.
inline constexpr size_t kSide = kVectors == 1 ? 4 : 2;

HWY_NOINLINE void AddPatches(const Patches& patches, PatchSums& sums) {
  const D d;
  static_assert(Patches::kRows % kSide == 0);
  for (size_t i = 0; i < patches.rows(); i += kSide) {
    for (size_t j = 0; j <= i; j += kSide) {
      V sum[kSide][kSide][kVectors];
      for (auto& line : sum) {
        for (auto& of : line) {
          for (V& v : of) v = hn::Zero(d);
        }
      }
      for (size_t p = 0; p < patches.stride(); p += kPanel) {
        HWY_UNROLL(4) for (size_t v = 0; v < kVectors; ++v) {
          const size_t at = p + v * hn::Lanes(d);
          V left[kSide];
          HWY_UNROLL(4) for (size_t s = 0; s < kSide; ++s) {
            left[s] = hn::Load(d, patches.row(i + s) + at);
          }
          HWY_UNROLL(4) for (size_t t = 0; t < kSide; ++t) {
            const V right = hn::Load(d, patches.row(j + t) + at);
            HWY_UNROLL(4) for (size_t s = 0; s < kSide; ++s) {
              sum[s][t][v] = hn::MulAdd(left[s], right, sum[s][t][v]);
            }
          }
        }
      }
      for (size_t s = 0; s < kSide && i + s < sums.size(); ++s) {
        for (size_t t = 0; t < kSide && j + t <= i + s; ++t) {
          const double total = SumOfPanel(sum[s][t]);
          sums(i + s, j + t) += total;
          if (i + s != j + t) sums(j + t, i + s) += total;
        }
      }
    }
  }
}

// The convolution at four pixels, which do not wait for one another's sums.
// `weights` are [value of a patch][channel], of 16 channels.
HWY_INLINE void ConvolveFour(const Patches& patches, size_t taps,
                             const float* HWY_RESTRICT weights,
                             const size_t (&pixels)[4], V (&x)[4][kVectors]) {
  const D d;
  for (auto& of : x) {
    for (V& v : of) v = hn::Zero(d);
  }
  for (size_t tap = 0; tap < taps; ++tap) {
    const float* const patch = patches.row(tap);
    HWY_UNROLL(4) for (size_t v = 0; v < kVectors; ++v) {
      const V w = hn::Load(d, weights + tap * kPanel + v * hn::Lanes(d));
      HWY_UNROLL(4) for (size_t q = 0; q < 4; ++q) {
        x[q][v] = hn::MulAdd(hn::Set(d, patch[pixels[q]]), w, x[q][v]);
      }
    }
  }
}

// One image and 16 channels.
HWY_NOINLINE void ForwardPooled(const Activation& images,
                                const Patches& patches,
                                const float* HWY_RESTRICT weights,
                                const float* HWY_RESTRICT scale,
                                const float* HWY_RESTRICT shift,
                                const Activation& out, float* HWY_RESTRICT y,
                                float* HWY_RESTRICT picked) {
  const D d;
  const V zero = hn::Zero(d), shut = hn::Set(d, kShut);
  const size_t taps = size_t{9} * images.channels;
  for (size_t row = 0, to = 0; row < out.height; ++row) {
    for (size_t column = 0; column < out.width; ++column, to += out.block) {
      V x[4][kVectors];
      ConvolveFour(patches, taps, weights, Pixels<true>(images, row, column).at,
                   x);
      HWY_UNROLL(4) for (size_t v = 0; v < kVectors; ++v) {
        const size_t c = v * hn::Lanes(d);
        const V s = hn::LoadU(d, scale + c), t = hn::LoadU(d, shift + c);
        V best = hn::MulAdd(s, x[0][v], t), pick = zero;
        HWY_UNROLL(3) for (size_t q = 1; q < 4; ++q) {
          const V z = hn::MulAdd(s, x[q][v], t);
          pick = hn::IfThenElse(hn::Gt(z, best),
                                hn::Set(d, static_cast<float>(q)), pick);
          best = hn::Max(best, z);
        }
        hn::StoreU(hn::Max(best, zero), d, y + to + c);
        if (picked != nullptr) {
          hn::StoreU(hn::IfThenElse(hn::Gt(best, zero), pick, shut), d,
                     picked + to + c);
        }
      }
    }
  }
}

// The same without pooling.
HWY_NOINLINE void ForwardWhole(const Activation& images, const Patches& patches,
                               const float* HWY_RESTRICT weights,
                               const float* HWY_RESTRICT scale,
                               const float* HWY_RESTRICT shift,
                               const Activation& out, float* HWY_RESTRICT y,
                               float* HWY_RESTRICT picked) {
  const D d;
  const V zero = hn::Zero(d), shut = hn::Set(d, kShut);
  const size_t taps = size_t{9} * images.channels, pixels = images.pixels();
  for (size_t p = 0; p < pixels; p += 4) {
    V x[4][kVectors];
    // Beyond the last pixel patches are 0.
    ConvolveFour(patches, taps, weights, {p, p + 1, p + 2, p + 3}, x);
    for (size_t q = 0; q < 4 && p + q < pixels; ++q) {
      const size_t to = (p + q) * out.block;
      HWY_UNROLL(4) for (size_t v = 0; v < kVectors; ++v) {
        const size_t c = v * hn::Lanes(d);
        const V z = hn::MulAdd(hn::LoadU(d, scale + c), x[q][v],
                               hn::LoadU(d, shift + c));
        hn::StoreU(hn::Max(z, zero), d, y + to + c);
        if (picked != nullptr) {
          hn::StoreU(hn::IfThenElse(hn::Gt(z, zero), zero, shut), d,
                     picked + to + c);
        }
      }
    }
  }
}

// Takes kTaps values of the patches, from `first` on, and adds the sum of the
// gradient times the value, where the gradient goes, to each channel's.
template <bool kPooled, size_t kTaps>
HWY_NOINLINE void BackwardVector(const Activation& images,
                                 const Patches& patches, size_t first,
                                 const Activation& out,
                                 const float* HWY_RESTRICT picked,
                                 const float* HWY_RESTRICT y_gradient,
                                 size_t channels, double* HWY_RESTRICT to) {
  using Square = Pixels<kPooled>;
  const D d;
  V sum[kTaps];
  for (V& v : sum) v = hn::Zero(d);
  for (size_t row = 0, at = 0; row < out.height; ++row) {
    for (size_t column = 0; column < out.width; ++column, at += out.block) {
      const Square pixels(images, row, column);
      const V pick = hn::LoadU(d, picked + at),
              gradient = hn::LoadU(d, y_gradient + at);
      HWY_UNROLL(4) for (size_t q = 0; q < Square::kCount; ++q) {
        const V g = hn::IfThenElseZero(
            hn::Eq(pick, hn::Set(d, static_cast<float>(q))), gradient);
        HWY_UNROLL(9) for (size_t tap = 0; tap < kTaps; ++tap) {
          const float* const patch = patches.row(first + tap);
          sum[tap] = hn::MulAdd(hn::Set(d, patch[pixels.at[q]]), g, sum[tap]);
        }
      }
    }
  }
  HWY_ALIGN float lanes[kPanel];
  for (size_t tap = 0; tap < kTaps; ++tap) {
    hn::Store(sum[tap], d, lanes);
    for (size_t i = 0; i < hn::Lanes(d); ++i) {
      to[tap * channels + i] += double{lanes[i]};
    }
  }
}

template <bool kPooled>
void AddGradients(const Activation& images, const Patches& patches,
                  const Activation& out, const float* picked,
                  const float* y_gradient, double* sums) {
  const D d;
  for (size_t c = 0; c < out.channels; c += hn::Lanes(d)) {
    const size_t at = out.Offset(0, c);
    size_t tap = 0;
    for (; tap < 9 * images.channels; tap += 9) {
      BackwardVector<kPooled, 9>(images, patches, tap, out, picked + at,
                                 y_gradient + at, out.channels,
                                 sums + tap * out.channels + c);
    }
    BackwardVector<kPooled, 1>(images, patches, tap, out, picked + at,
                               y_gradient + at, out.channels,
                               sums + tap * out.channels + c);
  }
}

void ForwardImage(bool pooled, const Activation& images, const Patches& patches,
                  const float* weights, const float* scale, const float* shift,
                  const Activation& out, float* y, float* picked) {
  const auto forward = pooled ? ForwardPooled : ForwardWhole;
  for (size_t c = 0; c < out.channels; c += kPanel) {
    const size_t at = out.Offset(0, c);
    forward(images, patches, weights + c * 9 * images.channels, scale + c,
            shift + c, out, y + at, picked == nullptr ? nullptr : picked + at);
  }
}

// sums[value of a patch][channel] += of one image.
void BackwardImage(bool pooled, const Activation& images,
                   const Patches& patches, const Activation& out,
                   const float* picked, const float* y_gradient, double* sums) {
  const auto add = pooled ? AddGradients<true> : AddGradients<false>;
  add(images, patches, out, picked, y_gradient, sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn::train
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn::train {

HWY_EXPORT(AddPatches);
HWY_EXPORT(ForwardImage);
HWY_EXPORT(BackwardImage);

namespace {

bool CheckPair(const Activation& images, const Activation& out) {
  FEDMRN_CHECK(images.block == images.channels && images.images == out.images);
  FEDMRN_CHECK(out.block % kPanel == 0 && out.channels % out.block == 0);
  const bool pooled = out.height < images.height;
  FEDMRN_CHECK(
      (out.height == images.height / 2 && out.width == images.width / 2) ||
      (out.height == images.height && out.width == images.width));
  return pooled;
}

// From [channel][value of a patch] to panels of 16 channels.
Buffer Arranged(std::span<const float> weights, size_t channels) {
  const size_t taps = weights.size() / channels;
  Buffer arranged(weights.size());
  float* to = arranged.get();
  for (size_t panel = 0; panel < channels; panel += kPanel) {
    for (size_t tap = 0; tap < taps; ++tap) {
      for (size_t c = 0; c < kPanel; ++c) {
        *to++ = weights[(panel + c) * taps + tap];
      }
    }
  }
  return arranged;
}

// Calls visit(image, patches) for each image of a part.
template <typename Visit>
void ForEachImage(const Activation& images, const float* x, uint32_t first,
                  uint32_t count, const Visit& visit) {
  Patches patches(images);
  for (size_t image = first; image < size_t{first} + count; ++image) {
    patches.Read(x + image * images.image_size());
    visit(image, patches);
  }
}

}  // namespace

PatchSums& PatchSums::operator+=(const PatchSums& other) {
  FEDMRN_CHECK(size_ == other.size_);
  for (size_t i = 0; i < products_.size(); ++i) {
    products_[i] += other.products_[i];
  }
  return *this;
}

PatchSums SumPatches(const Activation& images, const float* x,
                     uint32_t threads) {
  const auto add = HWY_DYNAMIC_DISPATCH(AddPatches);
  std::vector<PatchSums> sums(PartsOf(images.images, threads),
                              PatchSums(images.channels));
  ForEachPart(images.images, threads,
              [&](uint32_t part, uint32_t first, uint32_t count) {
                ForEachImage(images, x, first, count,
                             [&](size_t, const Patches& patches) {
                               add(patches, sums[part]);
                             });
              });
  for (size_t part = 1; part < sums.size(); ++part) sums[0] += sums[part];
  return sums[0];
}

void ConvolutionMoments(const PatchSums& patches,
                        std::span<const float> weights, std::span<float> mean,
                        std::span<float> variance) {
  const size_t taps = patches.size() - 1;
  FEDMRN_CHECK(weights.size() == mean.size() * taps);
  const double count = patches(taps, taps);
  for (size_t c = 0; c < mean.size(); ++c) {
    const std::span w = weights.subspan(c * taps, taps);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < taps; ++i) {
      double line = 0;
      for (size_t j = 0; j < taps; ++j) line += patches(i, j) * double{w[j]};
      squares += line * double{w[i]};
      sum += patches(taps, i) * double{w[i]};
    }
    const double m = sum / count;
    mean[c] = static_cast<float>(m);
    variance[c] = static_cast<float>(std::max(0.0, squares / count - m * m));
  }
}

void ConvolveNormReluPool(const Activation& images, const float* x,
                          std::span<const float> weights, const float* scale,
                          const float* shift, const Activation& out, float* y,
                          float* picked, uint32_t threads) {
  const bool pooled = CheckPair(images, out);
  const Buffer arranged = Arranged(weights, out.channels);
  const auto forward = HWY_DYNAMIC_DISPATCH(ForwardImage);
  ForEachPart(
      images.images, threads, [&](uint32_t, uint32_t first, uint32_t count) {
        ForEachImage(
            images, x, first, count, [&](size_t image, const Patches& patches) {
              const size_t at = image * out.image_size();
              forward(pooled, images, patches, arranged.get(), scale, shift,
                      out, y + at, picked == nullptr ? nullptr : picked + at);
            });
      });
}

void ConvolveNormReluPoolGradient(
    const Activation& images, const float* x, std::span<const float> weights,
    const Activation& out, const float* picked, const float* y_gradient,
    const PatchSums& patches, const NormState& state,
    std::span<double> weights_gradient, uint32_t threads) {
  const bool pooled = CheckPair(images, out);
  const auto backward = HWY_DYNAMIC_DISPATCH(BackwardImage);
  const size_t taps = size_t{9} * images.channels, channels = out.channels;
  const size_t values = (taps + 1) * channels;
  FEDMRN_CHECK(weights_gradient.size() == taps * channels);
  std::vector<double> sums(PartsOf(images.images, threads) * values);
  ForEachPart(images.images, threads,
              [&](uint32_t part, uint32_t first, uint32_t count) {
                ForEachImage(images, x, first, count,
                             [&](size_t image, const Patches& of_image) {
                               const size_t at = image * out.image_size();
                               backward(pooled, images, of_image, out,
                                        picked + at, y_gradient + at,
                                        sums.data() + part * values);
                             });
              });
  for (size_t i = values; i < sums.size(); ++i) sums[i % values] += sums[i];

  const std::span sum = std::span(sums).subspan(taps * channels, channels);
  std::vector<double> sum_centred(channels);
  for (size_t c = 0; c < channels; ++c) {
    sum_centred[c] = -double{state.mean[c]} * sum[c];
    for (size_t tap = 0; tap < taps; ++tap) {
      sum_centred[c] +=
          double{weights[c * taps + tap]} * sums[tap * channels + c];
    }
  }
  Activation convolved = images;
  convolved.channels = out.channels;
  const NormCoefficients k = Coefficients(convolved, sum, sum_centred, state);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t tap = 0; tap < taps; ++tap) {
      double gradient = double{state.scale[c]} * sums[tap * channels + c];
      if (state.group != 0) {
        gradient += double{k.a[c]} * patches(taps, tap);
        double line = 0;
        for (size_t j = 0; j < taps; ++j) {
          line += patches(tap, j) * double{weights[c * taps + j]};
        }
        gradient += double{k.b[c]} * line;
      }
      weights_gradient[c * taps + tap] += gradient;
    }
  }
}

}  // namespace fedmrn::train
#endif  // HWY_ONCE
