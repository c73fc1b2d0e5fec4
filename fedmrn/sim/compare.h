// All runs of a grid, each in its folder OUT/NAME, several at the same time.
// A finished run is never run again, an interrupted one goes on from its last
// checkpoint.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/results/results.h"
#include "fedmrn/results/summary.h"
#include "fedmrn/sim/grid.h"
#include "fedmrn/sim/progress.h"

namespace fedmrn::sim {

enum class RunState { kNew, kInterrupted, kFinished, kFailed };

// A run of a grid as it stands.
struct GridOutcome {
  RunState state = RunState::kNew;
  std::vector<results::RoundRow> rows;
  std::string error = {};           // of a failed one
  std::string metric = "accuracy";  // what the scores of a finished one are
};

// What the runs' folders hold; changes nothing. The error names the first
// folder with a run of another config, or with one that is damaged.
Result<std::vector<GridOutcome>> FindRuns(const Grid& grid,
                                          const std::string& out);

struct GridRunOptions {
  std::string out;
  uint32_t jobs = 1;             // runs at the same time
  bool partial = false;          // other processes have other runs of `out`
  std::string version;           // of the program, for run.json
  std::span<Progress> progress;  // one for each run; `stop` in all stops them
  // Called by one thread at a time, with the index of the run.
  std::function<void(size_t run)> on_start;
  // With the rows of a resumed run first, then after each round.
  std::function<void(size_t run, std::span<const results::RoundRow> rows)>
      on_round;
  std::function<void(size_t run, const GridOutcome& outcome)> on_end;
  std::function<void(size_t run, const std::string& message)> log;
};

// Runs what is not finished, and brings `outcomes`, as of FindRuns, up to date.
// A run that fails does not keep the others from theirs. Runs whose config has
// run.workers = 0 share the cores. The error is that of another process at work
// in the same folder.
Status RunGrid(const Grid& grid, const GridRunOptions& options,
               std::span<GridOutcome> outcomes);

// Runs that differ in their seeds alone, those that are finished.
struct SummaryRow {
  std::vector<std::string> labels;  // of each axis but seeds
  std::string metric = "accuracy";  // what the scores are
  results::SeedsSummary summary;
  double target = std::nan("");  // an accuracy, and what it took to reach it
  results::ToTarget to_target = {};
};
// The rounds.target_accuracy of all runs; NaN if they have none in common.
double TargetOf(const Grid& grid);
// `target` NaN: none.
std::vector<SummaryRow> Summarise(const Grid& grid,
                                  std::span<const GridOutcome> outcomes,
                                  double target);
// Names and units as in rounds.csv; what is not known is an empty field.
std::string SummaryCsv(const Grid& grid, std::span<const SummaryRow> rows);

}  // namespace fedmrn::sim
