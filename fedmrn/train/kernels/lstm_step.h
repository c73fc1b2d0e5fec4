// One time step of an LSTM layer without biases (Hochreiter and Schmidhuber;
// forget gate of Gers et al.), forward and backward:
//
//   z = x W + h' U
//   i, f, o = sigmoid(z_i, z_f, z_o)
//   g = tanh(z_g)
//   c = f c' + i g
//   h = o tanh(c)
//
// where h' and c' are the step before's, and the gates stand in PyTorch's
// order: i f g o. Inputs are tokens: x W is a row of a table, so it costs no
// product.
//
// Units come in panels of 16. Of a batch of `rows` texts there are
//   gates (i f g o) [panel][gate][row][16];
//   c and the gradients of c and h, [panel][row][16];
//   h [row][unit];
//   the table and its gradient [token][panel][gate][16].
//
// Plain loops over the definition stand in fedmrn::ref.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fedmrn/train/kernels/panel_product.h"

namespace fedmrn::train {

inline constexpr size_t kLstmGates = 4;

struct LstmShape {
  size_t rows, units;  // units: a multiple of kPanel
};

// Which row of PyTorch's weights, [gate][unit], stands at place `packed` of
// [panel][gate][16].
inline size_t LstmWeightRow(size_t units, size_t packed) {
  const size_t panel = packed / (kLstmGates * kPanel);
  const size_t gate = packed / kPanel % kLstmGates;
  return gate * units + panel * kPanel + packed % kPanel;
}

// U, from PyTorch's weight_hh: [4 * units][units]. Both have as many floats.
struct LstmWeights {
  float* forward;   // [panel][gate][unit before][16]
  float* backward;  // [panel of units before][panel][gate][16][16]
};
void PackLstmWeights(size_t units, const float* weights,
                     const LstmWeights& packed);
// The way back, of a gradient that is laid out as LstmWeights::forward.
void UnpackLstmGradient(size_t units, const float* packed, float* gradient);

// Floats of scratch memory for either function below.
size_t LstmScratchFloats(const LstmShape& shape);

// One step's values.
struct LstmStep {
  const int32_t* tokens;  // one per row
  const float* h_before;  // null in the first step, where both are 0
  const float* c_before;
  float* gates;  // null: nobody needs them, there is no backward pass
  float* c;
  float* h;
};

// Fills in gates, c and h.
void LstmForward(const LstmShape& shape, const LstmWeights& weights,
                 const float* table, const LstmStep& step, float* scratch);

struct LstmGradients {
  float* h;        // of this step's, then of the step before's
  float* c;        // the same; 0 in the last step
  float* table;    // added to
  float* weights;  // added to; as LstmWeights::forward
};

// The first step leaves h alone.
void LstmBackward(const LstmShape& shape, const LstmWeights& weights,
                  const LstmStep& step, const LstmGradients& gradients,
                  float* scratch);

namespace ref {

void LstmForward(const LstmShape& shape, const LstmWeights& weights,
                 const float* table, const LstmStep& step, float* scratch);
void LstmBackward(const LstmShape& shape, const LstmWeights& weights,
                  const LstmStep& step, const LstmGradients& gradients,
                  float* scratch);

}  // namespace ref
}  // namespace fedmrn::train
