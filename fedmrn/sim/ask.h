// What executors share: one client asked, and the order of asking.
#pragma once

#include <vector>

#include "fedmrn/sim/executor.h"

namespace fedmrn::sim {

// Asks a real client: with the run's injected faults and its deadline, counting
// the steps in its progress. What a client throws costs nobody but itself.
Ask AskOf(const ExecutorParts& parts);

// The order's clients, longest first, so that nobody starts a long one when the
// others are done; the progress then knows how much there is to do.
std::vector<uint32_t> LongestFirst(const ExecutorParts& parts,
                                   const RoundOrder& order);

}  // namespace fedmrn::sim
