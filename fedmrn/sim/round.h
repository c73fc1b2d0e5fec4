// One round of federated learning (paper, Algorithm 1). Start reading here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"
#include "fedmrn/core/aggregate.h"
#include "fedmrn/core/layout.h"
#include "fedmrn/results/results.h"
#include "fedmrn/sim/config.h"
#include "fedmrn/sim/executor.h"
#include "fedmrn/sim/model.h"
#include "fedmrn/sim/progress.h"
#include "fedmrn/sim/workers.h"

namespace fedmrn::sim {

struct RoundContext {
  const Config& config;
  const train::Task& task;
  uint64_t fingerprint;            // of the task's layout
  std::vector<uint32_t> examples;  // of each client
  Executor& executor;
  Workers& workers;  // for evaluation and aggregation
  Progress& progress;
  std::function<void(const std::string&)> log;  // failed clients
  std::string save_frames = {};                 // as in RunOptions
};

// What a round leaves behind beside the model.
struct RoundResult {
  results::RoundRow row;
  // The test after it gave this; empty if there was none, or none of classes.
  std::vector<uint64_t> confusion = {};
};

// Round `round` (from 1): on success the model is the new one. Fails if in
// several samples fewer than rounds.min_clients answered, if the executor does,
// or with kStopped.
Result<RoundResult> RunRound(const RoundContext& context, uint32_t round,
                             GlobalModel& model);

// The network that the model of a round stands for, to be tested and deployed:
// for most methods the model itself.
GlobalModel NetworkOf(const Config& config, const train::Task& task,
                      uint32_t round, const GlobalModel& model);

// What the frames of a round must look like, where the largest client has
// `most_examples`.
RoundSpec RoundSpecOf(const Config& config, const ModelLayout& layout,
                      uint32_t round, const GlobalModel& model,
                      uint32_t most_examples);

// The model as it goes to clients and into checkpoints.
Result<Bytes> EncodeModel(const Config& config, uint64_t fingerprint,
                          uint32_t round, const GlobalModel& model);

}  // namespace fedmrn::sim
