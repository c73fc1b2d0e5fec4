// Tensors that stay on the client (method.local): a head of its own, or batch
// norm (FedBN). To methods, frames and the server the model is the rest of the
// network.
#pragma once

#include <cstdint>
#include <string>

#include "fedmrn/base/result.h"
#include "fedmrn/train/task.h"

namespace fedmrn::train {

// The task whose model lacks the tensors of these patterns (name_patterns.h).
// Its learners have them (Learner::local) and put them in their places; until a
// client's own are given, and in the TorchScript file, these have the initial
// values of `seed`. The error names the tensors that there are.
Result<Task> WithLocalTensors(Task task, const std::string& patterns,
                              uint64_t seed);

}  // namespace fedmrn::train
