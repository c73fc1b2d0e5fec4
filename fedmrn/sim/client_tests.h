// The model as single clients meet it: tested on their own held-out examples,
// as it is and after one local round of theirs (personalised).
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/results/results.h"
#include "fedmrn/sim/config.h"
#include "fedmrn/sim/executor.h"
#include "fedmrn/sim/model.h"
#include "fedmrn/sim/partition.h"
#include "fedmrn/sim/progress.h"
#include "fedmrn/sim/workers.h"

namespace fedmrn::sim {

// Scores of several clients, of which NaN count for none; NaN if none is left.
struct ClientScores {
  double mean = std::nan("");
  double p10 = std::nan("");  // a tenth of them, rounded up, do not exceed it
  double worst = std::nan("");
};
ClientScores ClientScoresOf(std::vector<double> scores);

class ClientTests {
 public:
  // All references outlive it. The task's test examples are those of
  // `held_out`, client after client. Takes run.eval_clients of those that have
  // some, the same ones in every round.
  ClientTests(const Config& config, const train::Task& task,
              const Partition& held_out, const client::States& states,
              Executor& executor, Workers& workers, Progress& progress);

  // Fills the row's scores of clients after round `round`, and adds the time
  // that it takes. What a client would answer in the next round, were it
  // asked, makes the model its own; nobody commits it. Fails if the executor
  // does or a state cannot be read, or with kStopped.
  Status Test(uint32_t round, const GlobalModel& model,
              results::RoundRow& row) const;

 private:
  // On the client's own examples, and with those tensors of its state that
  // never leave it.
  Result<double> ScoreOf(client::Bench& bench, uint32_t client,
                         const GlobalModel& network,
                         const Result<std::vector<float>>& state) const;
  Result<std::vector<double>> PersonalScores(uint32_t round,
                                             const GlobalModel& model) const;

  const Config& config_;
  const train::Task& task_;
  const Partition& held_out_;
  const client::States& states_;
  Executor& executor_;
  Workers& workers_;
  Progress& progress_;
  std::vector<uint32_t> clients_;
};

}  // namespace fedmrn::sim
