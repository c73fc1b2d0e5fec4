#include "fedmrn/theory/theory.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "fedmrn/core/random.h"
#include "fedmrn/theory/run.h"

namespace fedmrn::theory {
namespace {

constexpr uint32_t kExamples = 50;  // of a client
constexpr uint32_t kHidden = 4, kNetworkInputs = 3;
constexpr uint32_t kNetworkExamples = 16;
constexpr uint32_t kNetworkSeeds = 3;  // enough: a mean over t varies little
// Theorem 2 is checked for T = rounds*S/128, /32, /8 and /2.
constexpr uint32_t kNetworkTimes = 4;

Error BadSetting(const std::string& message) {
  return {ErrorCode::kBadValue, message};
}

Status CheckSettings(const Settings& s) {
  const auto range = [](const char* name, auto value, auto least, auto most) {
    return BadSetting(std::string(name) + ": must be from " +
                      std::to_string(least) + " to " + std::to_string(most) +
                      ", not " + std::to_string(value));
  };
  if (s.clients < 2 || s.clients > 1000) {
    return range("clients", s.clients, 2, 1000);
  }
  if (s.sampled < 1 || s.sampled > s.clients) {
    return BadSetting("sampled: must be from 1 to the number of clients, " +
                      std::to_string(s.clients) + ", not " +
                      std::to_string(s.sampled));
  }
  if (s.steps == 1) {
    return BadSetting(
        "steps: must be at least 2; with one local step Lemma 2 leaves no room "
        "for the masking error of the forward pass");
  }
  if (s.steps < 2 || s.steps > 1000) return range("steps", s.steps, 2, 1000);
  if (s.dimension < 2 || s.dimension > 200) {
    return range("dimension", s.dimension, 2, 200);
  }
  if (!(s.condition >= 1.5 && s.condition <= 10000)) {
    return BadSetting("condition: must be from 1.5 to 10000");
  }
  if (!(s.heterogeneity >= 0 && s.heterogeneity <= 100)) {
    return BadSetting("heterogeneity: must be from 0 to 100");
  }
  if (s.rounds < 512 || s.rounds > 10'000'000) {
    return range("rounds", s.rounds, 512, 10'000'000);
  }
  if (s.seeds < 2 || s.seeds > 1000) return range("seeds", s.seeds, 2, 1000);
  return Ok();
}

// One value per seed.
class Samples {
 public:
  void Add(double value) {
    values_.push_back(value);
    sum_ += value;
  }
  size_t count() const { return values_.size(); }
  double Mean() const { return sum_ / static_cast<double>(count()); }
  double MeanWithout(size_t i) const {
    return (sum_ - values_[i]) / static_cast<double>(count() - 1);
  }
  Estimate estimate() const {
    const auto n = static_cast<double>(count());
    double squares = 0;
    for (const double value : values_) {
      squares += (value - Mean()) * (value - Mean());
    }
    return {Mean(), std::sqrt(squares / (n * (n - 1)))};
  }

 private:
  std::vector<double> values_;
  double sum_ = 0;
};

struct Point {
  uint64_t T;
  double x;
  Samples y;
};

// Least squares on the logarithms; the error by leaving out one seed after the
// other (jackknife).
Slope FitSlope(const std::vector<Point>& points) {
  const auto fit = [&](const auto& y_of) {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (const Point& point : points) {
      const double log_x = std::log(point.x), log_y = std::log(y_of(point.y));
      n += 1;
      x += log_x;
      y += log_y;
      xx += log_x * log_x;
      xy += log_x * log_y;
    }
    return (n * xy - x * y) / (n * xx - x * x);
  };
  Samples left_out;
  const size_t seeds = points.front().y.count();
  for (size_t i = 0; i < seeds; ++i) {
    left_out.Add(fit([i](const Samples& y) { return y.MeanWithout(i); }));
  }
  return {fit([](const Samples& y) { return y.Mean(); }),
          static_cast<double>(seeds - 1) * left_out.estimate().error,
          points.front().T, points.back().T};
}

// Counts work in client steps.
class Work {
 public:
  Work(double total, const std::function<void(double)>& on_progress)
      : total_(total), on_progress_(on_progress) {}
  void Done(double work) {
    done_ += work;
    if (on_progress_) on_progress_(std::min(1.0, done_ / total_));
  }

 private:
  double total_, done_ = 0;
  const std::function<void(double)>& on_progress_;
};

double TotalWork(const Settings& s) {
  const double network = std::min(s.seeds, kNetworkSeeds) * (1.0 + s.clients) *
                         (1 / 2. + 1 / 8. + 1 / 32. + 1 / 128.);
  return 2.0 * s.rounds * s.steps *
         (static_cast<double>(s.seeds) * s.sampled + network);
}

LocalTraining FedMrnOf(const Settings& s) {
  return s.progressive ? LocalTraining::kPsm : LocalTraining::kSm;
}

// The rounds whose models are looked at: four per octave.
std::vector<uint32_t> RecordedRounds(uint32_t rounds) {
  std::vector<uint32_t> recorded;
  for (double at = rounds; at >= 1; at /= std::pow(2, 0.25)) {
    const auto round = static_cast<uint32_t>(at + 0.5);
    if (recorded.empty() || round < recorded.back()) recorded.push_back(round);
  }
  std::ranges::reverse(recorded);
  return recorded;
}

// Runs have seeds of their own, far from each other.
uint64_t RunSeed(uint64_t seed, uint32_t run) {
  Random random({seed, Purpose::kInit, run});
  return random.Word64();
}

Result<ConvexReport> CheckConvex(const Settings& s, Work& work,
                                 MaskingErrorSums& masking_error) {
  const ConvexProblem problem =
      MakeConvexProblem(LinearExamples(s.seed, s.clients, kExamples,
                                       s.dimension, s.heterogeneity),
                        s.condition);
  ConvexReport report;
  const Constants& c = report.constants = problem.constants;
  report.residual = problem.residual;
  report.gamma = std::max<double>(8 * s.condition, s.steps) - 1;
  const std::vector<double> start(s.dimension);
  for (const double w : problem.w_star) report.start_distance += w * w;

  const auto step_size = [&](uint64_t t) {
    return 2 / (c.mu * (report.gamma + static_cast<double>(t)));
  };
  const auto magnitude = [&](uint64_t t) {
    return 2 * step_size(s.fixed_noise ? 1 : t) * s.steps * c.G;
  };
  if (magnitude(1) > kMaxMagnitude) {
    return BadSetting("steps: the theorem's noise would be " +
                      std::to_string(magnitude(1)) + ", above " +
                      std::to_string(static_cast<int>(kMaxMagnitude)) +
                      ", the most that a frame can have; take fewer");
  }
  const Schedule schedule{s.sampled, s.steps, s.rounds, step_size, magnitude};

  const std::vector<uint32_t> recorded = RecordedRounds(s.rounds);
  const LocalTraining methods[] = {LocalTraining::kFedAvg, FedMrnOf(s)};
  std::vector<std::vector<Samples>> gaps(std::size(methods),
                                         std::vector<Samples>(recorded.size()));
  for (uint32_t run = 0; run < s.seeds; ++run) {
    for (size_t m = 0; m < std::size(methods); ++m) {
      size_t next = 0;
      Observer observer;
      observer.on_round = [&](uint64_t steps, std::span<const double> w) {
        work.Done(static_cast<double>(s.steps) * s.sampled);
        if (steps != uint64_t{recorded[next]} * s.steps) return;
        gaps[m][next].Add(Value(problem.objective, w) - c.F_star);
        report.largest_deviation =
            std::max(report.largest_deviation,
                     std::sqrt(GradientVariance(problem.objective, w)));
        ++next;
      };
      if (run == 0 && methods[m] != LocalTraining::kFedAvg) {
        observer.on_mask = [&](const Masking& masking, const LocalStep& at,
                               std::span<const float> u) {
          masking_error.AddStep(masking, at, u);
        };
        observer.on_send = [&](const Masking& masking, std::span<const float> u,
                               std::span<const float> sent) {
          masking_error.AddSent(masking, u, sent);
        };
      }
      const Result<Extremes> extremes =
          RunFederated(problem.objective, schedule, methods[m],
                       RunSeed(s.seed, run), start, observer);
      if (!extremes) return extremes.error();
      report.largest_gradient =
          std::max(report.largest_gradient, extremes->gradient_norm);
      if (methods[m] == LocalTraining::kFedAvg) continue;
      report.largest_update_over_noise = std::max(
          report.largest_update_over_noise, extremes->update_over_noise);
    }
  }
  report.assumptions_hold = report.largest_gradient <= c.G &&
                            report.largest_deviation <= c.sigma &&
                            report.largest_update_over_noise <= 1;

  BoundInputs inputs{c, static_cast<double>(s.clients),
                     static_cast<double>(s.sampled),
                     static_cast<double>(s.steps), 0};
  report.bound_holds = true;
  for (size_t i = 0; i < recorded.size(); ++i) {
    ConvexRow row;
    row.steps = uint64_t{recorded[i]} * s.steps;
    row.fedavg = gaps[0][i].estimate();
    row.fedmrn = gaps[1][i].estimate();
    // The worst round so far is the first, or with fixed noise the last.
    for (const uint64_t last : {uint64_t{s.steps}, row.steps}) {
      row.lemma_q = std::max(row.lemma_q,
                             LemmaQ(s.dimension, magnitude(last - s.steps + 1),
                                    step_size(last), s.steps, c.G));
    }
    // w_1 is the start, so after T steps the model is the proofs' w_{T+1}.
    const double T = static_cast<double>(row.steps) + 1;
    inputs.q = 0;
    row.fedavg_bound =
        ConvexBound(inputs, report.gamma, T, report.start_distance);
    inputs.q = row.lemma_q;
    row.fedmrn_bound =
        ConvexBound(inputs, report.gamma, T, report.start_distance);
    report.bound_holds = report.bound_holds &&
                         row.fedavg.mean <= row.fedavg_bound &&
                         row.fedmrn.mean <= row.fedmrn_bound;
    report.rows.push_back(row);
  }
  const auto slope = [&](const std::vector<Samples>& gap) {
    std::vector<Point> points;
    for (size_t i = 0; i < recorded.size(); ++i) {
      const uint64_t T = report.rows[i].steps;
      if (T * 10 < report.rows.back().steps) continue;
      points.push_back({T, report.gamma + static_cast<double>(T) + 1, gap[i]});
    }
    return FitSlope(points);
  };
  report.fedavg = slope(gaps[0]);
  report.fedmrn = slope(gaps[1]);
  return report;
}

Result<NetworkReport> CheckNetwork(const Settings& s, Work& work) {
  const NetworkProblem problem =
      MakeNetworkProblem(LinearExamples(s.seed, s.clients, kNetworkExamples,
                                        kNetworkInputs, s.heterogeneity),
                         kHidden);
  NetworkReport report;
  const Constants& c = report.constants = problem.constants;
  report.params = problem.objective.params;
  std::vector<double> start(problem.objective.params);
  Random random({s.seed, Purpose::kInit, 1u << 31});
  for (double& w : start) w = random.Normal();
  report.start_value = Value(problem.objective, start);
  report.bound_holds = true;

  BoundInputs inputs{c, static_cast<double>(s.clients),
                     static_cast<double>(s.sampled),
                     static_cast<double>(s.steps), 0};
  std::vector<Point> fedavg_points, fedmrn_points;
  for (uint32_t i = 0; i < kNetworkTimes; ++i) {
    const uint32_t rounds =
        std::max(1u, s.rounds >> (2 * (kNetworkTimes - i) - 1));
    NetworkRow row;
    row.steps = uint64_t{rounds} * s.steps;
    const auto T = static_cast<double>(row.steps);
    const double eta = 1 / (c.L * std::sqrt(T));
    const double magnitude = 2 * eta * s.steps * c.G;
    const Schedule schedule{s.sampled, s.steps, rounds,
                            [=](uint64_t) { return eta; },
                            [=](uint64_t) { return magnitude; }};
    report.lemma_q = LemmaQ(static_cast<double>(report.params), magnitude, eta,
                            s.steps, c.G);

    Samples fedavg, fedmrn;
    std::vector<double> gradient(problem.objective.params);
    for (uint32_t run = 0; run < std::min(s.seeds, kNetworkSeeds); ++run) {
      for (const LocalTraining training :
           {LocalTraining::kFedAvg, FedMrnOf(s)}) {
        double sum = 0, count = 0;
        uint64_t t = 0;
        Observer observer;
        observer.on_step = [&](std::span<const double> mean_w) {
          work.Done(1 + s.clients);
          // Every (S+1)-th t visits all positions in a round, in turn.
          if (t++ % (s.steps + 1) != 0) return;
          Value(problem.objective, mean_w, gradient);
          for (const double g : gradient) sum += g * g;
          ++count;
        };
        const Result<Extremes> extremes =
            RunFederated(problem.objective, schedule, training,
                         RunSeed(s.seed, run), start, observer);
        if (!extremes) return extremes.error();
        report.largest_gradient =
            std::max(report.largest_gradient, extremes->gradient_norm);
        (training == LocalTraining::kFedAvg ? fedavg : fedmrn).Add(sum / count);
      }
    }
    row.fedavg = fedavg.estimate();
    row.fedmrn = fedmrn.estimate();
    fedavg_points.push_back({row.steps, T, fedavg});
    fedmrn_points.push_back({row.steps, T, fedmrn});
    inputs.q = 0;
    row.fedavg_bound = NetworkBound(inputs, T, report.start_value);
    inputs.q = report.lemma_q;
    row.fedmrn_bound = NetworkBound(inputs, T, report.start_value);
    report.bound_holds = report.bound_holds &&
                         row.fedavg.mean <= row.fedavg_bound &&
                         row.fedmrn.mean <= row.fedmrn_bound;
    report.rows.push_back(row);
  }
  report.fedavg = FitSlope(fedavg_points);
  report.fedmrn = FitSlope(fedmrn_points);
  return report;
}

// 4 (q^2 (N-1) + N - K) / (K (N-1)) S^2 G^2: sampling and the final masks.
double AggregationTerm(const BoundInputs& in) {
  return 4 * (in.q * in.q * (in.clients - 1) + in.clients - in.sampled) /
         (in.sampled * (in.clients - 1)) * in.steps * in.steps *
         in.constants.G * in.constants.G;
}

// (1 + q^2) (S-1)^2 G^2: how far a client is from the mean of all.
double DriftTerm(const BoundInputs& in) {
  return (1 + in.q * in.q) * (in.steps - 1) * (in.steps - 1) * in.constants.G *
         in.constants.G;
}

}  // namespace

double ConvexBound(const BoundInputs& in, double gamma, double T,
                   double start_distance) {
  const Constants& c = in.constants;
  const double B = c.sigma * c.sigma / in.clients + 6 * c.L * c.Gamma +
                   8 * DriftTerm(in) + AggregationTerm(in);
  return c.L / c.mu / (gamma + T) *
         (2 * B / c.mu + c.mu * (gamma + 1) / 2 * start_distance);
}

double NetworkBound(const BoundInputs& in, double T, double start_value) {
  const Constants& c = in.constants;
  const double P = c.sigma * c.sigma / in.clients + AggregationTerm(in);
  const double Q = 4 * DriftTerm(in);
  return (2 * c.L * (start_value - c.F_star) + P) / std::sqrt(T) + Q / T;
}

double LemmaQ(double params, double magnitude, double last_step_size,
              double steps, double G) {
  return std::sqrt(params) * magnitude / (2 * last_step_size * (steps - 1) * G);
}

Result<Report> Check(const Settings& settings,
                     const std::function<void(double share)>& on_progress) {
  const Status sound = CheckSettings(settings);
  if (!sound) return sound.error();
  Work work(TotalWork(settings), on_progress);
  MaskingErrorSums masking_error(settings.steps);
  Report report;
  Result<ConvexReport> convex = CheckConvex(settings, work, masking_error);
  if (!convex) return convex.error();
  report.convex = std::move(*convex);
  report.masking = CheckMasking(settings.seed, settings.steps, masking_error);
  Result<NetworkReport> network = CheckNetwork(settings, work);
  if (!network) return network.error();
  report.network = std::move(*network);
  return report;
}

}  // namespace fedmrn::theory
