// A network: softmax regression, one linear layer on numbers of any shape. Its
// weights are compressed, its biases travel as they are.
#include <numeric>

#include "fedmrn/core/random.h"
#include "mine.h"

namespace mine {
namespace {

class Softmax final : public train::Network {
 public:
  Softmax(size_t inputs, size_t classes) : inputs_(inputs), classes_(classes) {}

  train::BatchScore Gradient(const train::Batch& batch, const PhiloxStream&,
                             std::span<const float> weights,
                             std::span<float> biases,
                             std::span<float> weight_gradient,
                             std::span<float> bias_gradient) override {
    Scores(batch, weights, biases);
    // The scores' memory receives their gradient.
    const train::BatchScore score =
        train::CrossEntropy(scores_, batch.labels, scores_.data());
    std::ranges::fill(weight_gradient, 0.0f);
    std::ranges::fill(bias_gradient, 0.0f);
    for (size_t i = 0; i < batch.examples; ++i) {
      for (size_t c = 0; c < classes_; ++c) {
        const float slope = scores_[i * classes_ + c];
        bias_gradient[c] += slope;
        for (size_t k = 0; k < inputs_; ++k) {
          weight_gradient[c * inputs_ + k] += slope * batch.x[i * inputs_ + k];
        }
      }
    }
    return score;
  }

  train::Score Evaluate(const train::Batch& batch,
                        std::span<const float> weights,
                        std::span<const float> biases) override {
    Scores(batch, weights, biases);
    return train::CrossEntropy(scores_, batch.labels);
  }

 private:
  void Scores(const train::Batch& batch, std::span<const float> weights,
              std::span<const float> biases) {
    scores_.resize(batch.examples * classes_);
    for (size_t i = 0; i < batch.examples; ++i) {
      const auto x = batch.x.begin() + static_cast<ptrdiff_t>(i * inputs_);
      for (size_t c = 0; c < classes_; ++c) {
        scores_[i * classes_ + c] =
            std::inner_product(x, x + static_cast<ptrdiff_t>(inputs_),
                               &weights[c * inputs_], biases[c]);
      }
    }
  }

  size_t inputs_, classes_;
  std::vector<float> scores_;
};

}  // namespace

Result<train::Model> MakeSoftmax(const train::ModelSettings& settings,
                                 const train::Data& data) {
  if (data.input != train::Input::kNumbers ||
      data.target != train::Target::kClass) {
    return Error{ErrorCode::kBadValue, settings.name + " cannot learn " +
                                           data.name +
                                           ": it classifies numbers"};
  }
  const auto inputs = static_cast<uint32_t>(std::accumulate(
      data.shape.begin(), data.shape.end(), int64_t{1}, std::multiplies<>()));
  const uint32_t classes = data.classes;
  train::Model model;
  model.layout.tensors = {{"linear.weight", {classes, inputs}, true},
                          {"linear.bias", {classes}, false}};
  model.trainable_plain = classes;
  model.initialize = [](uint64_t seed, std::span<float> weights,
                        std::span<float> biases) {
    Random random({seed, Purpose::kInit});
    for (float& w : weights) w = static_cast<float>(0.01 * random.Normal());
    std::ranges::fill(biases, 0.0f);
  };
  model.make_network = [inputs, classes] {
    return std::make_unique<Softmax>(inputs, classes);
  };
  model.torchscript = [layout = model.layout, classes](
                          std::span<const float> weights,
                          std::span<const float> biases) {
    return train::MakeTorchScript(
        train::TensorsOf(layout, classes, weights, biases),
        "def forward(self, x):\n"
        "    return torch.mm(x.flatten(1), self.linear.weight.t()) + "
        "self.linear.bias\n");
  };
  return model;
}

}  // namespace mine
