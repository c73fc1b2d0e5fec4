// The objectives on which `fedmrn theory` checks Section 4 of the paper, with
// their constants. Everything here is exact or proven, nothing is fitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace fedmrn::theory {

// F(w) = mean over clients of F_k(w), F_k(w) = mean over k's examples of their
// losses; every client has as many examples (p_k = 1/N, as in the proofs).
struct Objective {
  size_t params = 0;
  uint32_t clients = 0;
  uint32_t examples = 0;  // of each client
  // The loss of one example; adds its gradient to `gradient`, unless empty.
  std::function<double(uint32_t client, uint32_t example,
                       std::span<const double> w, std::span<double> gradient)>
      loss;
};

// F(w); its gradient goes to `gradient`, unless empty.
double Value(const Objective& objective, std::span<const double> w,
             std::span<double> gradient = {});

// The largest over clients of E|grad F_k(w, xi) - grad F_k(w)|^2, xi being one
// example drawn at random (Assumption 2).
double GradientVariance(const Objective& objective, std::span<const double> w);

// The paper's letters.
struct Constants {
  double L = 0;
  double mu = 0;     // 0: not convex
  double G = 0;      // bounds |grad F_k(w, xi)|, not its square
  double sigma = 0;  // bounds its standard deviation
  double Gamma = 0;
  double F_star = 0;
};

// A row for each example, client by client.
struct LabelledRows {
  size_t features = 0;
  uint32_t clients = 0;
  uint32_t each = 0;           // examples of a client
  std::vector<double> rows;    // of norm 1 at most
  std::vector<double> labels;  // -1 or 1

  std::span<const double> row(size_t i) const {
    return std::span(rows).subspan(i * features, features);
  }
};

// Logistic regression with (lambda/2)|w|^2. Strongly convex, and unlike least
// squares its gradients stay bounded when noise of the theorem's size moves w.
struct ConvexProblem {
  Objective objective;
  Constants constants;
  std::vector<double> w_star;
  double residual = 0;  // |grad F(w_star)|
};

// `condition` is kappa = L/mu, above 1; lambda follows from it. Constants:
//   L      lambda + 1/4 the largest eigenvalue of a client's second moments:
//          the supremum of the Hessian's, taken at w = 0
//   mu     lambda: its infimum, for |w| to infinity
//   sigma  1: the regulariser has no variance, the rest has norm below 1
//   G      2: holds wherever |w| <= 1/lambda, a ball that has all minima in it
//   Gamma  from the minima of F and of each F_k, by Newton's method
ConvexProblem MakeConvexProblem(LabelledRows data, double condition);

inline constexpr uint32_t kMaxHidden = 64;

// A network with one hidden layer of `hidden` tanh units, trained; output
// weights fixed to +-1/sqrt(hidden); logistic loss. Not convex, yet smooth with
// bounded gradients everywhere: G = sigma = 1 and
//   L = 1/4 + 4/(3 sqrt(3)) / sqrt(hidden),
// as |tanh'| <= 1 and |tanh''| <= 4/(3 sqrt(3)). F_star is 0, a lower bound.
struct NetworkProblem {
  Objective objective;
  Constants constants;
};
NetworkProblem MakeNetworkProblem(LabelledRows data, uint32_t hidden);

// Synthetic data. A client's labels follow a rule of its own, and its rows a
// mean of its own, that are apart from the others' in proportion to
// `heterogeneity`; 0: all clients draw from one distribution.
LabelledRows LinearExamples(uint64_t seed, uint32_t clients, uint32_t each,
                            size_t features, double heterogeneity);

// The matrix is symmetric and comes row by row.
double LargestEigenvalue(std::vector<double> matrix, size_t size);

}  // namespace fedmrn::theory
