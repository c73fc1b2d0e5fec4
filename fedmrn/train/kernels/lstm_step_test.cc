#include "fedmrn/train/kernels/lstm_step.h"

#include <vector>

#include "fedmrn/core/test_util.h"
#include "fedmrn/train/test_util.h"

namespace fedmrn::train {
namespace {

constexpr size_t kTokens = 5;

// What one step forward and back gives.
struct StepResults {
  // Not a number where nothing is written.
  explicit StepResults(size_t values)
      : gates(kLstmGates * values, NAN), c(values, NAN), h(values, NAN) {}

  std::vector<float> gates, c, h;
  std::vector<float> h_gradient, c_gradient, table_gradient, weights_gradient;
};

template <typename Forward, typename Backward>
StepResults All(const LstmShape& shape, bool first, Forward forward,
                Backward backward) {
  const size_t values = shape.rows * shape.units;
  const size_t weights = kLstmGates * shape.units * shape.units;
  const size_t table = kTokens * kLstmGates * shape.units;
  const std::vector<float> w =
      Normal(1, weights, 1 / std::sqrt(static_cast<float>(shape.units)));
  std::vector<float> packed(weights), packed_backward(weights);
  const LstmWeights u{packed.data(), packed_backward.data()};
  PackLstmWeights(shape.units, w.data(), u);
  const std::vector<float> x = Normal(2, table, 3), h = Normal(3, values),
                           c = Normal(4, values);
  std::vector<int32_t> tokens(shape.rows);
  for (size_t row = 0; row < shape.rows; ++row) {
    tokens[row] = static_cast<int32_t>(row * row % kTokens);
  }
  std::vector<float> scratch(LstmScratchFloats(shape), NAN);
  StepResults r(values);
  LstmStep step{tokens.data(),
                first ? nullptr : h.data(),
                first ? nullptr : c.data(),
                r.gates.data(),
                r.c.data(),
                r.h.data()};
  forward(shape, u, x.data(), step, scratch.data());
  r.h_gradient = Normal(5, values);
  r.c_gradient = Normal(6, values);
  r.table_gradient = Normal(7, table);
  r.weights_gradient = Normal(8, weights);
  backward(shape, u, step,
           {r.h_gradient.data(), r.c_gradient.data(), r.table_gradient.data(),
            r.weights_gradient.data()},
           scratch.data());

  // The gates themselves are for the backward pass only.
  StepResults unkept(values);
  step.gates = nullptr;
  step.c = unkept.c.data();
  step.h = unkept.h.data();
  forward(shape, u, x.data(), step, scratch.data());
  ExpectSameBits(unkept.c, r.c);
  ExpectSameBits(unkept.h, r.h);
  return r;
}

// Rows below, at and above one and two tiles of a product: 6 rows, or 12.
TEST(LstmStep, EqualsDefinitionOnEveryTarget) {
  std::vector<LstmShape> shapes = {{19, 64}};
  for (size_t rows = 1; rows <= 25; ++rows) shapes.push_back({rows, 32});
  for (const LstmShape& shape : shapes) {
    for (const bool first : {false, true}) {
      SCOPED_TRACE(testing::Message() << shape.rows << " rows, " << shape.units
                                      << " units, first " << first);
      const StepResults plain =
          All(shape, first, ref::LstmForward, ref::LstmBackward);
      ForEachTarget([&] {
        const StepResults vector = All(shape, first, LstmForward, LstmBackward);
        ExpectClose(vector.gates, plain.gates, 2e-6);
        ExpectClose(vector.c, plain.c, 2e-6);
        ExpectClose(vector.h, plain.h, 2e-6);
        ExpectClose(vector.h_gradient, plain.h_gradient, 5e-6);
        ExpectClose(vector.c_gradient, plain.c_gradient, 5e-6);
        ExpectClose(vector.table_gradient, plain.table_gradient, 5e-6);
        ExpectClose(vector.weights_gradient, plain.weights_gradient, 5e-6);
      });
    }
  }
}

// Units without a past have h = sigmoid(z) tanh(sigmoid(z) tanh(z)), where
// every gate has the same z. Tiny values must keep their digits, large ones
// must not overflow.
TEST(LstmStep, KeepsRelativeAccuracy) {
  const LstmShape shape{1, kPanel};
  std::vector<float> weights(kLstmGates * kPanel * kPanel);
  const LstmWeights packed{weights.data(), weights.data()};
  const int32_t token = 0;
  for (const float z : {1e-30f, -1e-8f, 1e-4f, -0.03f, 0.5f, -1.7f, 3.9f, -6.0f,
                        7.89f, 7.91f, 9.5f, 30.0f, 1e30f}) {
    const std::vector<float> table(kLstmGates * kPanel, z);
    const double gate = 1 / (1 + std::exp(-double{z}));
    const double c = gate * std::tanh(double{z});
    ForEachTarget([&] {
      StepResults r(kPanel);
      std::vector<float> scratch(LstmScratchFloats(shape), NAN);
      LstmForward(
          shape, packed, table.data(),
          {&token, nullptr, nullptr, r.gates.data(), r.c.data(), r.h.data()},
          scratch.data());
      // A gate near 0 is as accurate as 1 minus it.
      EXPECT_NEAR(r.gates[0], gate, 4e-7) << z;
      const double slack = 1e-6 + 4e-7 / gate;
      EXPECT_NEAR(r.c.back() / c, 1, slack) << z;
      EXPECT_NEAR(r.h.back() / (gate * std::tanh(c)), 1, 2 * slack) << z;
    });
  }
}

}  // namespace
}  // namespace fedmrn::train
