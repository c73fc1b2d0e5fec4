#include "fedmrn/theory/masking.h"

#include <algorithm>
#include <cmath>

#include "fedmrn/core/random.h"

namespace fedmrn::theory {
namespace {

double SquaredDistance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = double{a[i]} - double{b[i]};
    sum += difference * difference;
  }
  return sum;
}

// One x for all steps: coordinates uniform within half the noise, as far as
// updates of S steps can come (|u| <= eta_0 S G, the noise is twice that).
MaskingError MeasureFixedVector(uint64_t seed, uint32_t steps,
                                double& q_exact) {
  constexpr size_t kParams = 4096;
  constexpr float kMagnitude = 1;
  const uint32_t draws = std::max(1u, 128 / steps);
  Random random({seed, Purpose::kSynthetic, 1u << 30});
  std::vector<float> x(kParams);
  double squares = 0;
  for (float& value : x) {
    value = static_cast<float>(random.Uniform() - 0.5);
    squares += double{value} * value;
  }
  q_exact = std::sqrt(kParams * kMagnitude * kMagnitude / squares - 1);
  MaskingErrorSums sums(steps);
  for (uint32_t draw = 0; draw < draws; ++draw) {
    const Masking masking{MaskKind::kSigned,
                          true,
                          true,
                          {NoiseKind::kBernoulli, kMagnitude, random.Word64()},
                          random.Word64()};
    for (uint32_t step = 1; step <= steps; ++step) {
      sums.AddStep(masking, {step, steps, 0}, x);
    }
  }
  return sums.result();
}

}  // namespace

void MaskingErrorSums::AddStep(Masking masking, const LocalStep& at,
                               std::span<const float> x) {
  x_.assign(x.begin(), x.end());
  zero_.assign(x.size(), 0.0f);
  hat_.resize(x.size());
  Step& sums = steps_[at.step - 1];
  const double unit = masking.noise.magnitude;
  // Draws of their own, apart from the run's.
  masking.draw_seed = ~masking.draw_seed;
  for (const bool progressive : {false, true}) {
    masking.progressive = progressive;
    MaskedStep(masking, at, zero_, {}, x_, hat_);
    const double squares = SquaredDistance(hat_, x_) / (unit * unit);
    (progressive ? sums.pm : sums.sm) += squares;
    (progressive ? sums.pm_norm : sums.sm_norm) += std::sqrt(squares);
  }
  sums.x += SquaredDistance(x_, zero_) / (unit * unit);
}

void MaskingErrorSums::AddSent(const Masking& masking, std::span<const float> x,
                               std::span<const float> sent) {
  const double unit = masking.noise.magnitude;
  zero_.assign(x.size(), 0.0f);
  sent_.sm += SquaredDistance(sent, x) / (unit * unit);
  sent_.x += SquaredDistance(x, zero_) / (unit * unit);
}

MaskingError MaskingErrorSums::result() const {
  Step all;
  MaskingError error;
  for (const Step& step : steps_) {
    all.sm += step.sm;
    all.pm += step.pm;
    all.sm_norm += step.sm_norm;
    all.pm_norm += step.pm_norm;
    all.x += step.x;
    if (step.x > 0) {
      error.largest_q_step =
          std::max(error.largest_q_step, std::sqrt(step.sm / step.x));
    }
  }
  error.q_sm = std::sqrt(all.sm / all.x);
  error.q_pm = std::sqrt(all.pm / all.x);
  error.ratio = std::sqrt(all.pm / all.sm);
  error.ratio_of_norms = all.pm_norm / all.sm_norm;
  if (sent_.x > 0) error.q_sent = std::sqrt(sent_.sm / sent_.x);
  return error;
}

MaskingReport CheckMasking(uint64_t seed, uint32_t steps,
                           const MaskingErrorSums& sums) {
  MaskingReport report;
  report.trajectory = sums.result();
  report.fixed = MeasureFixedVector(seed, steps, report.fixed_q_exact);
  const double S = steps;
  report.proposition = std::sqrt((S + 1) * (2 * S + 1) / (6 * S * S));
  report.elementwise = std::sqrt((S + 1) / (2 * S));
  const auto agrees = [&](double factor) {
    return std::abs(report.fixed.ratio - factor) < 0.01;
  };
  report.proposition_holds = agrees(report.proposition);
  report.elementwise_holds = agrees(report.elementwise);
  return report;
}

}  // namespace fedmrn::theory
