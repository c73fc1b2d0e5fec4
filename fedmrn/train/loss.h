// Losses and metrics.
#pragma once

#include <cstdint>
#include <span>

namespace fedmrn {

// Sums over examples, so that parts of a test set can be added up.
struct Score {
  double loss = 0;
  uint64_t correct = 0;
  uint64_t count = 0;
};

// Softmax cross-entropy of one row of logits per label. `gradient`, if not
// null, receives the gradient of the mean loss; it may be the logits' memory.
Score CrossEntropy(std::span<const float> logits,
                   std::span<const uint16_t> labels, float* gradient);

}  // namespace fedmrn
