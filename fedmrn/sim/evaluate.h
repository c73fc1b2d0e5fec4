// The global model put to the test.
#pragma once

#include <cstdint>

#include "fedmrn/sim/model.h"
#include "fedmrn/sim/progress.h"
#include "fedmrn/sim/workers.h"
#include "fedmrn/train/task.h"

namespace fedmrn::sim {

// Test examples that a network sees at a time.
inline constexpr uint32_t kTestBatch = 64;

// A network's score over the whole test set; the same for any number of
// workers. Not complete if progress.stop was set.
train::Score Evaluate(const train::Task& task, const GlobalModel& network,
                      Workers& workers, Progress& progress);

}  // namespace fedmrn::sim
