// Section 4 of the paper as an experiment: FedMRN and FedAvg on problems whose
// constants are known, beside the bounds of Theorems 1 and 2, and the masking
// error of Assumption 4 beside Proposition 1. docs/theory.md explains it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/theory/masking.h"
#include "fedmrn/theory/problem.h"

namespace fedmrn::theory {

struct Settings {
  uint32_t clients = 20;     // N
  uint32_t sampled = 10;     // K
  uint32_t steps = 4;        // S
  uint32_t dimension = 8;    // of the convex problem
  double condition = 24;     // kappa
  double heterogeneity = 1;  // 0: every client has the same distribution
  uint32_t rounds = 4096;
  uint32_t seeds = 8;  // runs that an expectation is the mean of
  uint64_t seed = 1;
  // PM, as in Algorithm 1; the theorems' proofs leave it out. Their bounds hold
  // for both, since PM only makes the masking error smaller.
  bool progressive = true;
  // The theorem's noise is 2*eta_0*S*G. False: eta_0 is the round's first step
  // size, and the noise shrinks with the updates. True: the run's first.
  bool fixed_noise = false;
};

// A mean over seeds, and its standard error.
struct Estimate {
  double mean = 0, error = 0;
};

// The model after `steps` local steps, the paper's w_T.
struct ConvexRow {
  uint64_t steps = 0;       // T
  Estimate fedavg, fedmrn;  // E F(w_T) - F*
  double fedavg_bound = 0;
  double fedmrn_bound = 0;
  double lemma_q = 0;  // the q in it, see LemmaQ
};

// y ~ x^slope by least squares over points in [from, to].
struct Slope {
  double slope = 0;
  double error = 0;  // standard error, from the seeds' scatter
  uint64_t from = 0, to = 0;
};

struct ConvexReport {
  Constants constants;
  double gamma = 0;
  double start_distance = 0;  // |w_1 - w*|^2
  double residual = 0;        // |grad F(w*)|
  std::vector<ConvexRow> rows;
  // Against gamma + T, as the bound has it, over the last tenth of T.
  Slope fedavg, fedmrn;
  // Whether the assumptions held on the way.
  double largest_gradient = 0;           // at most G
  double largest_deviation = 0;          // at most sigma
  double largest_update_over_noise = 0;  // at most 1: masks are unbiased
  bool assumptions_hold = false;
  bool bound_holds = false;  // at every row, for both
};

struct NetworkRow {
  uint64_t steps = 0;       // T
  Estimate fedavg, fedmrn;  // mean over t of |grad F(w_t)|^2
  double fedavg_bound = 0, fedmrn_bound = 0;
};

struct NetworkReport {
  Constants constants;
  uint64_t params = 0;
  double start_value = 0;  // F(w_0)
  double lemma_q = 0;
  std::vector<NetworkRow> rows;
  Slope fedavg, fedmrn;  // against T
  double largest_gradient = 0;
  bool bound_holds = false;
};

struct Report {
  ConvexReport convex;
  MaskingReport masking;
  NetworkReport network;
};

// Deterministic. `on_progress` gets the share that is done, from 0 to 1. Fails
// on settings that make no sense; the error begins with the setting's name.
Result<Report> Check(const Settings& settings,
                     const std::function<void(double share)>& on_progress = {});

// The right-hand sides of Theorems 1 and 2; q = 0 is FedAvg's.
struct BoundInputs {
  Constants constants;
  double clients = 0, sampled = 0, steps = 0;  // N, K, S
  double q = 0;
};
double ConvexBound(const BoundInputs& inputs, double gamma, double T,
                   double start_distance);
double NetworkBound(const BoundInputs& inputs, double T, double start_value);

// The least q for which Lemmas 2 and 3 hold whatever the updates are. They use
// q only to say that the masking error E|S(x) - x|^2 = d*n^2 - |x|^2 is at most
// 4 q^2 eta_t^2 (S-1)^2 G^2, so d*n^2 equal to that, with the round's last (and
// least) eta_t, is enough. Assumption 4 itself asks for more than any q can
// give: x = 0 at the start of a round, and the error is not.
double LemmaQ(double params, double magnitude, double last_step_size,
              double steps, double G);

}  // namespace fedmrn::theory
