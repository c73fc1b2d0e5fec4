// How far a run is, for whoever watches it from another thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace fedmrn::sim {

enum class Phase : uint32_t { kLoading, kTraining, kEvaluating };

struct Progress {
  std::atomic<Phase> phase = Phase::kLoading;
  std::atomic<uint32_t> round = 0;  // the one at work, from 1
  std::atomic<uint64_t> steps_done = 0, steps_total = 0;  // of this round
  std::atomic<uint64_t> tests_done = 0, tests_total = 0;
  std::atomic<uint64_t> examples_trained = 0;  // since the program started
  // An executor with ranks counts here; 0: there are none.
  std::atomic<uint32_t> ranks = 0, clients_under_way = 0;
  std::atomic<const char*> metric = "accuracy";  // see Model::metric
  std::atomic<bool> stop = false;                // set by the watcher
};

}  // namespace fedmrn::sim
