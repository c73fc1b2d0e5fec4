#include "fedmrn/train/model/char_lstm.h"

#include <algorithm>

#include "fedmrn/base/check.h"
#include "fedmrn/core/draws.h"
#include "fedmrn/core/random.h"
#include "fedmrn/train/kernels/matrix_product.h"
#include "fedmrn/train/model/loss.h"

namespace fedmrn::train {
namespace {

constexpr size_t kEmbedding = CharLstm::kEmbedding;
constexpr size_t kUnits = CharLstm::kUnits;
constexpr size_t kWidth = kLstmGates * kUnits;

// Places in `coded`.
constexpr size_t kInputWeights = 0;
constexpr size_t kWeights = kWidth * kEmbedding;
constexpr size_t kLinear = kWeights + kWidth * kUnits;

}  // namespace

CharLstm::CharLstm(uint32_t vocabulary, uint32_t length, uint32_t classes)
    : vocabulary_(vocabulary), length_(length), classes_(classes) {
  FEDMRN_CHECK(vocabulary > 0 && length > 0 && classes > 0);
  layout_.tensors = {
      {"embedding.weight", {vocabulary, kEmbedding}, false},
      {"lstm.weight_ih_l0", {kWidth, kEmbedding}, true},
      {"lstm.weight_hh_l0", {kWidth, kUnits}, true},
      {"fc.weight", {classes, kUnits}, true},
  };
}

uint64_t CharLstm::ForwardMacs() const {
  // The table's rows need no products, the first step has nothing before it.
  return (length_ - 1) * kWidth * kUnits + kUnits * classes_;
}

uint64_t CharLstm::BackwardMacs() const { return 2 * ForwardMacs(); }

void CharLstm::Initialize(uint64_t seed, std::span<float> coded,
                          std::span<float> plain) const {
  for (uint32_t i = 0; i < layout_.tensors.size(); ++i) {
    const TensorLayout& tensor = layout_.tensors[i];
    std::span<float>& rest = tensor.coded ? coded : plain;
    Random random({seed, Purpose::kInit, i});
    for (float& w : rest.first(tensor.size())) {
      w = static_cast<float>(0.01 * random.Normal());
    }
    rest = rest.subspan(tensor.size());
  }
}

LstmShape CharLstm::ShapeOf(size_t tokens) const {
  FEDMRN_CHECK(tokens > 0 && tokens % length_ == 0);
  return {tokens / length_, kUnits};
}

LstmWeights CharLstm::Weights() const {
  return {forward_weights_.get(), backward_weights_.get()};
}

LstmStep CharLstm::Step(const LstmShape& shape, size_t t, bool keep) const {
  const size_t values = shape.rows * kUnits;
  // Without keeping, a step and the one before take turns.
  const auto place = [&](size_t step) { return keep ? step : step % 2; };
  return {tokens_.data() + t * shape.rows,
          t > 0 ? h_.get() + place(t - 1) * values : nullptr,
          t > 0 ? c_.get() + place(t - 1) * values : nullptr,
          keep ? gates_.get() + t * values * kLstmGates : nullptr,
          c_.get() + place(t) * values,
          h_.get() + place(t) * values};
}

const float* CharLstm::Forward(const LstmShape& shape,
                               std::span<const int32_t> tokens,
                               std::span<const float> coded,
                               std::span<const float> plain, bool keep) {
  const size_t values = shape.rows * kUnits;
  const size_t steps = keep ? length_ : 2;
  if (keep) gates_.Need(steps * values * kLstmGates);
  c_.Need(steps * values);
  h_.Need(steps * values);
  float* const scratch = scratch_.Need(LstmScratchFloats(shape));
  forward_weights_.Need(kWidth * kUnits);
  backward_weights_.Need(kWidth * kUnits);

  tokens_.resize(tokens.size());
  for (size_t row = 0; row < shape.rows; ++row) {
    for (size_t t = 0; t < length_; ++t) {
      const int32_t token = tokens[row * length_ + t];
      FEDMRN_CHECK(token >= 0 && static_cast<size_t>(token) < vocabulary_);
      tokens_[t * shape.rows + row] = token;
    }
  }
  float* const input_weights = input_weights_.Need(kWidth * kEmbedding);
  for (size_t j = 0; j < kWidth; ++j) {
    std::copy_n(&coded[kInputWeights + LstmWeightRow(kUnits, j) * kEmbedding],
                kEmbedding, input_weights + j * kEmbedding);
  }
  MatrixProduct('N', 'T', vocabulary_, kWidth, kEmbedding, plain.data(),
                input_weights, table_.Need(vocabulary_ * kWidth));
  PackLstmWeights(kUnits, &coded[kWeights], Weights());
  for (size_t t = 0; t < length_; ++t) {
    LstmForward(shape, Weights(), table_.get(), Step(shape, t, keep), scratch);
  }
  return Step(shape, length_ - 1, keep).h;
}

BatchScore CharLstm::Gradient(std::span<const int32_t> tokens,
                              std::span<const int32_t> labels,
                              const PhiloxStream& draws,
                              std::span<const float> coded,
                              std::span<const float> plain,
                              std::span<float> coded_gradient,
                              std::span<float> plain_gradient) {
  const LstmShape shape = ShapeOf(tokens.size());
  FEDMRN_CHECK(labels.size() == shape.rows);
  const size_t values = shape.rows * kUnits;
  const float* const h = Forward(shape, tokens, coded, plain, true);

  float* const kept = kept_.Need(values);
  float* const last = last_.Need(values);
  DrawReader words(draws);
  for (size_t i = 0; i < values; ++i) {
    const bool drops = UniformFromWord(words.Next()) < kDropout;
    kept[i] = drops ? 0 : 1 / (1 - kDropout);
    last[i] = kept[i] * h[i];
  }
  const std::span logits(logits_.Need(shape.rows * classes_),
                         shape.rows * classes_);
  MatrixProduct('N', 'T', shape.rows, classes_, kUnits, last, &coded[kLinear],
                logits.data());
  const BatchScore score = CrossEntropy(logits, labels, logits.data());

  MatrixProduct('T', 'N', classes_, kUnits, shape.rows, logits.data(), last,
                &coded_gradient[kLinear]);
  MatrixProduct('N', 'N', shape.rows, kUnits, classes_, logits.data(),
                &coded[kLinear], last);
  const LstmGradients gradients{h_gradient_.Need(values),
                                c_gradient_.Need(values),
                                table_gradient_.Need(vocabulary_ * kWidth),
                                weights_gradient_.Need(kWidth * kUnits)};
  for (size_t unit = 0; unit < kUnits; ++unit) {
    for (size_t row = 0; row < shape.rows; ++row) {
      const size_t from = row * kUnits + unit;
      gradients.h[(unit / kPanel * shape.rows + row) * kPanel + unit % kPanel] =
          last[from] * kept[from];
    }
  }
  std::fill_n(gradients.c, values, 0.0f);
  std::fill_n(gradients.table, vocabulary_ * kWidth, 0.0f);
  std::fill_n(gradients.weights, kWidth * kUnits, 0.0f);
  for (size_t t = length_; t-- > 0;) {
    LstmBackward(shape, Weights(), Step(shape, t, true), gradients,
                 scratch_.get());
  }

  UnpackLstmGradient(kUnits, gradients.weights, &coded_gradient[kWeights]);
  float* const input_weights = input_weights_.get();
  MatrixProduct('N', 'N', vocabulary_, kEmbedding, kWidth, gradients.table,
                input_weights, plain_gradient.data());
  MatrixProduct('T', 'N', kWidth, kEmbedding, vocabulary_, gradients.table,
                plain.data(), input_weights);
  for (size_t j = 0; j < kWidth; ++j) {
    std::copy_n(
        input_weights + j * kEmbedding, kEmbedding,
        &coded_gradient[kInputWeights + LstmWeightRow(kUnits, j) * kEmbedding]);
  }
  return score;
}

std::span<const float> CharLstm::Logits(std::span<const int32_t> tokens,
                                        std::span<const float> coded,
                                        std::span<const float> plain) {
  const LstmShape shape = ShapeOf(tokens.size());
  const float* const h = Forward(shape, tokens, coded, plain, false);
  const size_t size = shape.rows * classes_;
  MatrixProduct('N', 'T', shape.rows, classes_, kUnits, h, &coded[kLinear],
                logits_.Need(size));
  return {logits_.get(), size};
}

}  // namespace fedmrn::train
