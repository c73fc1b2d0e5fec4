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
  // Where classes are tested, [truth * classes + answer] counts how often one
  // was taken for another; empty if there are more than kConfusionClasses.
  std::vector<uint64_t> confusion;

  void Add(const Score& part);
};

// For more the matrix would take more memory than a small network, and no one
// could read it. (Pixels have it always: their mean IoU is made of it.)
inline constexpr size_t kConfusionClasses = 256;

// Means over one batch of training, before the step that it leads to.
struct BatchScore {
  double loss = 0;
  double metric = 0;
};

// Mean over the classes that occur of |truth and answer| / |truth or answer|.
double MeanIou(std::span<const uint64_t> confusion);

// Softmax cross-entropy of one row of logits per label, with the confusion.
Score CrossEntropy(std::span<const float> logits,
                   std::span<const int32_t> labels);
// The same for training: the gradient of the mean loss goes to `gradient`,
// which may be the logits' memory.
BatchScore CrossEntropy(std::span<const float> logits,
                        std::span<const int32_t> labels, float* gradient);

}  // namespace fedmrn::train
