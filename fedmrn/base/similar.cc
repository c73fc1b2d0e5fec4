#include "fedmrn/base/similar.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace fedmrn {

namespace {
constexpr size_t kLongestName = 80;
}

size_t EditDistance(std::string_view a, std::string_view b, size_t most) {
  const size_t longer = std::max(a.size(), b.size());
  if (longer > kLongestName) return a == b ? 0 : longer;
  most = std::min(most, longer);
  if (longer - std::min(a.size(), b.size()) > most) return most + 1;
  // Three rows of the table of all beginnings of both. In each only the places
  // at most `most` from the diagonal matter, and one on both sides of them.
  std::array<std::array<size_t, kLongestName + 1>, 3> rows;
  auto *before = &rows[0], *above = &rows[1], *row = &rows[2];
  std::iota(row->begin(), row->end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    const size_t first = i > most ? i - most : 1;
    const size_t last = std::min(b.size(), i + most);
    (*row)[first - 1] = first == 1 ? i : most + 1;
    size_t least = (*row)[first - 1];
    for (size_t j = first; j <= last; ++j) {
      const bool same = a[i - 1] == b[j - 1];
      size_t best = (*above)[j - 1] + (same ? 0 : 1);
      best = std::min(best, (*above)[j] + 1);
      best = std::min(best, (*row)[j - 1] + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        best = std::min(best, (*before)[j - 2] + 1);
      }
      (*row)[j] = best;
      least = std::min(least, best);
    }
    if (last < b.size()) (*row)[last + 1] = most + 1;
    if (least > most) return most + 1;
  }
  return (*row)[b.size()];
}

size_t MostWrong(std::string_view given) { return given.size() / 3; }

std::string DidYouMean(std::string_view given,
                       const std::vector<std::string_view>& names) {
  const std::string_view* best = nullptr;
  size_t least = MostWrong(given);
  for (const std::string_view& name : names) {
    const size_t distance = EditDistance(given, name, least);
    if (best == nullptr ? distance <= least : distance < least) {
      best = &name;
      least = distance;
    }
  }
  return best == nullptr ? "" : ", did you mean " + std::string(*best) + "?";
}

}  // namespace fedmrn
