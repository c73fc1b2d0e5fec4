#include "fedmrn/theory/theory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "fedmrn/core/random.h"
#include "fedmrn/theory/run.h"

namespace fedmrn::theory {
namespace {

// Large enough for slopes, small enough for a sanitizer.
Settings SmallSettings() {
  Settings settings;
  settings.rounds = 1024;
  settings.seeds = 4;
  return settings;
}

const Report& SmallReport() {
  static const Report report = Check(SmallSettings()).value();
  return report;
}

TEST(TheoryProblemTest, LargestEigenvalue) {
  EXPECT_NEAR(LargestEigenvalue({2, 1, 1, 2}, 2), 3, 1e-12);
  EXPECT_NEAR(LargestEigenvalue({5, 0, 0, -7}, 2), 5, 1e-12);
  // The path graph's Laplacian: 4 sin^2(pi k / 8), the largest for k = 3.
  const double largest = 4 * std::pow(std::sin(3 * std::acos(-1.0) / 8), 2);
  EXPECT_NEAR(LargestEigenvalue(
                  {1, -1, 0, 0, -1, 2, -1, 0, 0, -1, 2, -1, 0, 0, -1, 1}, 4),
              largest, 1e-12);
}

// Two clients with one example each, both at a = 1, of opposite labels:
// F(w) = (log(1+e^-w) + log(1+e^w)) / 2 + lambda w^2/2 has its minimum at 0.
TEST(TheoryProblemTest, ConstantsByHand) {
  const LabelledRows data{1, 2, 1, {1, 1}, {1, -1}};
  const ConvexProblem problem = MakeConvexProblem(data, 5);
  const Constants& c = problem.constants;
  EXPECT_NEAR(c.mu, 0.25 / 4, 1e-15);
  EXPECT_NEAR(c.L, 5 * c.mu, 1e-15);
  EXPECT_NEAR(problem.w_star[0], 0, 1e-12);
  EXPECT_NEAR(c.F_star, std::log(2), 1e-15);
  // F_1's minimum is where 1/(1+e^w) = lambda w; by bisection.
  double low = 0, high = 16;
  for (int i = 0; i < 100; ++i) {
    const double w = (low + high) / 2;
    (1 / (1 + std::exp(w)) > c.mu * w ? low : high) = w;
  }
  const double minimum = std::log1p(std::exp(-low)) + c.mu / 2 * low * low;
  EXPECT_NEAR(c.Gamma, std::log(2) - minimum, 1e-13);
}

TEST(TheoryProblemTest, MinimumIsOne) {
  const ConvexProblem problem =
      MakeConvexProblem(LinearExamples(3, 5, 20, 6, 1), 30);
  EXPECT_LT(problem.residual, 1e-13);
  EXPECT_NEAR(Value(problem.objective, problem.w_star),
              problem.constants.F_star, 1e-14);
  EXPECT_GT(problem.constants.Gamma, 0);
  for (size_t i = 0; i < problem.w_star.size(); ++i) {
    for (const double aside : {-1e-3, 1e-3}) {
      std::vector<double> w = problem.w_star;
      w[i] += aside;
      EXPECT_GT(Value(problem.objective, w), problem.constants.F_star);
    }
  }
}

TEST(TheoryProblemTest, HeterogeneityShowsInGamma) {
  const auto gamma = [](double heterogeneity) {
    return MakeConvexProblem(LinearExamples(1, 10, 400, 4, heterogeneity), 24)
        .constants.Gamma;
  };
  EXPECT_LT(gamma(0), 0.01);
  EXPECT_GT(gamma(1), 10 * gamma(0));
}

// Gradients are right, and L, sigma and G bound what they should, everywhere
// for the network, near the origin for the convex problem.
TEST(TheoryProblemTest, ConstantsBoundTheObjective) {
  const auto rows = LinearExamples(2, 3, 10, 4, 1);
  const ConvexProblem convex = MakeConvexProblem(rows, 20);
  const NetworkProblem network = MakeNetworkProblem(rows, 4);
  const std::pair<const Objective*, const Constants*> all[] = {
      {&convex.objective, &convex.constants},
      {&network.objective, &network.constants}};
  for (const auto& [objective, constants] : all) {
    Random random({5, Purpose::kSynthetic, 0});
    const size_t d = objective->params;
    double steepest = 0;
    for (int trial = 0; trial < 200; ++trial) {
      std::vector<double> a(d), b(d), grad_a(d), grad_b(d), none;
      double apart = 0, norm = 0, change = 0;
      // Close pairs feel the curvature, far ones the bound on the whole.
      const double scale = trial % 2 == 0 ? 0.01 : 1;
      for (size_t i = 0; i < d; ++i) {
        a[i] = random.Normal();
        b[i] = a[i] + scale * random.Normal();
        apart += (a[i] - b[i]) * (a[i] - b[i]);
      }
      const auto client = static_cast<uint32_t>(random.Below(3));
      const auto example = static_cast<uint32_t>(random.Below(10));
      objective->loss(client, example, a, grad_a);
      for (size_t i = 0; i < d; ++i) norm += grad_a[i] * grad_a[i];
      EXPECT_LE(std::sqrt(norm), constants->G);
      const size_t i = random.Below(d);
      const double at = a[i], h = 1e-5;
      a[i] = at + h;
      const double above = objective->loss(client, example, a, none);
      a[i] = at - h;
      const double below = objective->loss(client, example, a, none);
      a[i] = at;
      EXPECT_NEAR(grad_a[i], (above - below) / (2 * h), 1e-8);
      EXPECT_LE(GradientVariance(*objective, a),
                constants->sigma * constants->sigma);
      Value(*objective, a, grad_a);
      Value(*objective, b, grad_b);
      for (size_t j = 0; j < d; ++j) {
        change += (grad_a[j] - grad_b[j]) * (grad_a[j] - grad_b[j]);
      }
      const double slope = std::sqrt(change / apart);
      EXPECT_LE(slope, constants->L);
      EXPECT_GE(slope, constants->mu);
      steepest = std::max(steepest, slope);
    }
    EXPECT_GT(steepest, constants->L / 20);  // L is no wild guess
  }
}

// One parameter, loss (w - example)^2 / 2.
Objective Parabola(std::vector<std::pair<uint32_t, uint32_t>>* used) {
  return {1, 6, 3,
          [used](uint32_t client, uint32_t example, std::span<const double> w,
                 std::span<double> gradient) {
            if (used != nullptr) used->push_back({client, example});
            const double distance = w[0] - example;
            gradient[0] += distance;
            return distance * distance / 2;
          }};
}

Schedule SomeSchedule() {
  return {2, 4, 5,
          [](uint64_t t) { return 1 / (1.0 + static_cast<double>(t)); },
          [](uint64_t) { return 8.0; }};
}

TEST(TheoryRunTest, FedAvgByHand) {
  std::vector<std::pair<uint32_t, uint32_t>> used;
  const Objective objective = Parabola(&used);
  double w = 0.5, final_w = 0;
  Observer observer;
  observer.on_round = [&](uint64_t, std::span<const double> model) {
    final_w = model[0];
  };
  const Schedule schedule = SomeSchedule();
  const std::vector<double> start = {w};
  ASSERT_TRUE(RunFederated(objective, schedule, LocalTraining::kFedAvg, 1,
                           start, observer));
  ASSERT_EQ(used.size(), 2u * 4 * 5);
  for (uint64_t round = 0; round < 5; ++round) {
    double mean = 0;
    for (uint64_t k = 0; k < 2; ++k) {
      double local = w;
      for (uint64_t step = 0; step < 4; ++step) {
        const auto& [client, example] = used[(round * 2 + k) * 4 + step];
        EXPECT_EQ(client, used[(round * 2 + k) * 4].first);
        local -= schedule.step_size(round * 4 + step + 1) * (local - example);
      }
      mean += local / 2;
    }
    w = mean;
  }
  EXPECT_NEAR(final_w, w, 1e-5);
}

TEST(TheoryRunTest, AllMethodsTakeTheSameExamples) {
  std::vector<std::pair<uint32_t, uint32_t>> used[3];
  constexpr LocalTraining kAll[] = {LocalTraining::kFedAvg, LocalTraining::kSm,
                                    LocalTraining::kPsm};
  const std::vector<double> start = {0.5};
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(RunFederated(Parabola(&used[i]), SomeSchedule(), kAll[i], 1,
                             start, {}));
    EXPECT_EQ(used[i].size(), 2u * 4 * 5);
    EXPECT_EQ(used[i], used[0]);
  }
}

// To watch the mean of all clients changes nothing, and at the first step of a
// round that mean is the model itself.
TEST(TheoryRunTest, WatchingChangesNothing) {
  const std::vector<double> start = {0.5};
  std::vector<double> plain, watched, means;
  Observer observer;
  observer.on_round = [&](uint64_t steps, std::span<const double> w) {
    EXPECT_EQ(steps, 4 * (plain.size() + 1));
    plain.push_back(w[0]);
  };
  ASSERT_TRUE(RunFederated(Parabola(nullptr), SomeSchedule(),
                           LocalTraining::kPsm, 1, start, observer));
  observer.on_round = [&](uint64_t, std::span<const double> w) {
    watched.push_back(w[0]);
  };
  observer.on_step = [&](std::span<const double> w) { means.push_back(w[0]); };
  ASSERT_TRUE(RunFederated(Parabola(nullptr), SomeSchedule(),
                           LocalTraining::kPsm, 1, start, observer));
  EXPECT_EQ(plain, watched);
  ASSERT_EQ(means.size(), 20u);
  EXPECT_NEAR(means[0], 0.5, 1e-12);
  for (size_t round = 1; round < 5; ++round) {
    EXPECT_NEAR(means[4 * round], plain[round - 1], 1e-12);
  }
}

TEST(TheoryTest, BoundsByHand) {
  const BoundInputs inputs{
      {.L = 2, .mu = 1, .G = 1, .sigma = 2, .Gamma = 0.5, .F_star = 1},
      2,
      1,
      2,
      1};
  // B = 4/2 + 6 + 8*2 + 4*2*4 = 56.
  EXPECT_DOUBLE_EQ(ConvexBound(inputs, 15, 9, 3), 2.0 / 24 * (112 + 24));
  // P = 4/2 + 32, Q = 8.
  EXPECT_DOUBLE_EQ(NetworkBound(inputs, 16, 3), (8 + 34) / 4.0 + 8 / 16.0);
  // Noise 2*eta*S*G with one step size: q = sqrt(d) S/(S-1).
  EXPECT_DOUBLE_EQ(LemmaQ(9, 2 * 0.1 * 4 * 5, 0.1, 4, 5), 3 * 4.0 / 3);
}

TEST(TheoryTest, TheoremOneHolds) {
  const ConvexReport& report = SmallReport().convex;
  EXPECT_TRUE(report.assumptions_hold);
  EXPECT_LE(report.largest_gradient, report.constants.G);
  EXPECT_LE(report.largest_deviation, report.constants.sigma);
  // |u| <= eta_0 S G is half the noise.
  EXPECT_LE(report.largest_update_over_noise, 0.5);
  EXPECT_TRUE(report.bound_holds);
  ASSERT_GT(report.rows.size(), 30u);
  EXPECT_EQ(report.rows.back().steps, 4096u);
  for (const ConvexRow& row : report.rows) {
    EXPECT_GT(row.fedavg.mean, 0);
    EXPECT_LE(row.fedavg.mean, row.fedavg_bound);
    EXPECT_LE(row.fedmrn.mean, row.fedmrn_bound);
    EXPECT_GT(row.fedmrn.mean, row.fedavg.mean);
    // sqrt(8) * 4/3, times the first round's (gamma+4)/(gamma+1).
    EXPECT_NEAR(row.lemma_q, std::sqrt(8) * 4 / 3 * 195 / 192, 1e-9);
  }
  // Four seeds and one decade of T: -1 up to their scatter.
  EXPECT_NEAR(report.fedavg.slope, -1, 0.35);
  EXPECT_NEAR(report.fedmrn.slope, -1, 0.35);
  EXPECT_GT(report.fedmrn.error, 0.01);
  EXPECT_LT(report.fedmrn.error, 0.3);
  EXPECT_EQ(report.fedmrn.to, 4096u);
  EXPECT_LE(report.fedmrn.from, 4096u / 8);
}

// With noise that does not shrink no constant q exists, and the gap grows.
TEST(TheoryTest, FixedNoiseDoesNotConverge) {
  Settings settings = SmallSettings();
  settings.seeds = 2;
  settings.fixed_noise = true;
  const Report report = Check(settings).value();
  EXPECT_GT(report.convex.fedmrn.slope, 0.5);
  EXPECT_NEAR(report.convex.fedavg.slope, -1, 0.5);
  const auto& rows = report.convex.rows;
  EXPECT_GT(rows.back().lemma_q, 10 * rows.front().lemma_q);
  EXPECT_GT(rows.back().fedmrn_bound, rows.front().fedmrn_bound);
}

TEST(TheoryTest, MaskingErrorFollowsTheElementwiseFactor) {
  const MaskingReport& report = SmallReport().masking;
  EXPECT_NEAR(report.proposition, std::sqrt((1 + 4 + 9 + 16) / 64.0), 1e-12);
  EXPECT_NEAR(report.elementwise, std::sqrt((1 + 2 + 3 + 4) / 16.0), 1e-12);
  EXPECT_NEAR(report.fixed.q_sm, report.fixed_q_exact, 0.01);
  EXPECT_NEAR(report.fixed.ratio, report.elementwise, 0.003);
  EXPECT_NEAR(report.trajectory.ratio, report.elementwise, 0.003);
  EXPECT_TRUE(report.elementwise_holds);
  EXPECT_FALSE(report.proposition_holds);
  EXPECT_LT(report.trajectory.q_pm, report.trajectory.q_sm);
  // |u| <= n/2 in norm, so q^2 = d n^2/|u|^2 - 1 >= 4 d - 1.
  EXPECT_GT(report.trajectory.q_sent, std::sqrt(4.0 * 8 - 1));
  EXPECT_GT(report.trajectory.largest_q_step, report.trajectory.q_sent);
}

TEST(TheoryTest, TheoremTwoHolds) {
  const NetworkReport& report = SmallReport().network;
  EXPECT_TRUE(report.bound_holds);
  EXPECT_LE(report.largest_gradient, report.constants.G);
  ASSERT_EQ(report.rows.size(), 4u);
  for (const NetworkRow& row : report.rows) {
    EXPECT_LE(row.fedavg.mean, row.fedavg_bound);
    EXPECT_LE(row.fedmrn.mean, row.fedmrn_bound);
  }
  EXPECT_EQ(report.rows.back().steps, 2048u);
  EXPECT_LT(report.rows.back().fedavg.mean, report.rows.front().fedavg.mean);
  EXPECT_LT(report.fedmrn.slope, -0.1);
}

TEST(TheoryTest, IsAFunctionOfTheSettings) {
  Settings settings = SmallSettings();
  settings.rounds = 512;
  settings.seeds = 2;
  std::vector<double> shares;
  const Report a =
      Check(settings, [&](double share) { shares.push_back(share); }).value();
  const Report b = Check(settings).value();
  settings.seed = 2;
  const Report other = Check(settings).value();
  ASSERT_EQ(a.convex.rows.size(), b.convex.rows.size());
  for (size_t i = 0; i < a.convex.rows.size(); ++i) {
    EXPECT_EQ(a.convex.rows[i].fedavg.mean, b.convex.rows[i].fedavg.mean);
    EXPECT_EQ(a.convex.rows[i].fedmrn.mean, b.convex.rows[i].fedmrn.mean);
  }
  EXPECT_EQ(a.network.rows.back().fedmrn.mean,
            b.network.rows.back().fedmrn.mean);
  EXPECT_EQ(a.masking.trajectory.q_pm, b.masking.trajectory.q_pm);
  EXPECT_NE(a.convex.constants.L, other.convex.constants.L);
  EXPECT_NE(a.convex.rows[0].fedmrn.mean, other.convex.rows[0].fedmrn.mean);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_NEAR(shares.back(), 1, 1e-6);
}

std::string Mistake(const Settings& settings) {
  const Result<Report> report = Check(settings);
  return report ? "" : report.error().message;
}

TEST(TheoryTest, RefusesWhatMakesNoSense) {
  EXPECT_EQ(Mistake({.clients = 5, .sampled = 6}),
            "sampled: must be from 1 to the number of clients, 5, not 6");
  EXPECT_EQ(Mistake({.sampled = 0}),
            "sampled: must be from 1 to the number of clients, 20, not 0");
  EXPECT_EQ(Mistake({.clients = 1, .sampled = 1}),
            "clients: must be from 2 to 1000, not 1");
  EXPECT_EQ(Mistake({.steps = 0}), "steps: must be from 2 to 1000, not 0");
  EXPECT_NE(Mistake({.steps = 1}).find("Lemma 2"), std::string::npos);
  EXPECT_EQ(Mistake({.dimension = 1}),
            "dimension: must be from 2 to 200, not 1");
  EXPECT_EQ(Mistake({.condition = 1}), "condition: must be from 1.5 to 10000");
  EXPECT_EQ(Mistake({.heterogeneity = std::nan("")}),
            "heterogeneity: must be from 0 to 100");
  EXPECT_EQ(Mistake({.rounds = 100}),
            "rounds: must be from 512 to 10000000, not 100");
  EXPECT_EQ(Mistake({.seeds = 1}), "seeds: must be from 2 to 1000, not 1");
  EXPECT_NE(Mistake({.steps = 1000, .condition = 1000}).find("above 1024"),
            std::string::npos);
}

}  // namespace
}  // namespace fedmrn::theory
