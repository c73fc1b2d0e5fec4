// FedSparsify (Stripelis et al.) at a constant upload, as the paper compares
// it: the local model itself is pruned by magnitude while it is trained, and
// what is left of it travels. The share of zeros rises in ten stages (epochs,
// in the paper's setting) by the authors' cubic rule, s_t = s * (1 - (1 -
// t)^3), and reaches s = 1 - keep at the end. The codec (topk) then sends all
// that is not zero.
#include <algorithm>
#include <cmath>
#include <functional>

#include "fedmrn/train/method/method.h"

namespace fedmrn::train {
namespace {

constexpr uint64_t kStages = 10;

// Marks all but the `kept` largest |w|, over all tensors together; of equals at
// the threshold all stay.
void MarkPruned(std::span<const float> w, size_t kept,
                std::vector<float>& magnitudes, std::vector<uint8_t>& pruned) {
  if (kept >= w.size()) {
    std::fill(pruned.begin(), pruned.end(), uint8_t{0});
    return;
  }
  magnitudes.resize(w.size());
  for (size_t i = 0; i < w.size(); ++i) magnitudes[i] = std::fabs(w[i]);
  const auto threshold = magnitudes.begin() + static_cast<ptrdiff_t>(kept);
  std::nth_element(magnitudes.begin(), threshold - 1, magnitudes.end(),
                   std::greater<>());
  for (size_t i = 0; i < w.size(); ++i) {
    pruned[i] = std::fabs(w[i]) < *(threshold - 1);
  }
}

}  // namespace

bool TrainFedSparsify(const ClientWork& work, LocalModel& local) {
  std::vector<float>& w = local.update;  // the model itself travels
  w.assign(work.weights.begin(), work.weights.end());
  const auto kept_at = [&](double progress) {
    const double left = std::pow(1 - progress, 3);
    const double density = 1 - (1 - work.method.codec.keep) * (1 - left);
    const auto kept = std::llround(density * static_cast<double>(w.size()));
    return std::max<size_t>(1, static_cast<size_t>(kept));
  };
  std::vector<uint8_t> pruned(w.size());
  const auto prune = [&] {
    for (size_t i = 0; i < w.size(); ++i) w[i] = pruned[i] ? 0.0f : w[i];
  };
  const bool done = ForEachBatch(work, [&](uint32_t step, uint32_t total_steps,
                                           std::span<const uint32_t> examples) {
    const auto stage_of = [&](uint64_t steps) {
      return steps * kStages / total_steps;
    };
    const uint64_t stage = stage_of(step - 1);
    if (step == 1 || stage != stage_of(step - 2)) {
      MarkPruned(w, kept_at(static_cast<double>(stage) / kStages),
                 local.trained, pruned);
      prune();
    }
    work.learner.Gradient(examples, BatchDraws(work, step), w, local.plain,
                          local.coded_gradient, local.plain_gradient);
    ShapeGradients(work, w, work.weights, local);
    Direction(work.train, w, local.coded_velocity, local.coded_gradient);
    SgdStep(work.train.lr, local.coded_gradient, w);
    prune();
    StepPlain(work, local);
  });
  MarkPruned(w, kept_at(1), local.trained, pruned);
  prune();
  return done;
}

// The mean of the pruned models, zeros included.
void ReplaceByMean(const ServerWork& work, std::span<float> model) {
  std::copy(work.mean.begin(), work.mean.end(), model.begin());
}

}  // namespace fedmrn::train
