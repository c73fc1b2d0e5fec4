#include "fedmrn/train/loss.h"

#include <algorithm>
#include <cmath>

namespace fedmrn {

Score CrossEntropy(std::span<const float> logits,
                   std::span<const uint16_t> labels, float* gradient) {
  const size_t classes = logits.size() / labels.size();
  const float share = 1 / static_cast<float>(labels.size());
  Score score;
  score.count = labels.size();
  for (size_t row = 0; row < labels.size(); ++row) {
    const std::span<const float> z = logits.subspan(row * classes, classes);
    const auto largest = std::max_element(z.begin(), z.end());
    const float top = *largest;
    score.correct += largest - z.begin() == labels[row];
    double sum = 0;
    for (float v : z) sum += std::exp(v - top);
    score.loss += std::log(sum) - (z[labels[row]] - top);
    if (gradient == nullptr) continue;
    const auto inverse = static_cast<float>(1 / sum);
    float* const to = gradient + row * classes;
    for (size_t c = 0; c < classes; ++c) {
      const float p = std::exp(z[c] - top) * inverse;
      to[c] = share * (p - (c == labels[row] ? 1.0f : 0.0f));
    }
  }
  return score;
}

}  // namespace fedmrn
