// Steps of local training: what becomes of a gradient.
#include <cmath>

#include "fedmrn/train/method/method.h"

namespace fedmrn::train {
namespace {

// gradient += mu * (values - start): of mu/2 times the squared distance.
void PullBack(float mu, std::span<const float> values,
              std::span<const float> start, std::span<float> gradient) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] += mu * (start.empty() ? values[i] : values[i] - start[i]);
  }
}

double SquaredNorm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return sum;
}

}  // namespace

void ShapeGradients(const ClientWork& work, std::span<const float> values,
                    std::span<const float> start, LocalModel& local) {
  const TrainSettings& train = work.train;
  if (train.prox_mu > 0) {
    PullBack(train.prox_mu, values, start, local.coded_gradient);
    PullBack(train.prox_mu, local.plain, work.plain, local.plain_gradient);
  }
  ClipGradient(train, local.coded_gradient, local.plain_gradient);
}

void ClipGradient(const TrainSettings& train, std::span<float> coded,
                  std::span<float> plain) {
  if (train.clip_grad <= 0) return;
  const double norm = std::sqrt(SquaredNorm(coded) + SquaredNorm(plain));
  // As PyTorch's clip_grad_norm_.
  const auto factor =
      static_cast<float>(double{train.clip_grad} / (norm + 1e-6));
  if (factor >= 1) return;
  for (float& g : coded) g *= factor;
  for (float& g : plain) g *= factor;
}

void Direction(const TrainSettings& train, std::span<const float> values,
               std::vector<float>& velocity, std::span<float> gradient) {
  if (train.optimizer == LocalOptimizer::kSgd) {
    SgdDirection(train, values, velocity, gradient);
    return;
  }
  const float decay = train.weight_decay;
  const bool apart = train.optimizer == LocalOptimizer::kAdamW;
  if (decay != 0 && !apart) {
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] += decay * values[i];
    }
  }
  const AdamMoments adam = UpdateAdam(gradient, velocity);
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] =
        adam.first[i] / adam.first_correction /
        (std::sqrt(adam.second[i] / adam.second_correction) + kAdamEpsilon);
    if (apart) gradient[i] += decay * values[i];
  }
}

AdamMoments UpdateAdam(std::span<const float> gradient,
                       std::vector<float>& state) {
  const size_t count = gradient.size();
  state.resize(2 * count + 1);
  float* m = state.data();
  float* v = m + count;
  const double t = ++v[count];
  for (size_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    m[i] = 0.9f * m[i] + 0.1f * g;
    v[i] = 0.999f * v[i] + 0.001f * g * g;
  }
  return {{m, count},
          {v, count},
          static_cast<float>(1 - std::pow(0.9, t)),
          static_cast<float>(1 - std::pow(0.999, t))};
}

void SgdDirection(const TrainSettings& train, std::span<const float> values,
                  std::vector<float>& velocity, std::span<float> gradient) {
  if (train.weight_decay != 0) {
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] += train.weight_decay * values[i];
    }
  }
  if (train.momentum == 0) return;
  if (velocity.empty()) {  // PyTorch's first step: the gradient itself
    velocity.assign(gradient.begin(), gradient.end());
    return;
  }
  for (size_t i = 0; i < gradient.size(); ++i) {
    velocity[i] = train.momentum * velocity[i] + gradient[i];
    gradient[i] = velocity[i];
  }
}

void SgdStep(float lr, std::span<const float> gradient,
             std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) values[i] -= lr * gradient[i];
}

void StepPlain(const ClientWork& work, LocalModel& local) {
  const std::span plain =
      std::span(local.plain).first(work.task.model.trainable_plain);
  Direction(work.train, plain, local.plain_velocity, local.plain_gradient);
  SgdStep(work.train.lr, local.plain_gradient, plain);
}

}  // namespace fedmrn::train
