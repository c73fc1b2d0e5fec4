#include "fedmrn/theory/problem.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "fedmrn/base/check.h"
#include "fedmrn/core/random.h"

namespace fedmrn::theory {
namespace {

double Dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double Norm(std::span<const double> a) { return std::sqrt(Dot(a, a)); }

double Sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

// log(1 + exp(-margin)), and its derivative.
struct LogisticLoss {
  double value, slope;
};
LogisticLoss LogisticAt(double margin) {
  const double small = std::exp(-std::abs(margin));
  return {std::max(-margin, 0.0) + std::log1p(small),
          margin > 0 ? -small / (1 + small) : -1 / (1 + small)};
}

// Solves A x = b for a symmetric positive definite A, row by row.
std::vector<double> CholeskySolve(std::vector<double> a,
                                  std::vector<double> b) {
  const size_t size = b.size();
  for (size_t j = 0; j < size; ++j) {
    for (size_t i = j; i < size; ++i) {
      double sum = a[i * size + j];
      for (size_t k = 0; k < j; ++k) sum -= a[i * size + k] * a[j * size + k];
      if (i == j) FEDMRN_CHECK(sum > 0);
      a[i * size + j] = i == j ? std::sqrt(sum) : sum / a[j * size + j];
    }
  }
  for (size_t i = 0; i < size; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= a[i * size + k] * b[k];
    b[i] /= a[i * size + i];
  }
  for (size_t i = size; i-- > 0;) {
    for (size_t k = i + 1; k < size; ++k) b[i] -= a[k * size + i] * b[k];
    b[i] /= a[i * size + i];
  }
  return b;
}

// The mean loss of some rows of the data, as Newton's method sees it.
struct LogisticRows {
  const LabelledRows& data;
  size_t first, count;
  double lambda;

  double Value(std::span<const double> w, std::span<double> gradient,
               std::span<double> hessian) const {
    const size_t d = data.features;
    const double share = 1 / static_cast<double>(count);
    double value = lambda / 2 * Dot(w, w);
    for (size_t j = 0; j < d; ++j) gradient[j] = lambda * w[j];
    std::ranges::fill(hessian, 0.0);
    for (size_t j = 0; j < d; ++j) hessian[j * d + j] = lambda;
    for (size_t i = first; i < first + count; ++i) {
      const std::span<const double> a = data.row(i);
      const auto [loss, slope] = LogisticAt(data.labels[i] * Dot(w, a));
      value += share * loss;
      const double curve = -slope * (1 + slope);
      for (size_t j = 0; j < d; ++j) {
        gradient[j] += share * slope * data.labels[i] * a[j];
        for (size_t k = 0; k < d; ++k) {
          hessian[j * d + k] += share * curve * a[j] * a[k];
        }
      }
    }
    return value;
  }
};

struct Minimum {
  std::vector<double> w;
  double value, residual;
};

// Newton's method: halves the step while the value does not fall, and near the
// minimum, where values no longer tell, goes on while the gradient shrinks.
Minimum Minimize(const LogisticRows& rows) {
  const size_t d = rows.data.features;
  std::vector<double> w(d), gradient(d), hessian(d * d);
  std::vector<double> next(d), next_gradient(d), next_hessian(d * d);
  double value = rows.Value(w, gradient, hessian);
  for (;;) {
    const std::vector<double> step = CholeskySolve(hessian, gradient);
    const bool near = Dot(gradient, step) < 1e-10;
    double next_value = 0;
    for (double length = 1;; length /= 2) {
      for (size_t j = 0; j < d; ++j) next[j] = w[j] - length * step[j];
      next_value = rows.Value(next, next_gradient, next_hessian);
      if (near || next_value < value) break;
    }
    if (near && Norm(next_gradient) >= Norm(gradient)) break;
    value = next_value;
    std::swap(w, next);
    std::swap(gradient, next_gradient);
    std::swap(hessian, next_hessian);
  }
  return {w, value, Norm(gradient)};
}

double LargestSecondMoment(const LabelledRows& data, uint32_t client) {
  const size_t d = data.features;
  std::vector<double> moments(d * d);
  for (size_t i = 0; i < data.each; ++i) {
    const auto a = data.row(size_t{client} * data.each + i);
    for (size_t j = 0; j < d; ++j) {
      for (size_t k = 0; k < d; ++k) moments[j * d + k] += a[j] * a[k];
    }
  }
  return LargestEigenvalue(std::move(moments), d) / data.each;
}

void ScaleToUnitNorm(std::span<double> row) {
  const double norm = Norm(row);
  for (double& value : row) value /= norm;
}

}  // namespace

double Value(const Objective& objective, std::span<const double> w,
             std::span<double> gradient) {
  std::ranges::fill(gradient, 0.0);
  double value = 0;
  for (uint32_t k = 0; k < objective.clients; ++k) {
    for (uint32_t i = 0; i < objective.examples; ++i) {
      value += objective.loss(k, i, w, gradient);
    }
  }
  const double share =
      1.0 / (static_cast<double>(objective.clients) * objective.examples);
  for (double& g : gradient) g *= share;
  return value * share;
}

double GradientVariance(const Objective& objective, std::span<const double> w) {
  double largest = 0;
  std::vector<double> mean(objective.params), gradient(objective.params);
  for (uint32_t k = 0; k < objective.clients; ++k) {
    std::ranges::fill(mean, 0.0);
    double squares = 0;
    for (uint32_t i = 0; i < objective.examples; ++i) {
      std::ranges::fill(gradient, 0.0);
      objective.loss(k, i, w, gradient);
      squares += Dot(gradient, gradient) / objective.examples;
      for (size_t j = 0; j < mean.size(); ++j) {
        mean[j] += gradient[j] / objective.examples;
      }
    }
    largest = std::max(largest, squares - Dot(mean, mean));
  }
  return largest;
}

double LargestEigenvalue(std::vector<double> matrix, size_t size) {
  // Jacobi's rotations: sure to converge, whatever the spectrum.
  const auto at = [&](size_t i, size_t j) -> double& {
    return matrix[i * size + j];
  };
  for (int sweep = 0; sweep < 50; ++sweep) {
    double off = 0, diagonal = 0;
    for (size_t i = 0; i < size; ++i) {
      diagonal += at(i, i) * at(i, i);
      for (size_t j = i + 1; j < size; ++j) off += at(i, j) * at(i, j);
    }
    if (off <= 1e-28 * diagonal) break;
    for (size_t p = 0; p < size; ++p) {
      for (size_t q = p + 1; q < size; ++q) {
        if (at(p, q) == 0) continue;
        const double theta = (at(q, q) - at(p, p)) / (2 * at(p, q));
        const double t = (theta < 0 ? -1 : 1) /
                         (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (size_t k = 0; k < size; ++k) {
          const double kp = at(k, p), kq = at(k, q);
          at(k, p) = c * kp - s * kq;
          at(k, q) = s * kp + c * kq;
        }
        for (size_t k = 0; k < size; ++k) {
          const double pk = at(p, k), qk = at(q, k);
          at(p, k) = c * pk - s * qk;
          at(q, k) = s * pk + c * qk;
        }
      }
    }
  }
  double largest = at(0, 0);
  for (size_t i = 1; i < size; ++i) largest = std::max(largest, at(i, i));
  return largest;
}

ConvexProblem MakeConvexProblem(LabelledRows data, double condition) {
  FEDMRN_CHECK(condition > 1);
  double curvature = 0;  // of the steepest client, without the regulariser
  for (uint32_t k = 0; k < data.clients; ++k) {
    curvature = std::max(curvature, LargestSecondMoment(data, k) / 4);
  }
  const double lambda = curvature / (condition - 1);

  ConvexProblem problem;
  const size_t rows = size_t{data.clients} * data.each;
  Minimum minimum = Minimize({data, 0, rows, lambda});
  double mean_minimum = 0;
  for (uint32_t k = 0; k < data.clients; ++k) {
    mean_minimum +=
        Minimize({data, size_t{k} * data.each, data.each, lambda}).value /
        data.clients;
  }
  problem.constants = {.L = curvature + lambda,
                       .mu = lambda,
                       .G = 2,
                       .sigma = 1,
                       .Gamma = minimum.value - mean_minimum,
                       .F_star = minimum.value};
  problem.w_star = std::move(minimum.w);
  problem.residual = minimum.residual;

  problem.objective = {data.features, data.clients, data.each, {}};
  const auto shared = std::make_shared<const LabelledRows>(std::move(data));
  problem.objective.loss = [shared, lambda](uint32_t client, uint32_t example,
                                            std::span<const double> w,
                                            std::span<double> gradient) {
    const size_t i = size_t{client} * shared->each + example;
    const std::span<const double> a = shared->row(i);
    const double y = shared->labels[i];
    const auto [loss, slope] = LogisticAt(y * Dot(w, a));
    for (size_t j = 0; j < gradient.size(); ++j) {
      gradient[j] += slope * y * a[j] + lambda * w[j];
    }
    return loss + lambda / 2 * Dot(w, w);
  };
  return problem;
}

NetworkProblem MakeNetworkProblem(LabelledRows data, uint32_t hidden) {
  FEDMRN_CHECK(hidden > 0 && hidden <= kMaxHidden);
  const double output = 1 / std::sqrt(hidden);
  NetworkProblem problem;
  problem.constants = {
      .L = 0.25 + 4 / (3 * std::sqrt(3.0)) * output, .G = 1, .sigma = 1};
  problem.objective = {hidden * data.features, data.clients, data.each, {}};
  const auto shared = std::make_shared<const LabelledRows>(std::move(data));
  problem.objective.loss = [shared, hidden, output](
                               uint32_t client, uint32_t example,
                               std::span<const double> w,
                               std::span<double> gradient) {
    const size_t i = size_t{client} * shared->each + example;
    const size_t d = shared->features;
    const std::span<const double> a = shared->row(i);
    const double y = shared->labels[i];
    const auto sign = [&](uint32_t unit) { return unit % 2 == 0 ? 1 : -1; };
    std::array<double, kMaxHidden> active;
    double score = 0;
    for (uint32_t unit = 0; unit < hidden; ++unit) {
      active[unit] = std::tanh(Dot(w.subspan(unit * d, d), a));
      score += sign(unit) * output * active[unit];
    }
    const auto [loss, slope] = LogisticAt(y * score);
    if (gradient.empty()) return loss;
    for (uint32_t unit = 0; unit < hidden; ++unit) {
      const double back =
          slope * y * sign(unit) * output * (1 - active[unit] * active[unit]);
      for (size_t j = 0; j < d; ++j) gradient[unit * d + j] += back * a[j];
    }
    return loss;
  };
  return problem;
}

LabelledRows LinearExamples(uint64_t seed, uint32_t clients, uint32_t each,
                            size_t features, double heterogeneity) {
  constexpr double kRuleScale = 4;  // labels are mostly, not always, the rule's
  LabelledRows data{features, clients, each, {}, {}};
  const auto normals = [](Random& random, size_t count, double scale) {
    std::vector<double> values(count);
    for (double& value : values) value = scale * random.Normal();
    return values;
  };
  Random common({seed, Purpose::kSynthetic, 0});
  const std::vector<double> rule = normals(common, features, kRuleScale);
  for (uint32_t k = 0; k < clients; ++k) {
    Random random({seed, Purpose::kSynthetic, k + 1});
    std::vector<double> own = normals(random, features, kRuleScale);
    for (size_t j = 0; j < features; ++j) {
      own[j] = rule[j] + heterogeneity * own[j];
    }
    const std::vector<double> mean =
        normals(random, features - 1, heterogeneity);
    for (uint32_t i = 0; i < each; ++i) {
      // A constant feature, as large as the others together.
      std::vector<double> a = {std::sqrt(static_cast<double>(features - 1))};
      for (const double m : mean) a.push_back(m + random.Normal());
      ScaleToUnitNorm(a);
      const bool positive = random.Uniform() < Sigmoid(Dot(own, a));
      data.labels.push_back(positive ? 1 : -1);
      data.rows.insert(data.rows.end(), a.begin(), a.end());
    }
  }
  return data;
}

}  // namespace fedmrn::theory
