#include "fedmrn/train/kernels/lstm_step.h"

#include <algorithm>
#include <cmath>

#include "fedmrn/base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/train/kernels/lstm_step.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "fedmrn/train/kernels/panel_product-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fedmrn::train {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
// Highway's one-lane fallback lacks most operations: use the definition.
using ref::LstmBackward;
using ref::LstmForward;
#else

using D = PanelTag;
using V = hn::Vec<D>;

// x P(x^2) / Q(x^2), the rational function of these degrees with the least
// relative error below 7.9, from where on tanh is 1 - 3e-7. In float the error
// is below 4e-7 of the value everywhere, so also where the value is tiny.
HWY_INLINE V Tanh(V x) {
  const D d;
  const V limit = hn::Set(d, 7.9f);
  x = hn::Max(hn::Min(x, limit), hn::Neg(limit));
  const V s = hn::Mul(x, x);
  V p = hn::Set(d, 1.5427959e-8f);
  p = hn::MulAdd(p, s, hn::Set(d, 2.2023236e-5f));
  p = hn::MulAdd(p, s, hn::Set(d, 3.5789914e-3f));
  p = hn::MulAdd(p, s, hn::Set(d, 0.1345062f));
  p = hn::MulAdd(p, s, hn::Set(d, 1.0f));
  V q = hn::Set(d, 8.5987745e-7f);
  q = hn::MulAdd(q, s, hn::Set(d, 3.4236498e-4f));
  q = hn::MulAdd(q, s, hn::Set(d, 0.026192237f));
  q = hn::MulAdd(q, s, hn::Set(d, 0.46783948f));
  q = hn::MulAdd(q, s, hn::Set(d, 1.0f));
  return hn::Div(hn::Mul(x, p), q);
}

HWY_INLINE V Sigmoid(V x) {
  const V half = hn::Set(D(), 0.5f);
  return hn::MulAdd(half, Tanh(hn::Mul(half, x)), half);
}

// The part of LstmForward after the products, z, for one panel of units.
HWY_NOINLINE void ForwardCells(const LstmShape& shape, size_t panel,
                               const float* HWY_RESTRICT table,
                               const LstmStep& step,
                               const float* HWY_RESTRICT z) {
  const D d;
  const size_t width = kLstmGates * shape.units;
  const size_t gate = shape.rows * kPanel;
  float* const gates =
      step.gates != nullptr ? step.gates + panel * kLstmGates * gate : nullptr;
  float* HWY_RESTRICT c = step.c + panel * gate;
  const float* const c_before =
      step.c_before != nullptr ? step.c_before + panel * gate : nullptr;
  table += panel * kLstmGates * kPanel;
  for (size_t row = 0; row < shape.rows; ++row) {
    const float* HWY_RESTRICT x =
        table + static_cast<size_t>(step.tokens[row]) * width;
    float* HWY_RESTRICT h = step.h + row * shape.units + panel * kPanel;
    for (size_t n = 0; n < kPanel; n += hn::Lanes(d)) {
      const size_t at = row * kPanel + n;
      const auto sum = [&](size_t g) HWY_ATTR {
        return hn::Add(hn::LoadU(d, z + g * gate + at),
                       hn::LoadU(d, x + g * kPanel + n));
      };
      const V in = Sigmoid(sum(0)), forget = Sigmoid(sum(1)),
              cell = Tanh(sum(2)), out = Sigmoid(sum(3));
      V now = hn::Mul(in, cell);
      if (c_before != nullptr) {
        now = hn::MulAdd(forget, hn::LoadU(d, c_before + at), now);
      }
      if (gates != nullptr) {
        hn::StoreU(in, d, gates + at);
        hn::StoreU(forget, d, gates + gate + at);
        hn::StoreU(cell, d, gates + 2 * gate + at);
        hn::StoreU(out, d, gates + 3 * gate + at);
      }
      hn::StoreU(now, d, c + at);
      hn::StoreU(hn::Mul(out, Tanh(now)), d, h + n);
    }
  }
}

HWY_NOINLINE void LstmForward(const LstmShape& shape,
                              const LstmWeights& weights, const float* table,
                              const LstmStep& step, float* scratch) {
  const size_t gate = shape.rows * kPanel;
  if (step.h_before == nullptr) std::fill_n(scratch, kLstmGates * gate, 0.0f);
  for (size_t panel = 0; panel < shape.units / kPanel; ++panel) {
    if (step.h_before != nullptr) {
      MultiplyPanels<false>(
          step.h_before, shape.units, 1, shape.rows,
          weights.forward + panel * kLstmGates * shape.units * kPanel,
          shape.units, kLstmGates, scratch);
    }
    ForwardCells(shape, panel, table, step, scratch);
  }
}

// The part of LstmBackward before the products, for one panel of units. Gives
// the gradient of z twice, as the two products take it: [gate][row][16] and
// [row][panel][gate][16].
HWY_NOINLINE void BackwardCells(const LstmShape& shape, size_t panel,
                                const LstmStep& step,
                                const LstmGradients& gradients,
                                float* HWY_RESTRICT z_gradient,
                                float* HWY_RESTRICT z_gradient_rows) {
  const D d;
  const V one = hn::Set(d, 1.0f);
  const size_t width = kLstmGates * shape.units;
  const size_t gate = shape.rows * kPanel;
  const float* const gates = step.gates + panel * kLstmGates * gate;
  const float* const c = step.c + panel * gate;
  const float* const c_before =
      step.c_before != nullptr ? step.c_before + panel * gate : nullptr;
  const float* const dh = gradients.h + panel * gate;
  float* HWY_RESTRICT dc = gradients.c + panel * gate;
  const size_t first = panel * kLstmGates * kPanel;
  for (size_t row = 0; row < shape.rows; ++row) {
    float* HWY_RESTRICT dx =
        gradients.table + first + static_cast<size_t>(step.tokens[row]) * width;
    float* HWY_RESTRICT to = z_gradient_rows + first + row * width;
    for (size_t n = 0; n < kPanel; n += hn::Lanes(d)) {
      const size_t at = row * kPanel + n;
      const V in = hn::LoadU(d, gates + at),
              forget = hn::LoadU(d, gates + gate + at),
              cell = hn::LoadU(d, gates + 2 * gate + at),
              out = hn::LoadU(d, gates + 3 * gate + at);
      const V squashed = Tanh(hn::LoadU(d, c + at));
      const V h_gradient = hn::LoadU(d, dh + at);
      const V before =
          c_before != nullptr ? hn::LoadU(d, c_before + at) : hn::Zero(d);
      const V c_gradient = hn::MulAdd(hn::Mul(h_gradient, out),
                                      hn::NegMulAdd(squashed, squashed, one),
                                      hn::LoadU(d, dc + at));
      hn::StoreU(hn::Mul(c_gradient, forget), d, dc + at);
      const auto through_sigmoid = [&](V gradient, V y) HWY_ATTR {
        return hn::Mul(gradient, hn::NegMulAdd(y, y, y));
      };
      const V gradient[kLstmGates] = {
          through_sigmoid(hn::Mul(c_gradient, cell), in),
          through_sigmoid(hn::Mul(c_gradient, before), forget),
          hn::Mul(hn::Mul(c_gradient, in), hn::NegMulAdd(cell, cell, one)),
          through_sigmoid(hn::Mul(h_gradient, squashed), out)};
      HWY_UNROLL(4) for (size_t g = 0; g < kLstmGates; ++g) {
        float* HWY_RESTRICT sum = dx + g * kPanel + n;
        hn::StoreU(gradient[g], d, z_gradient + g * gate + at);
        hn::StoreU(gradient[g], d, to + g * kPanel + n);
        hn::StoreU(hn::Add(hn::LoadU(d, sum), gradient[g]), d, sum);
      }
    }
  }
}

HWY_NOINLINE void LstmBackward(const LstmShape& shape,
                               const LstmWeights& weights, const LstmStep& step,
                               const LstmGradients& gradients, float* scratch) {
  const size_t panels = shape.units / kPanel;
  const size_t width = kLstmGates * shape.units;
  const size_t gate = shape.rows * kPanel;
  float* const z_gradient_rows = scratch + kLstmGates * gate;
  for (size_t panel = 0; panel < panels; ++panel) {
    BackwardCells(shape, panel, step, gradients, scratch, z_gradient_rows);
    if (step.h_before == nullptr) continue;
    MultiplyPanels<true>(
        step.h_before, 1, shape.units, shape.units, scratch, shape.rows,
        kLstmGates,
        gradients.weights + panel * kLstmGates * shape.units * kPanel);
  }
  if (step.h_before == nullptr) return;
  MultiplyPanels<false>(z_gradient_rows, width, 1, shape.rows, weights.backward,
                        width, panels, gradients.h);
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace fedmrn::train
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn::train {

HWY_EXPORT(LstmForward);
HWY_EXPORT(LstmBackward);

void PackLstmWeights(size_t units, const float* weights,
                     const LstmWeights& packed) {
  const size_t width = kLstmGates * units;
  for (size_t j = 0; j < width; ++j) {
    const float* const from = weights + LstmWeightRow(units, j) * units;
    float* const forward =
        packed.forward + j / kPanel * units * kPanel + j % kPanel;
    for (size_t k = 0; k < units; ++k) {
      forward[k * kPanel] = from[k];
      packed.backward[(k / kPanel * width + j) * kPanel + k % kPanel] = from[k];
    }
  }
}

void UnpackLstmGradient(size_t units, const float* packed, float* gradient) {
  for (size_t j = 0; j < kLstmGates * units; ++j) {
    const float* const from = packed + j / kPanel * units * kPanel + j % kPanel;
    float* const to = gradient + LstmWeightRow(units, j) * units;
    for (size_t k = 0; k < units; ++k) to[k] = from[k * kPanel];
  }
}

size_t LstmScratchFloats(const LstmShape& shape) {
  return kLstmGates * shape.rows * (kPanel + shape.units);
}

void LstmForward(const LstmShape& shape, const LstmWeights& weights,
                 const float* table, const LstmStep& step, float* scratch) {
  FEDMRN_CHECK(shape.units % kPanel == 0);
  HWY_DYNAMIC_DISPATCH(LstmForward)(shape, weights, table, step, scratch);
}

void LstmBackward(const LstmShape& shape, const LstmWeights& weights,
                  const LstmStep& step, const LstmGradients& gradients,
                  float* scratch) {
  FEDMRN_CHECK(shape.units % kPanel == 0);
  HWY_DYNAMIC_DISPATCH(LstmBackward)(shape, weights, step, gradients, scratch);
}

namespace ref {
namespace {

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// Where the values of one unit of one row lie.
struct Place {
  Place(const LstmShape& shape, size_t row, size_t unit)
      : value((unit / kPanel * shape.rows + row) * kPanel + unit % kPanel),
        h(row * shape.units + unit) {
    for (size_t g = 0; g < kLstmGates; ++g) {
      packed[g] = (unit / kPanel * kLstmGates + g) * kPanel + unit % kPanel;
      gate[g] = ((unit / kPanel * kLstmGates + g) * shape.rows + row) * kPanel +
                unit % kPanel;
    }
  }

  size_t value;               // in c and the gradients of c and h
  size_t h;                   // in h
  size_t gate[kLstmGates];    // in the gates
  size_t packed[kLstmGates];  // in a row of the table
};

// Where the weight from unit k of the step before to a packed gate lies.
size_t ForwardWeight(size_t units, size_t packed, size_t k) {
  return (packed / kPanel * units + k) * kPanel + packed % kPanel;
}

template <typename Visit>
void ForEachUnit(const LstmShape& shape, Visit visit) {
  for (size_t row = 0; row < shape.rows; ++row) {
    for (size_t unit = 0; unit < shape.units; ++unit) {
      visit(row, Place(shape, row, unit));
    }
  }
}

}  // namespace

void LstmForward(const LstmShape& shape, const LstmWeights& weights,
                 const float* table, const LstmStep& step, float*) {
  ForEachUnit(shape, [&](size_t row, const Place& at) {
    const float* const x = table + static_cast<size_t>(step.tokens[row]) *
                                       kLstmGates * shape.units;
    float z[kLstmGates];
    for (size_t g = 0; g < kLstmGates; ++g) {
      z[g] = x[at.packed[g]];
      if (step.h_before == nullptr) continue;
      for (size_t k = 0; k < shape.units; ++k) {
        z[g] += step.h_before[row * shape.units + k] *
                weights.forward[ForwardWeight(shape.units, at.packed[g], k)];
      }
    }
    const float in = Sigmoid(z[0]), forget = Sigmoid(z[1]),
                cell = std::tanh(z[2]), out = Sigmoid(z[3]);
    const float before = step.c_before != nullptr ? step.c_before[at.value] : 0;
    if (step.gates != nullptr) {
      step.gates[at.gate[0]] = in;
      step.gates[at.gate[1]] = forget;
      step.gates[at.gate[2]] = cell;
      step.gates[at.gate[3]] = out;
    }
    step.c[at.value] = forget * before + in * cell;
    step.h[at.h] = out * std::tanh(step.c[at.value]);
  });
}

void LstmBackward(const LstmShape& shape, const LstmWeights& weights,
                  const LstmStep& step, const LstmGradients& gradients,
                  float* scratch) {
  ForEachUnit(shape, [&](size_t row, const Place& at) {
    const float in = step.gates[at.gate[0]], forget = step.gates[at.gate[1]],
                cell = step.gates[at.gate[2]], out = step.gates[at.gate[3]];
    const float squashed = std::tanh(step.c[at.value]);
    const float before = step.c_before != nullptr ? step.c_before[at.value] : 0;
    const float dh = gradients.h[at.value];
    const float dc =
        gradients.c[at.value] + dh * out * (1 - squashed * squashed);
    gradients.c[at.value] = dc * forget;
    const float dz[kLstmGates] = {
        dc * cell * in * (1 - in), dc * before * forget * (1 - forget),
        dc * in * (1 - cell * cell), dh * squashed * out * (1 - out)};
    for (size_t g = 0; g < kLstmGates; ++g) {
      scratch[at.gate[g]] = dz[g];
      gradients.table[static_cast<size_t>(step.tokens[row]) * kLstmGates *
                          shape.units +
                      at.packed[g]] += dz[g];
    }
  });
  if (step.h_before == nullptr) return;
  std::fill_n(gradients.h, shape.rows * shape.units, 0.0f);
  ForEachUnit(shape, [&](size_t row, const Place& at) {
    for (size_t g = 0; g < kLstmGates; ++g) {
      const float dz = scratch[at.gate[g]];
      for (size_t k = 0; k < shape.units; ++k) {
        const Place before(shape, row, k);
        const size_t weight = ForwardWeight(shape.units, at.packed[g], k);
        gradients.weights[weight] += step.h_before[before.h] * dz;
        gradients.h[before.value] += weights.forward[weight] * dz;
      }
    }
  });
}

}  // namespace ref
}  // namespace fedmrn::train
#endif  // HWY_ONCE
