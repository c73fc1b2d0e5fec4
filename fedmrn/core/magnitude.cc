#include "fedmrn/core/magnitude.h"

#include <algorithm>
#include <cmath>

#include "fedmrn/base/check.h"

namespace fedmrn {

uint64_t MagnitudesView::params() const {
  uint64_t sum = 0;
  for (size_t t = 0; t < size(); ++t) sum += (*this)[t].length;
  return sum;
}

bool operator==(const MagnitudesView& a, const MagnitudesView& b) {
  return std::ranges::equal(a.bytes(), b.bytes());
}

Bytes MagnitudeBytes(std::span<const TensorMagnitude> magnitudes) {
  Bytes bytes;
  for (const TensorMagnitude& tensor : magnitudes) {
    AppendLe(tensor.length, bytes);
    AppendLe(tensor.magnitude, bytes);
  }
  return bytes;
}

Bytes MagnitudeBytes(std::span<const uint32_t> lengths, float magnitude) {
  std::vector<TensorMagnitude> magnitudes;
  for (const uint32_t length : lengths) {
    magnitudes.push_back({length, magnitude});
  }
  return MagnitudeBytes(magnitudes);
}

Bytes SteerMagnitudes(const MagnitudesView& magnitudes,
                      std::span<const uint64_t> beyond, uint64_t clients,
                      double target) {
  FEDMRN_CHECK(beyond.size() == magnitudes.size());
  FEDMRN_CHECK(clients > 0 && target > 0);
  std::vector<TensorMagnitude> next;
  for (size_t t = 0; t < beyond.size(); ++t) {
    const auto [length, magnitude] = magnitudes[t];
    const double share =
        static_cast<double>(beyond[t]) / static_cast<double>(clients * length);
    // Square roots are exact to the last bit wherever IEEE 754 holds.
    const double factor = std::clamp(std::sqrt(share / target), 0.5, 2.0);
    next.push_back({length, std::clamp(static_cast<float>(magnitude * factor),
                                       kLeastSteered, kMostSteered)});
  }
  return MagnitudeBytes(next);
}

double MeanMagnitude(const MagnitudesView& magnitudes) {
  double sum = 0;
  for (size_t t = 0; t < magnitudes.size(); ++t) {
    const auto [length, magnitude] = magnitudes[t];
    sum += length * std::log(double{magnitude});
  }
  return std::exp(sum / static_cast<double>(magnitudes.params()));
}

}  // namespace fedmrn
