// FedPM (Isik et al., ICLR 2023): the network's weights are random signs times
// a constant, frozen for ever; what is learned are scores s, and weight i is
// present with probability theta = sigmoid(s). A client trains the scores and
// uploads one draw of the mask; the server's posterior mean of theta, turned
// back into scores, is the new model. So the model is a seed and scores.
//
// Its authors have no batch norm; here its values are trained by SGD and
// averaged, as for all methods.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "fedmrn/core/draws.h"
#include "fedmrn/core/noise.h"
#include "fedmrn/core/random.h"
#include "fedmrn/train/method/method.h"

namespace fedmrn::train {
namespace {

// Masks count as 0.01 and 0.99: without it a score would be infinite wherever
// all clients agree.
constexpr double kEpsilon = 0.01;

float Sigmoid(float s) { return 1 / (1 + std::exp(-s)); }

// +-c with c = e / sqrt(fan_in) of each tensor, signs from the model's seed.
void FrozenWeights(const ModelLayout& layout, uint64_t model_seed,
                   std::span<float> weights) {
  NoiseValues({NoiseKind::kBernoulli, 1.0f, model_seed}, 0, weights);
  size_t first = 0;
  for (const TensorLayout& tensor : layout.tensors) {
    if (!tensor.coded) continue;
    const double fan_in =
        static_cast<double>(tensor.size()) / tensor.shape.at(0);
    const auto c = static_cast<float>(std::numbers::e / std::sqrt(fan_in));
    for (float& w : weights.subspan(first, tensor.size())) w *= c;
    first += tensor.size();
  }
}

// The moments in `state` are the client's, from round to round.
void AdamStep(float lr, std::span<const float> gradient,
              std::vector<float>& state, std::span<float> values) {
  const AdamMoments adam = UpdateAdam(gradient, state);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] -=
        lr * (adam.first[i] / adam.first_correction) /
        (std::sqrt(adam.second[i] / adam.second_correction) + kAdamEpsilon);
  }
}

}  // namespace

bool TrainFedPm(const ClientWork& work, LocalModel& local) {
  const size_t count = work.weights.size();
  std::vector<float> weights(count), scores(count);
  FrozenWeights(work.task.model.layout, work.model_seed, weights);
  scores.assign(work.weights.begin(), work.weights.end());
  std::vector<float>& theta = local.update;
  std::vector<float>& effective = local.trained;
  theta.resize(count);
  effective.resize(count);
  const auto present = [&] {
    for (size_t i = 0; i < count; ++i) theta[i] = Sigmoid(scores[i]);
  };
  present();
  return ForEachBatch(work, [&](uint32_t step, uint32_t,
                                std::span<const uint32_t> examples) {
    DrawReader draws({work.draw_seed, Purpose::kStep, step});
    for (size_t i = 0; i < count; ++i) {
      effective[i] = UniformFromWord(draws.Next()) < theta[i] ? weights[i] : 0;
    }
    work.learner.Gradient(examples, BatchDraws(work, step), effective,
                          local.plain, local.coded_gradient,
                          local.plain_gradient);
    // Through the draw the authors' code passes the gradient times theta, then
    // through the sigmoid.
    for (size_t i = 0; i < count; ++i) {
      local.coded_gradient[i] *=
          weights[i] * theta[i] * theta[i] * (1 - theta[i]);
    }
    if (work.method.adam) {
      AdamStep(work.train.lr, local.coded_gradient, work.state, scores);
    } else {
      SgdDirection(work.train, scores, local.coded_velocity,
                   local.coded_gradient);
      SgdStep(work.train.lr, local.coded_gradient, scores);
    }
    present();
    StepPlain(work, local);
  });
}

void FedPmScores(uint64_t model_seed, std::span<float> model) {
  // Tensors take the first streams of this purpose; this one is nobody's.
  Random random({model_seed, Purpose::kInit, 0xFFFFFFFF});
  for (float& score : model) score = static_cast<float>(random.Normal());
}

// The mode of Beta(alpha, beta), which start at 1 and count the masks since the
// last reset: the mean over these rounds, each counting the same. The mean of
// the rounds before is what the scores stand for.
void FedPmAggregate(const ServerWork& work, std::span<float> model) {
  const uint32_t before = (work.round - 1) % work.method.reset_every;
  for (size_t i = 0; i < model.size(); ++i) {
    const double mean = std::lerp(kEpsilon, 1 - kEpsilon, work.mean[i]);
    const double old = before == 0 ? 0 : 1 / (1 + std::exp(-double{model[i]}));
    const double theta = (before * old + mean) / (before + 1);
    model[i] = static_cast<float>(std::log(theta / (1 - theta)));
  }
}

// One draw of the mask: a network that can be deployed.
void FedPmNetwork(const ModelLayout& layout, uint64_t model_seed,
                  uint32_t round, std::span<float> model) {
  std::vector<float> weights(model.size());
  FrozenWeights(layout, model_seed, weights);
  DrawReader draws({model_seed, Purpose::kEncode, round});
  for (size_t i = 0; i < model.size(); ++i) {
    const bool present = UniformFromWord(draws.Next()) < Sigmoid(model[i]);
    model[i] = present ? weights[i] : 0;
  }
}

}  // namespace fedmrn::train
