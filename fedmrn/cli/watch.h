// A run as people see it: a live line on a terminal, plain lines in a pipe.
#pragma once

#include <string>

#include "fedmrn/base/result.h"
#include "fedmrn/cli/live.h"
#include "fedmrn/sim/run.h"

namespace fedmrn::cli {

// Runs with progress on stderr; Ctrl-C stops after the step at work. `label`
// stands at the head of each line.
Result<sim::RunResult> RunWatched(const sim::Config& config,
                                  sim::RunOptions options,
                                  const std::string& label);

// "  mean IoU 12.34 %", or nothing of what is no segmentation.
std::string MeanIouText(const results::RoundRow& row);

}  // namespace fedmrn::cli
