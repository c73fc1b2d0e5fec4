// Many runs as people see them: a live table on a terminal, a line for each
// start and end in a pipe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/cli/live.h"
#include "fedmrn/sim/compare.h"
#include "fedmrn/sim/grid.h"

namespace fedmrn::cli {

struct GridResult {
  std::vector<sim::GridOutcome> outcomes;
  bool stopped = false;  // by Ctrl-C; the same command goes on
};

// Runs what is not finished in the folder `out`, with progress on stderr.
// `partial`: as in sim::GridRunOptions.
Result<GridResult> RunGridWatched(const sim::Grid& grid, const std::string& out,
                                  uint32_t jobs, bool partial = false);

// For --jobs: as many runs at the same time as there are cores.
uint32_t DefaultJobs();

// Failed runs on stderr, each with its reason; whether there are any.
bool PrintFailures(const sim::Grid& grid, const GridResult& result);

}  // namespace fedmrn::cli
