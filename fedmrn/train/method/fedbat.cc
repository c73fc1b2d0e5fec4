// FedBAT (Li et al., ICML 2024), learned binarisation: beside frozen global
// weights w a client trains an update u and, per tensor, the scale alpha of its
// binary stand-in B(u) = +-alpha, which replaces u in the forward pass after a
// warm-up. What travels is a sign per parameter and alpha per tensor.
//
//   alpha = clamp(alpha_0 * exp(rho * a), 5e-4, 5e-2),  a learned from 0 on
//   B(u)  = alpha * s,  P(s = +1) = clip((u/alpha + 1) / 2, 0, 1)
#include <algorithm>
#include <cmath>

#include "fedmrn/core/draws.h"
#include "fedmrn/train/method/method.h"

namespace fedmrn::train {
namespace {

constexpr double kRho = 6, kMinAlpha = 5e-4, kMaxAlpha = 5e-2;
constexpr double kWarmUp = 0.5;  // phi: the share of full-precision steps

struct Scale {
  double alpha_0 = 0, a = 0;

  double unclamped() const { return alpha_0 * std::exp(kRho * a); }
  float alpha() const {
    return static_cast<float>(std::clamp(unclamped(), kMinAlpha, kMaxAlpha));
  }
};

float MeanMagnitude(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += std::fabs(value);
  return static_cast<float>(sum / static_cast<double>(values.size()));
}

// From the gradient of the effective weights to that of u, in place; returns
// the gradient of alpha. `binary` holds B(u).
double Backward(std::span<const float> u, std::span<const float> binary,
                float alpha, std::span<float> gradient) {
  double of_alpha = 0;
  for (size_t i = 0; i < u.size(); ++i) {
    const float ratio = u[i] / alpha, g = gradient[i];
    const bool inside = std::fabs(ratio) <= 1;
    const float slope =
        inside ? binary[i] / alpha - ratio : std::copysign(1.0f, ratio);
    of_alpha += double{g} * double{slope};
    gradient[i] = inside ? g : 0;
  }
  return of_alpha;
}

}  // namespace

bool TrainFedBat(const ClientWork& work, LocalModel& local) {
  const std::vector<uint32_t> tensors = work.task.model.layout.segments();
  std::vector<float>& u = local.update;
  std::vector<float>& effective = local.trained;
  std::vector<float> binary(work.weights.size());
  u.assign(work.weights.size(), 0.0f);
  effective.assign(work.weights.begin(), work.weights.end());
  std::vector<Scale> scales(tensors.size());
  const auto for_each_tensor = [&](const auto& visit) {
    size_t first = 0;
    for (size_t t = 0; t < tensors.size(); ++t) {
      visit(first, tensors[t], scales[t]);
      first += tensors[t];
    }
  };
  bool binarised = false;

  const bool done = ForEachBatch(work, [&](uint32_t step, uint32_t total_steps,
                                           std::span<const uint32_t> examples) {
    const bool warm_up = step <= kWarmUp * total_steps;
    if (!warm_up) {
      if (!binarised) {
        for_each_tensor([&](size_t first, size_t count, Scale& scale) {
          scale.alpha_0 = MeanMagnitude(std::span(u).subspan(first, count));
        });
        binarised = true;
      }
      DrawReader draws({work.draw_seed, Purpose::kStep, step});
      for_each_tensor([&](size_t first, size_t count, Scale& scale) {
        const float alpha = scale.alpha();
        for (size_t i = first; i < first + count; ++i) {
          const bool up = CentredFromWord(draws.Next()) * alpha < u[i];
          binary[i] = up ? alpha : -alpha;
          effective[i] = work.weights[i] + binary[i];
        }
      });
    }
    work.learner.Gradient(examples, BatchDraws(work, step), effective,
                          local.plain, local.coded_gradient,
                          local.plain_gradient);
    if (!warm_up) {
      for_each_tensor([&](size_t first, size_t count, Scale& scale) {
        const double of_alpha =
            Backward(std::span(u).subspan(first, count),
                     std::span(binary).subspan(first, count), scale.alpha(),
                     std::span(local.coded_gradient).subspan(first, count));
        const double alpha = scale.unclamped();
        if (alpha >= kMinAlpha && alpha <= kMaxAlpha) {
          scale.a -= double{work.train.lr} * of_alpha * kRho * alpha;
        }
      });
    }
    SgdDirection(work.train, u, local.coded_velocity, local.coded_gradient);
    SgdStep(work.train.lr, local.coded_gradient, u);
    if (warm_up) {
      for (size_t i = 0; i < u.size(); ++i) {
        effective[i] = work.weights[i] + u[i];
      }
    }
    StepPlain(work, local);
  });
  local.scales.clear();
  for_each_tensor([&](size_t first, size_t count, Scale& scale) {
    if (!binarised) {  // a single local step
      scale.alpha_0 = MeanMagnitude(std::span(u).subspan(first, count));
    }
    local.scales.push_back(scale.alpha());
  });
  return done;
}

}  // namespace fedmrn::train
