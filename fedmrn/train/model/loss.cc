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

Score CrossEntropy(std::span<const float> logits,
                   std::span<const int32_t> labels, float* gradient) {
  const size_t classes = logits.size() / labels.size();
  const float share = 1 / static_cast<float>(labels.size());
  Score score;
  score.count = labels.size();
  for (size_t row = 0; row < labels.size(); ++row) {
    const std::span<const float> z = logits.subspan(row * classes, classes);
    const auto largest = std::max_element(z.begin(), z.end());
    const float top = *largest;
    const auto label = static_cast<size_t>(labels[row]);
    score.metric += largest - z.begin() == labels[row] ? 1 : 0;
    double sum = 0;
    for (float v : z) sum += std::exp(v - top);
    score.loss += std::log(sum) - (z[label] - top);
    if (gradient == nullptr) continue;
    const auto inverse = static_cast<float>(1 / sum);
    float* const to = gradient + row * classes;
    for (size_t c = 0; c < classes; ++c) {
      const float p = std::exp(z[c] - top) * inverse;
      to[c] = share * (p - (c == label ? 1.0f : 0.0f));
    }
  }
  return score;
}

}  // namespace fedmrn::train
