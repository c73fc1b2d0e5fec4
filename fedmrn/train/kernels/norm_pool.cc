#include "fedmrn/train/kernels/norm_pool.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/train/kernels/panel_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/train/kernels/norm_pool.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

#ifndef FEDMRN_TRAIN_NORM_POOL_ONCE
#define FEDMRN_TRAIN_NORM_POOL_ONCE
namespace fedmrn::train {

inline bool Pooled(const Activation& in, const Activation& out) {
  return out.height < in.height;
}

}  // namespace fedmrn::train
#endif

HWY_BEFORE_NAMESPACE();
namespace fedmrn::train {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
// Highway's one-lane fallback lacks most operations: use the definition.
using ref::ChannelMoments;
using ref::NormReluPool;
using ref::NormReluPoolGradient;
#else

// Sixteen channels lie side by side in every layout.
using D = hn::CappedTag<float, kPanel>;
using V = hn::Vec<D>;

// Sums of one image in float, of all images in double.
HWY_INLINE void AddTo(double* total, V sum) {
  const D d;
  HWY_ALIGN float lanes[kPanel];
  hn::Store(sum, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) total[i] += double{lanes[i]};
}

HWY_NOINLINE void ChannelMoments(const Activation& in, const float* x,
                                 float* mean, float* variance) {
  const D d;
  const size_t pixels = in.pixels();
  std::vector<double> sum(in.channels), squares(in.channels);
  for (size_t image = 0; image < in.images; ++image) {
    for (size_t c = 0; c < in.channels; c += hn::Lanes(d)) {
      const float* HWY_RESTRICT p = x + in.Offset(image, c);
      V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      V q0 = s0, q1 = s0, q2 = s0, q3 = s0;
      size_t i = 0;
      for (; i + 4 <= pixels; i += 4, p += 4 * in.block) {
        const V x0 = hn::LoadU(d, p);
        const V x1 = hn::LoadU(d, p + in.block);
        const V x2 = hn::LoadU(d, p + 2 * in.block);
        const V x3 = hn::LoadU(d, p + 3 * in.block);
        s0 = hn::Add(s0, x0);
        s1 = hn::Add(s1, x1);
        s2 = hn::Add(s2, x2);
        s3 = hn::Add(s3, x3);
        q0 = hn::MulAdd(x0, x0, q0);
        q1 = hn::MulAdd(x1, x1, q1);
        q2 = hn::MulAdd(x2, x2, q2);
        q3 = hn::MulAdd(x3, x3, q3);
      }
      for (; i < pixels; ++i, p += in.block) {
        const V x0 = hn::LoadU(d, p);
        s0 = hn::Add(s0, x0);
        q0 = hn::MulAdd(x0, x0, q0);
      }
      AddTo(sum.data() + c, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
      AddTo(squares.data() + c, hn::Add(hn::Add(q0, q1), hn::Add(q2, q3)));
    }
  }
  const double count = static_cast<double>(in.images * pixels);
  for (size_t c = 0; c < in.channels; ++c) {
    const double m = sum[c] / count;
    mean[c] = static_cast<float>(m);
    variance[c] = static_cast<float>(std::max(0.0, squares[c] / count - m * m));
  }
}

HWY_NOINLINE void NormRelu(const Activation& in, const float* x,
                           const float* scale, const float* shift,
                           const Activation& out, float* y) {
  const D d;
  const V zero = hn::Zero(d);
  for (size_t image = 0; image < in.images; ++image) {
    for (size_t c = 0; c < in.channels; c += hn::Lanes(d)) {
      const V s = hn::LoadU(d, scale + c), t = hn::LoadU(d, shift + c);
      const float* HWY_RESTRICT from = x + in.Offset(image, c);
      float* HWY_RESTRICT to = y + out.Offset(image, c);
      for (size_t i = 0; i < in.pixels(); ++i) {
        const V v = hn::LoadU(d, from + i * in.block);
        hn::StoreU(hn::Max(hn::MulAdd(s, v, t), zero), d, to + i * out.block);
      }
    }
  }
}

// Keeps the larger z and the x behind it; the first of equals.
HWY_INLINE void Pick(V s, V t, V x, V& z, V& picked) {
  const V z1 = hn::MulAdd(s, x, t);
  picked = hn::IfThenElse(hn::Gt(z1, z), x, picked);
  z = hn::Max(z, z1);
}

HWY_NOINLINE void NormReluPool(const Activation& in, const float* x,
                               const float* scale, const float* shift,
                               const Activation& out, float* y, float* picked) {
  if (!Pooled(in, out)) return NormRelu(in, x, scale, shift, out, y);
  const D d;
  const V zero = hn::Zero(d);
  const size_t right = in.block, below = size_t{in.width} * in.block;
  for (size_t image = 0; image < in.images; ++image) {
    for (size_t c = 0; c < in.channels; c += hn::Lanes(d)) {
      const V s = hn::LoadU(d, scale + c), t = hn::LoadU(d, shift + c);
      const float* HWY_RESTRICT from = x + in.Offset(image, c);
      size_t to = out.Offset(image, c);
      for (size_t row = 0; row < out.height; ++row) {
        const float* HWY_RESTRICT p = from + 2 * row * below;
        for (size_t column = 0; column < out.width; ++column) {
          V best = hn::LoadU(d, p);
          V z = hn::MulAdd(s, best, t);
          Pick(s, t, hn::LoadU(d, p + right), z, best);
          Pick(s, t, hn::LoadU(d, p + below), z, best);
          Pick(s, t, hn::LoadU(d, p + below + right), z, best);
          hn::StoreU(hn::Max(z, zero), d, y + to);
          if (picked != nullptr) hn::StoreU(best, d, picked + to);
          to += out.block;
          p += 2 * right;
        }
      }
    }
  }
}

// Sums of the gradient, and of the gradient times (picked - mean), where y > 0.
HWY_NOINLINE void GradientSums(const Activation& values, const float* picked,
                               const Activation& out, const float* y,
                               const float* y_gradient, const float* mean,
                               double* sum, double* sum_centred) {
  const D d;
  const V zero = hn::Zero(d);
  for (size_t image = 0; image < out.images; ++image) {
    for (size_t c = 0; c < out.channels; c += hn::Lanes(d)) {
      const V m = hn::LoadU(d, mean + c);
      const float* HWY_RESTRICT x = picked + values.Offset(image, c);
      const size_t at = out.Offset(image, c);
      const float* HWY_RESTRICT z = y + at;
      const float* HWY_RESTRICT dz = y_gradient + at;
      V s0 = zero, s1 = zero, q0 = zero, q1 = zero;
      size_t i = 0;
      for (; i + 2 <= out.pixels(); i += 2) {
        const size_t o = i * out.block, v = i * values.block;
        const V g0 = hn::IfThenElseZero(hn::Gt(hn::LoadU(d, z + o), zero),
                                        hn::LoadU(d, dz + o));
        const V g1 =
            hn::IfThenElseZero(hn::Gt(hn::LoadU(d, z + o + out.block), zero),
                               hn::LoadU(d, dz + o + out.block));
        s0 = hn::Add(s0, g0);
        s1 = hn::Add(s1, g1);
        q0 = hn::MulAdd(g0, hn::Sub(hn::LoadU(d, x + v), m), q0);
        q1 = hn::MulAdd(g1, hn::Sub(hn::LoadU(d, x + v + values.block), m), q1);
      }
      if (i < out.pixels()) {
        const size_t o = i * out.block, v = i * values.block;
        const V g0 = hn::IfThenElseZero(hn::Gt(hn::LoadU(d, z + o), zero),
                                        hn::LoadU(d, dz + o));
        s0 = hn::Add(s0, g0);
        q0 = hn::MulAdd(g0, hn::Sub(hn::LoadU(d, x + v), m), q0);
      }
      AddTo(sum + c, hn::Add(s0, s1));
      AddTo(sum_centred + c, hn::Add(q0, q1));
    }
  }
}

// One of the four: the gradient goes to the first that was picked.
HWY_INLINE void Route(V a, V b, V g, V picked, float* x, hn::Mask<D>& open) {
  const D d;
  const V v = hn::LoadU(d, x);
  const auto hit = hn::And(open, hn::Eq(v, picked));
  open = hn::AndNot(hit, open);
  hn::StoreU(hn::Add(hn::MulAdd(b, v, a), hn::IfThenElseZero(hit, g)), d, x);
}

HWY_INLINE void Unpicked(V a, V b, float* x) {
  const D d;
  hn::StoreU(hn::MulAdd(b, hn::LoadU(d, x), a), d, x);
}

HWY_NOINLINE void SpreadPooled(const Activation& in, float* x,
                               const Activation& out, const float* y,
                               const float* picked, const float* y_gradient,
                               const NormState& state,
                               const NormCoefficients& coefficients) {
  const D d;
  const V zero = hn::Zero(d);
  const size_t right = in.block, below = size_t{in.width} * in.block;
  for (size_t image = 0; image < in.images; ++image) {
    for (size_t c = 0; c < in.channels; c += hn::Lanes(d)) {
      const V a = hn::LoadU(d, coefficients.a.data() + c);
      const V b = hn::LoadU(d, coefficients.b.data() + c);
      const V s = hn::LoadU(d, state.scale.data() + c);
      float* const to = x + in.Offset(image, c);
      size_t from = out.Offset(image, c);
      for (size_t row = 0; row < out.height; ++row) {
        float* p = to + 2 * row * below;
        for (size_t column = 0; column < out.width; ++column) {
          const V best = hn::LoadU(d, picked + from);
          auto open = hn::Gt(hn::LoadU(d, y + from), zero);
          const V g = hn::Mul(s, hn::LoadU(d, y_gradient + from));
          Route(a, b, g, best, p, open);
          Route(a, b, g, best, p + right, open);
          Route(a, b, g, best, p + below, open);
          Route(a, b, g, best, p + below + right, open);
          from += out.block;
          p += 2 * right;
        }
        if (in.width % 2 != 0) {
          Unpicked(a, b, p);
          Unpicked(a, b, p + below);
        }
      }
      if (in.height % 2 != 0) {
        float* p = to + size_t{in.height - 1} * below;
        for (size_t column = 0; column < in.width; ++column, p += right) {
          Unpicked(a, b, p);
        }
      }
    }
  }
}

HWY_NOINLINE void Spread(const Activation& in, float* x, const Activation& out,
                         const float* y, const float* y_gradient,
                         const NormState& state,
                         const NormCoefficients& coefficients) {
  const D d;
  const V zero = hn::Zero(d);
  for (size_t image = 0; image < in.images; ++image) {
    for (size_t c = 0; c < in.channels; c += hn::Lanes(d)) {
      const V a = hn::LoadU(d, coefficients.a.data() + c);
      const V b = hn::LoadU(d, coefficients.b.data() + c);
      const V s = hn::LoadU(d, state.scale.data() + c);
      float* HWY_RESTRICT to = x + in.Offset(image, c);
      const size_t from = out.Offset(image, c);
      const float* HWY_RESTRICT z = y + from;
      const float* HWY_RESTRICT dz = y_gradient + from;
      for (size_t i = 0; i < in.pixels(); ++i) {
        const V g =
            hn::IfThenElseZero(hn::Gt(hn::LoadU(d, z + i * out.block), zero),
                               hn::LoadU(d, dz + i * out.block));
        const V v = hn::LoadU(d, to + i * in.block);
        hn::StoreU(hn::MulAdd(s, g, hn::MulAdd(b, v, a)), d, to + i * in.block);
      }
    }
  }
}

void NormReluPoolGradient(const Activation& in, float* x, const Activation& out,
                          const float* y, const float* picked,
                          const float* y_gradient, const NormState& state) {
  const bool pooled = Pooled(in, out);
  std::vector<double> sum(in.channels), sum_centred(in.channels);
  GradientSums(pooled ? out : in, pooled ? picked : x, out, y, y_gradient,
               state.mean.data(), sum.data(), sum_centred.data());
  const NormCoefficients coefficients =
      Coefficients(in, sum, sum_centred, state);
  if (pooled) {
    SpreadPooled(in, x, out, y, picked, y_gradient, state, coefficients);
  } else {
    Spread(in, x, out, y, y_gradient, state, coefficients);
  }
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace fedmrn::train
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn::train {

NormCoefficients Coefficients(const Activation& in, std::span<const double> sum,
                              std::span<const double> sum_centred,
                              const NormState& state) {
  NormCoefficients result{std::vector<float>(in.channels),
                          std::vector<float>(in.channels)};
  for (size_t c = 0; c < in.channels; ++c) {
    state.beta_gradient[c] = static_cast<float>(sum[c]);
    state.gamma_gradient[c] =
        static_cast<float>(sum_centred[c] * state.inv_std[c]);
  }
  if (state.group == 0) return result;
  const double count =
      static_cast<double>(in.images * in.pixels() * state.group);
  for (size_t first = 0; first < in.channels; first += state.group) {
    double a = 0, b = 0;
    for (size_t c = first; c < first + state.group; ++c) {
      const double gamma_gradient = sum_centred[c] * state.inv_std[c];
      a -= double{state.scale[c]} * sum[c];
      b -= double{state.scale[c]} * state.inv_std[c] * gamma_gradient;
    }
    a /= count;
    b /= count;
    for (size_t c = first; c < first + state.group; ++c) {
      result.b[c] = static_cast<float>(b);
      result.a[c] = static_cast<float>(a - b * state.mean[c]);
    }
  }
  return result;
}

HWY_EXPORT(ChannelMoments);
HWY_EXPORT(NormReluPool);
HWY_EXPORT(NormReluPoolGradient);

namespace {

void CheckLayout(const Activation& at) {
  FEDMRN_CHECK(at.block > 0 && at.block % kPanel == 0 &&
               at.channels % at.block == 0);
}

void CheckPair(const Activation& in, const Activation& out) {
  CheckLayout(in);
  CheckLayout(out);
  FEDMRN_CHECK(in.images == out.images && in.channels == out.channels);
  FEDMRN_CHECK((out.height == in.height && out.width == in.width) ||
               (out.height == in.height / 2 && out.width == in.width / 2));
}

}  // namespace

void ChannelMoments(const Activation& in, const float* x, float* mean,
                    float* variance) {
  CheckLayout(in);
  HWY_DYNAMIC_DISPATCH(ChannelMoments)(in, x, mean, variance);
}

void NormReluPool(const Activation& in, const float* x, const float* scale,
                  const float* shift, const Activation& out, float* y,
                  float* picked) {
  CheckPair(in, out);
  HWY_DYNAMIC_DISPATCH(NormReluPool)(in, x, scale, shift, out, y, picked);
}

void NormReluPoolGradient(const Activation& in, float* x, const Activation& out,
                          const float* y, const float* picked,
                          const float* y_gradient, const NormState& state) {
  CheckPair(in, out);
  HWY_DYNAMIC_DISPATCH(NormReluPoolGradient)
  (in, x, out, y, picked, y_gradient, state);
}

namespace ref {
namespace {

// Where the pooled value at (row, column) of a channel came from.
size_t PickedAt(const Activation& in, const float* x, float scale, float shift,
                size_t row, size_t column) {
  size_t best = (2 * row * in.width + 2 * column) * in.block;
  for (size_t below : {0, 1}) {
    for (size_t right : {0, 1}) {
      const size_t at =
          ((2 * row + below) * in.width + 2 * column + right) * in.block;
      if (scale * x[at] + shift > scale * x[best] + shift) best = at;
    }
  }
  return best;
}

}  // namespace

void ChannelMoments(const Activation& in, const float* x, float* mean,
                    float* variance) {
  const double count = static_cast<double>(in.images * in.pixels());
  for (size_t c = 0; c < in.channels; ++c) {
    double sum = 0, squares = 0;
    for (size_t image = 0; image < in.images; ++image) {
      for (size_t i = 0; i < in.pixels(); ++i) {
        const double v{x[in.Offset(image, c) + i * in.block]};
        sum += v;
        squares += v * v;
      }
    }
    mean[c] = static_cast<float>(sum / count);
    variance[c] = static_cast<float>(
        std::max(0.0, squares / count - sum / count * (sum / count)));
  }
}

void NormReluPool(const Activation& in, const float* x, const float* scale,
                  const float* shift, const Activation& out, float* y,
                  float* picked) {
  const bool pooled = Pooled(in, out);
  for (size_t image = 0; image < in.images; ++image) {
    for (size_t c = 0; c < in.channels; ++c) {
      const float* from = x + in.Offset(image, c);
      for (size_t i = 0; i < out.pixels(); ++i) {
        const size_t at = pooled ? PickedAt(in, from, scale[c], shift[c],
                                            i / out.width, i % out.width)
                                 : i * in.block;
        const size_t to = out.Offset(image, c) + i * out.block;
        y[to] = std::max(0.0f, scale[c] * from[at] + shift[c]);
        if (pooled && picked != nullptr) picked[to] = from[at];
      }
    }
  }
}

void NormReluPoolGradient(const Activation& in, float* x, const Activation& out,
                          const float* y, const float* picked,
                          const float* y_gradient, const NormState& state) {
  const bool pooled = Pooled(in, out);
  std::vector<double> sum(in.channels), sum_centred(in.channels);
  // The gradient after ReLU and pooling, spread to where it came from.
  std::vector<float> spread(in.size());
  for (size_t image = 0; image < in.images; ++image) {
    for (size_t c = 0; c < in.channels; ++c) {
      for (size_t i = 0; i < out.pixels(); ++i) {
        const size_t from = out.Offset(image, c) + i * out.block;
        if (!(y[from] > 0)) continue;
        size_t at = in.Offset(image, c) + i * in.block;
        if (pooled) {
          at = in.Offset(image, c) +
               (i / out.width * 2 * in.width + i % out.width * 2) * in.block;
          const size_t below = size_t{in.width} * in.block;
          for (size_t step :
               {size_t{0}, size_t{in.block}, below, below + in.block}) {
            if (x[at + step] == picked[from]) {
              at += step;
              break;
            }
          }
        }
        spread[at] = y_gradient[from];
        sum[c] += double{y_gradient[from]};
        sum_centred[c] +=
            double{y_gradient[from]} * (double{x[at]} - state.mean[c]);
      }
    }
  }
  const NormCoefficients k = Coefficients(in, sum, sum_centred, state);
  for (size_t image = 0; image < in.images; ++image) {
    for (size_t c = 0; c < in.channels; ++c) {
      for (size_t i = 0; i < in.pixels(); ++i) {
        const size_t at = in.Offset(image, c) + i * in.block;
        x[at] = k.a[c] + k.b[c] * x[at] + state.scale[c] * spread[at];
      }
    }
  }
}

}  // namespace ref
}  // namespace fedmrn::train
#endif  // HWY_ONCE
