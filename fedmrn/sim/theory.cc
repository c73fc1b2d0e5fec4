#include "fedmrn/sim/theory.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "fedmrn/core/random.h"
#include "fedmrn/sim/theory_run.h"

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

// Collects one value per seed.
class Samples {
 public:
  void Add(double value) {
    ++count_;
    sum_ += value;
    squares_ += value * value;
  }
  Estimate estimate() const {
    const double mean = sum_ / count_;
    const double variance =
        std::max(0.0, squares_ / count_ - mean * mean) / (count_ - 1);
    return {mean, std::sqrt(variance)};
  }

 private:
  double count_ = 0, sum_ = 0, squares_ = 0;
};

// Points are (x, y) with the T that they belong to.
struct Point {
  uint64_t T;
  double x, y;
};

Slope FitSlope(const std::vector<Point>& points) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const Point& point : points) {
    const double log_x = std::log(point.x), log_y = std::log(point.y);
    n += 1;
    x += log_x;
    y += log_y;
    xx += log_x * log_x;
    xy += log_x * log_y;
  }
  return {(n * xy - x * y) / (n * xx - x * x), points.front().T,
          points.back().T};
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

// Sums |S(x) - x|^2 and |x|^2 in units of the noise's magnitude, so that late
// rounds, whose noise is small, count as much as early ones.
class ErrorSums {
 public:
  explicit ErrorSums(uint32_t steps) : steps_(steps) {}

  // Masks x as in the forward pass of `at`, without PM and with.
  void AddStep(Masking masking, const LocalStep& at, std::span<const float> x) {
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

  void AddSent(const Masking& masking, std::span<const float> x,
               std::span<const float> sent) {
    const double unit = masking.noise.magnitude;
    zero_.assign(x.size(), 0.0f);
    sent_.sm += SquaredDistance(sent, x) / (unit * unit);
    sent_.x += SquaredDistance(x, zero_) / (unit * unit);
  }

  MaskingError result() const {
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

 private:
  struct Step {
    double sm = 0, pm = 0, sm_norm = 0, pm_norm = 0, x = 0;
  };

  static double SquaredDistance(std::span<const float> a,
                                std::span<const float> b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const double difference = double{a[i]} - double{b[i]};
      sum += difference * difference;
    }
    return sum;
  }

  std::vector<Step> steps_;
  Step sent_;
  std::vector<float> x_, zero_, hat_;
};

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
                                 ErrorSums& masking_error) {
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
  uint64_t frames = 0, frame_bytes = 0;
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
      frames += extremes->frames;
      frame_bytes += extremes->frame_bytes;
    }
  }
  report.bits_per_parameter =
      8.0 * static_cast<double>(frame_bytes) /
      (static_cast<double>(frames) * static_cast<double>(s.dimension));
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
  const auto slope = [&](Estimate ConvexRow::*gap) {
    std::vector<Point> points;
    for (const ConvexRow& row : report.rows) {
      if (row.steps * 10 < report.rows.back().steps) continue;
      points.push_back({row.steps,
                        report.gamma + static_cast<double>(row.steps) + 1,
                        (row.*gap).mean});
    }
    return FitSlope(points);
  };
  report.fedavg = slope(&ConvexRow::fedavg);
  report.fedmrn = slope(&ConvexRow::fedmrn);
  return report;
}

// One x for all steps: coordinates uniform within half the noise, as far as
// updates of S steps can come (|u| <= eta_0 S G, the noise is twice that).
MaskingError MeasureFixedVector(const Settings& s, double& q_exact) {
  constexpr size_t kParams = 4096;
  constexpr float kMagnitude = 1;
  const uint32_t draws = std::max(1u, 128 / s.steps);
  Random random({s.seed, Purpose::kSynthetic, 1u << 30});
  std::vector<float> x(kParams);
  double squares = 0;
  for (float& value : x) {
    value = static_cast<float>(random.Uniform() - 0.5);
    squares += double{value} * value;
  }
  q_exact = std::sqrt(kParams * kMagnitude * kMagnitude / squares - 1);
  ErrorSums sums(s.steps);
  for (uint32_t draw = 0; draw < draws; ++draw) {
    const Masking masking{MaskKind::kSigned,
                          true,
                          true,
                          {NoiseKind::kBernoulli, kMagnitude, random.Word64()},
                          random.Word64()};
    for (uint32_t step = 1; step <= s.steps; ++step) {
      sums.AddStep(masking, {step, s.steps, 0}, x);
    }
  }
  return sums.result();
}

MaskingReport CheckMasking(const Settings& s, const ErrorSums& sums) {
  MaskingReport report;
  report.trajectory = sums.result();
  report.fixed = MeasureFixedVector(s, report.fixed_q_exact);
  const double S = s.steps;
  report.proposition = std::sqrt((S + 1) * (2 * S + 1) / (6 * S * S));
  report.elementwise = std::sqrt((S + 1) / (2 * S));
  const auto agrees = [&](double factor) {
    return std::abs(report.fixed.ratio - factor) < 0.01;
  };
  report.proposition_holds = agrees(report.proposition);
  report.elementwise_holds = agrees(report.elementwise);
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
    inputs.q = 0;
    row.fedavg_bound = NetworkBound(inputs, T, report.start_value);
    inputs.q = report.lemma_q;
    row.fedmrn_bound = NetworkBound(inputs, T, report.start_value);
    report.bound_holds = report.bound_holds &&
                         row.fedavg.mean <= row.fedavg_bound &&
                         row.fedmrn.mean <= row.fedmrn_bound;
    report.rows.push_back(row);
  }
  const auto slope = [&](Estimate NetworkRow::*average) {
    std::vector<Point> points;
    for (const NetworkRow& row : report.rows) {
      points.push_back(
          {row.steps, static_cast<double>(row.steps), (row.*average).mean});
    }
    return FitSlope(points);
  };
  report.fedavg = slope(&NetworkRow::fedavg);
  report.fedmrn = slope(&NetworkRow::fedmrn);
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
  if (const Status sound = CheckSettings(settings); !sound)
    return sound.error();
  Work work(TotalWork(settings), on_progress);
  ErrorSums masking_error(settings.steps);
  Report report;
  Result<ConvexReport> convex = CheckConvex(settings, work, masking_error);
  if (!convex) return convex.error();
  report.convex = std::move(*convex);
  report.masking = CheckMasking(settings, masking_error);
  Result<NetworkReport> network = CheckNetwork(settings, work);
  if (!network) return network.error();
  report.network = std::move(*network);
  return report;
}

}  // namespace fedmrn::theory
