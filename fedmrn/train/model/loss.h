// Losses and metrics.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fedmrn/base/settings.h"

namespace fedmrn::train {

// The losses that a user's own network can be trained with.
enum class LossKind {
  kAuto,  // what suits the data
  kCrossEntropy,
  kMse,
  kBackCe,  // of images in which only some classes are labelled
};
inline constexpr Choice kLosses[] = {{"auto", LossKind::kAuto},
                                     {"cross-entropy", LossKind::kCrossEntropy},
                                     {"mse", LossKind::kMse},
                                     {"backce", LossKind::kBackCe}};

// Sums over examples (over pixels, where these have classes), so that parts of
// a test set can be added up.
struct Score {
  double loss = 0;
  double metric = 0;  // right answers; see Model::metric
  uint64_t count = 0;
  // Where pixels have classes, [truth * classes + answer] counts how often one
  // was taken for another; else it is empty.
  std::vector<uint64_t> confusion;

  void Add(const Score& part);
};

// Mean over the classes that occur of |truth and answer| / |truth or answer|.
double MeanIou(std::span<const uint64_t> confusion);

// Softmax cross-entropy of one row of logits per label. `gradient`, if not
// null, receives the gradient of the mean loss; it may be the logits' memory.
Score CrossEntropy(std::span<const float> logits,
                   std::span<const int32_t> labels, float* gradient);

}  // namespace fedmrn::train
