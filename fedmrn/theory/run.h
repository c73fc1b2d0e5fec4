// Algorithm 1 with the step sizes and the noise of Section 4: a free choice of
// both at every step, examples drawn one at a time, signed masks. The masks are
// the core's, and a client's update reaches the server in a frame.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/core/mask.h"
#include "fedmrn/theory/problem.h"

namespace fedmrn::theory {

enum class LocalTraining {
  kFedAvg,  // q = 0: the update travels in float32
  kSm,      // stochastic masking alone, as in the theorems
  kPsm,     // with progressive masking, as in Algorithm 1
};

// Steps are counted from 1 over all rounds: the paper's t.
struct Schedule {
  uint32_t sampled = 0;  // K
  uint32_t steps = 0;    // S
  uint32_t rounds = 0;
  std::function<double(uint64_t t)> step_size;
  // Gives that of the Bernoulli noise of the round whose first step is t.
  std::function<double(uint64_t t)> magnitude;
};

// What a caller may look at while it runs; empty functions are not called.
struct Observer {
  // After each round: the steps taken so far, and the model.
  std::function<void(uint64_t steps_taken, std::span<const double> w)> on_round;
  // At each step, before it: the mean over all clients of w_k, the proofs'
  // virtual sequence. All clients train then, though only those sampled are
  // heard; the draws of a client do not depend on who else trains.
  std::function<void(std::span<const double> mean_w)> on_step;
  // Each u that is about to be masked in the forward pass of `at.step`.
  std::function<void(const Masking& masking, const LocalStep& at,
                     std::span<const float> u)>
      on_mask;
  // Each u after training, and what its frame makes of it.
  std::function<void(const Masking& masking, std::span<const float> u,
                     std::span<const float> sent)>
      on_send;
};

// What the assumptions are checked by.
struct Extremes {
  double gradient_norm = 0;      // the largest |grad F_k(x, xi)| used
  double update_over_noise = 0;  // the largest |u_i / n_i|: 1 is unbiased still
};

// From `start`; a pure function of its arguments. FedAvg and FedMRN with one
// seed take the same clients and the same examples.
Result<Extremes> RunFederated(const Objective& objective,
                              const Schedule& schedule, LocalTraining training,
                              uint64_t seed, std::span<const double> start,
                              const Observer& observer);

}  // namespace fedmrn::theory
