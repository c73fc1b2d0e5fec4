#include "fedmrn/theory/run.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fedmrn/client/client.h"
#include "fedmrn/core/aggregate.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/random.h"
#include "fedmrn/sim/sampling.h"

namespace fedmrn::theory {
namespace {

// One client after the other, in the same buffers.
class Client {
 public:
  Client(const Objective& objective, const Schedule& schedule,
         LocalTraining training, const Observer& observer)
      : objective_(objective),
        schedule_(schedule),
        training_(training),
        observer_(observer),
        u_(objective.params),
        effective_(objective.params),
        gradient_(objective.params),
        at_(objective.params),
        exact_gradient_(objective.params) {}

  // Lines 12-19 from `weights`; `before_step` sees u before every step.
  template <typename BeforeStep>
  void Train(uint32_t client, uint64_t first_step, const Masking& masking,
             std::span<const float> weights, const BeforeStep& before_step) {
    std::ranges::fill(u_, 0.0f);
    Random examples({masking.draw_seed, Purpose::kShuffle, 0});
    for (uint32_t step = 1; step <= schedule_.steps; ++step) {
      before_step(step, u_);
      const LocalStep at{step, schedule_.steps, 0};
      if (training_ == LocalTraining::kFedAvg) {
        for (size_t i = 0; i < u_.size(); ++i) {
          effective_[i] = weights[i] + u_[i];
        }
      } else {
        if (observer_.on_mask) observer_.on_mask(masking, at, u_);
        MaskedStep(masking, at, weights, {}, u_, effective_);
      }
      Gradient(client,
               static_cast<uint32_t>(examples.Below(objective_.examples)));
      const auto eta =
          static_cast<float>(schedule_.step_size(first_step + step - 1));
      for (size_t i = 0; i < u_.size(); ++i) u_[i] -= eta * gradient_[i];
    }
    for (const float u : u_) {
      extremes_.update_over_noise =
          std::max(extremes_.update_over_noise,
                   std::abs(u) / double{masking.noise.magnitude});
    }
  }

  std::span<const float> update() const { return u_; }
  const Extremes& extremes() const { return extremes_; }

 private:
  void Gradient(uint32_t client, uint32_t example) {
    std::copy(effective_.begin(), effective_.end(), at_.begin());
    std::ranges::fill(exact_gradient_, 0.0);
    objective_.loss(client, example, at_, exact_gradient_);
    double squares = 0;
    for (size_t i = 0; i < gradient_.size(); ++i) {
      gradient_[i] = static_cast<float>(exact_gradient_[i]);
      squares += exact_gradient_[i] * exact_gradient_[i];
    }
    extremes_.gradient_norm =
        std::max(extremes_.gradient_norm, std::sqrt(squares));
  }

  const Objective& objective_;
  const Schedule& schedule_;
  const LocalTraining training_;
  const Observer& observer_;
  std::vector<float> u_, effective_, gradient_;
  std::vector<double> at_, exact_gradient_;
  Extremes extremes_;
};

Masking MaskingOf(LocalTraining training, double magnitude, uint64_t seed,
                  uint32_t round, uint32_t client) {
  const client::Seeds seeds = client::SeedsOf(seed, round, client);
  return {MaskKind::kSigned,
          /*stochastic=*/true,
          training == LocalTraining::kPsm,
          {NoiseKind::kBernoulli, static_cast<float>(magnitude), seeds.noise},
          seeds.draw};
}

}  // namespace

Result<Extremes> RunFederated(const Objective& objective,
                              const Schedule& schedule, LocalTraining training,
                              uint64_t seed, std::span<const double> start,
                              const Observer& observer) {
  const bool masked = training != LocalTraining::kFedAvg;
  const size_t params = objective.params;
  std::vector<float> weights(start.begin(), start.end());
  std::vector<float> sent(params);
  std::vector<double> w(params);
  std::vector<double> mean_w(observer.on_step ? schedule.steps * params : 0);
  std::vector<uint32_t> everyone(objective.clients);
  std::iota(everyone.begin(), everyone.end(), 0u);
  Client client(objective, schedule, training, observer);

  for (uint32_t round = 1; round <= schedule.rounds; ++round) {
    const uint64_t first_step = uint64_t{round - 1} * schedule.steps + 1;
    const double magnitude = schedule.magnitude(first_step);
    RoundSpec spec;
    spec.round = round;
    spec.params = params;
    spec.codec = masked ? CodecId::kMrnSigned : CodecId::kFloat32;
    if (masked) {
      spec.noise = NoiseKind::kBernoulli;
      spec.magnitude = static_cast<float>(magnitude);
    }
    spec.max_examples = 1;  // all clients weigh the same
    spec.max_abs_value = kMaxMagnitude;
    Result<Aggregator> aggregator = Aggregator::Create(spec);
    if (!aggregator) return aggregator.error();

    const std::vector<uint32_t> sampled = sim::SampleClients(
        seed, round, /*attempt=*/0, objective.clients, schedule.sampled);
    std::ranges::fill(mean_w, 0.0);
    for (const uint32_t k : observer.on_step ? everyone : sampled) {
      const Masking masking = MaskingOf(training, magnitude, seed, round, k);
      client.Train(k, first_step, masking, weights,
                   [&](uint32_t step, std::span<const float> u) {
                     if (!observer.on_step) return;
                     double* const mean = &mean_w[(step - 1) * params];
                     for (size_t i = 0; i < params; ++i) {
                       mean[i] +=
                           (double{weights[i]} + u[i]) / objective.clients;
                     }
                   });
      if (!std::ranges::binary_search(sampled, k)) continue;

      FrameHeader header;
      header.codec = spec.codec;
      header.round = round;
      header.client = k;
      header.examples = 1;
      EncodeOptions options;
      options.draw_seed = masking.draw_seed;
      if (masked) header.noise = masking.noise;
      const Result<Bytes> frame =
          EncodeFrame(header, options, client.update(), {});
      if (!frame) return frame.error();
      if (const Status added = aggregator->Add(*frame); !added) {
        return added.error();
      }
      if (observer.on_send) {
        const Result<FrameView> view = ParseFrame(*frame);
        if (!view) return view.error();
        DecodeUpdate(*view, sent);
        observer.on_send(masking, client.update(), sent);
      }
    }
    if (const Status finished = aggregator->Finish(weights, {}); !finished) {
      return finished.error();
    }
    if (observer.on_step) {
      for (uint32_t step = 0; step < schedule.steps; ++step) {
        observer.on_step(std::span(mean_w).subspan(step * params, params));
      }
    }
    if (observer.on_round) {
      std::copy(weights.begin(), weights.end(), w.begin());
      observer.on_round(uint64_t{round} * schedule.steps, w);
    }
  }
  return client.extremes();
}

}  // namespace fedmrn::theory
