// The paper's network for Shakespeare: an embedding of characters, one LSTM
// layer (see lstm_step.h) and, on its last output, dropout and a linear layer
// that names the next character; no biases. Forward and backward over flat
// buffers, without an autograd graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fedmrn/core/layout.h"
#include "fedmrn/core/philox.h"
#include "fedmrn/train/kernels/buffer.h"
#include "fedmrn/train/kernels/lstm_step.h"
#include "fedmrn/train/model/loss.h"

namespace fedmrn::train {

// Not thread-safe: one per worker. Parameters belong to the caller, as two
// flat buffers in the order of layout(): `coded`, the weights of the LSTM (as
// PyTorch's nn.LSTM has them) and of the linear layer; `plain`, the embedding.
class CharLstm {
 public:
  static constexpr size_t kEmbedding = 8;
  static constexpr size_t kUnits = 256;
  static constexpr float kDropout = 0.5f;

  // Tokens below `vocabulary`, `length` of them in a text.
  CharLstm(uint32_t vocabulary, uint32_t length, uint32_t classes);

  const ModelLayout& layout() const { return layout_; }
  // Multiply-adds of one text's forward pass, and of the backward pass.
  uint64_t ForwardMacs() const;
  uint64_t BackwardMacs() const;

  // N(0, 0.01^2).
  void Initialize(uint64_t seed, std::span<float> coded,
                  std::span<float> plain) const;

  // Mean cross-entropy of a batch of texts, one after the other, and its
  // gradients. `draws` says which outputs drop out.
  BatchScore Gradient(std::span<const int32_t> tokens,
                      std::span<const int32_t> labels,
                      const PhiloxStream& draws, std::span<const float> coded,
                      std::span<const float> plain,
                      std::span<float> coded_gradient,
                      std::span<float> plain_gradient);

  // Without dropout. They stay valid until the next call.
  std::span<const float> Logits(std::span<const int32_t> tokens,
                                std::span<const float> coded,
                                std::span<const float> plain);

 private:
  LstmShape ShapeOf(size_t tokens) const;
  LstmWeights Weights() const;
  LstmStep Step(const LstmShape& shape, size_t t, bool keep) const;
  // The last outputs, [row][unit]. With `keep`, every step's values stay, for
  // the backward pass.
  const float* Forward(const LstmShape& shape, std::span<const int32_t> tokens,
                       std::span<const float> coded,
                       std::span<const float> plain, bool keep);

  size_t vocabulary_, length_, classes_;
  ModelLayout layout_;

  std::vector<int32_t> tokens_;  // [step][row]
  // What lstm_step.h calls by these names; the first three of every step.
  Buffer gates_, c_, h_, h_gradient_, c_gradient_, scratch_;
  Buffer table_, table_gradient_;
  Buffer forward_weights_, backward_weights_, weights_gradient_;
  Buffer input_weights_;  // [panel][gate][16][embedding]; then its gradient
  Buffer kept_;           // of each last output: 0, or 1 / (1 - kDropout)
  Buffer last_;           // the last outputs after dropout; then their gradient
  Buffer logits_;
};

}  // namespace fedmrn::train
