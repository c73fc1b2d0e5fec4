#include "fedmrn/train/model/loss.h"

#include <algorithm>
#include <cmath>

namespace fedmrn::train {

void Score::Add(const Score& part) {
  loss += part.loss;
  metric += part.metric;
  count += part.count;
  confusion.resize(std::max(confusion.size(), part.confusion.size()));
  for (size_t i = 0; i < part.confusion.size(); ++i) {
    confusion[i] += part.confusion[i];
  }
}

double MeanIou(std::span<const uint64_t> confusion) {
  const auto classes = static_cast<size_t>(
      std::lround(std::sqrt(static_cast<double>(confusion.size()))));
  double sum = 0;
  size_t occurring = 0;
  for (size_t c = 0; c < classes; ++c) {
    uint64_t truths = 0, answers = 0;
    for (size_t other = 0; other < classes; ++other) {
      truths += confusion[c * classes + other];
      answers += confusion[other * classes + c];
    }
    const uint64_t both = confusion[c * classes + c];
    if (truths + answers == 0) continue;
    sum += static_cast<double>(both) /
           static_cast<double>(truths + answers - both);
    ++occurring;
  }
  return occurring == 0 ? std::nan("") : sum / static_cast<double>(occurring);
}

namespace {

// What one row of logits says: the class of the largest (the first of equals)
// and the softmax's denominator, relative to it.
struct LogitsRow {
  size_t answer = 0;
  float top = 0;
  double sum = 0;

  explicit LogitsRow(std::span<const float> z) {
    const auto largest = std::max_element(z.begin(), z.end());
    answer = static_cast<size_t>(largest - z.begin());
    top = *largest;
    for (float v : z) sum += std::exp(v - top);
  }
  double Loss(float of_label) const { return std::log(sum) - (of_label - top); }
};

}  // namespace

Score CrossEntropy(std::span<const float> logits,
                   std::span<const int32_t> labels) {
  const size_t classes = logits.size() / labels.size();
  Score score;
  score.count = labels.size();
  const bool keeps_confusion = classes <= kConfusionClasses;
  score.confusion.resize(keeps_confusion ? classes * classes : 0);
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::span<const float> z = logits.subspan(i * classes, classes);
    const auto label = static_cast<size_t>(labels[i]);
    const LogitsRow row(z);
    score.metric += row.answer == label ? 1 : 0;
    score.loss += row.Loss(z[label]);
    if (keeps_confusion) ++score.confusion[label * classes + row.answer];
  }
  return score;
}

BatchScore CrossEntropy(std::span<const float> logits,
                        std::span<const int32_t> labels, float* gradient) {
  const size_t classes = logits.size() / labels.size();
  const float share = 1 / static_cast<float>(labels.size());
  BatchScore score;
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::span<const float> z = logits.subspan(i * classes, classes);
    const auto label = static_cast<size_t>(labels[i]);
    const LogitsRow row(z);
    score.metric += row.answer == label ? 1 : 0;
    score.loss += row.Loss(z[label]);
    const auto inverse = static_cast<float>(1 / row.sum);
    float* const to = gradient + i * classes;
    for (size_t c = 0; c < classes; ++c) {
      const float p = std::exp(z[c] - row.top) * inverse;
      to[c] = share * (p - (c == label ? 1.0f : 0.0f));
    }
  }
  const auto count = static_cast<double>(labels.size());
  return {score.loss / count, score.metric / count};
}

}  // namespace fedmrn::train
