// The masking error of Assumption 4, E|S(x) - x|^2 against |x|^2, with and
// without PM, measured on the masks that the core draws.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fedmrn/core/mask.h"

namespace fedmrn::theory {

// The masking error of S local steps, PM beside none, on the same x.
struct MaskingError {
  double q_sm = 0, q_pm = 0;  // sqrt(E|S(x) - x|^2 / E|x|^2)
  double ratio = 0;           // q_pm / q_sm
  double ratio_of_norms = 0;  // of E|S(x) - x|, not squared
  double largest_q_step = 0;  // q_sm of the worst step but the first
  double q_sent = 0;          // of the mask that travels
};

struct MaskingReport {
  MaskingError trajectory;  // x: the updates u of the local steps
  MaskingError fixed;       // x: one vector, all steps
  double fixed_q_exact = 0;
  double proposition = 0;  // sqrt(sum tau^2 / S^3)
  double elementwise = 0;  // sqrt(sum tau / S^2): E[P^2] = E[P] = p
  bool proposition_holds = false;
  bool elementwise_holds = false;
};

// Sums |S(x) - x|^2 and |x|^2 in units of the noise's magnitude, so that late
// rounds, whose noise is small, count as much as early ones.
class MaskingErrorSums {
 public:
  explicit MaskingErrorSums(uint32_t steps) : steps_(steps) {}

  // Masks x as in the forward pass of `at`, without PM and with.
  void AddStep(Masking masking, const LocalStep& at, std::span<const float> x);
  // x as it was after training and as the server got it.
  void AddSent(const Masking& masking, std::span<const float> x,
               std::span<const float> sent);
  MaskingError result() const;

 private:
  struct Step {
    double sm = 0, pm = 0, sm_norm = 0, pm_norm = 0, x = 0;
  };

  std::vector<Step> steps_;
  Step sent_;
  std::vector<float> x_, zero_, hat_;
};

// Checks updates in `sums` and, by draws of its own, one fixed vector.
MaskingReport CheckMasking(uint64_t seed, uint32_t steps,
                           const MaskingErrorSums& sums);

}  // namespace fedmrn::theory
