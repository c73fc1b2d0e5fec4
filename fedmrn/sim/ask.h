// What executors share: one client asked, and the order of asking.
#pragma once

#include <vector>

#include "fedmrn/sim/executor.h"

namespace fedmrn::sim {

// Asks a real client: with the run's injected faults and its deadline, counting
// the steps in its progress. What a client throws costs nobody but itself,
// unless memory has run out.
Ask AskOf(const ExecutorParts& parts);

// Whether it was not the client that failed but this machine, out of memory or
// disk. Then the run must end: without the client it would go on to another
// model than it has elsewhere.
Status CheckMachine(const RoundOrder& order, uint32_t client,
                    const Result<client::Answer>& answer);

// The order's clients, longest first, so that nobody starts a long one when the
// others are done; the progress then knows how much there is to do.
std::vector<uint32_t> LongestFirst(const ExecutorParts& parts,
                                   const RoundOrder& order);

}  // namespace fedmrn::sim
