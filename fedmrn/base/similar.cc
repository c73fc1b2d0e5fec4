#include "fedmrn/base/similar.h"

#include <algorithm>
#include <numeric>

namespace fedmrn {

namespace {
constexpr size_t kLongestName = 80;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  const size_t longer = std::max(a.size(), b.size());
  if (longer > kLongestName) return a == b ? 0 : longer;
  // The last three rows of the table of all beginnings of both.
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1),
      row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min(
          {above[j - 1] + (same ? 0 : 1), above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row.back();
}

bool Resembles(std::string_view given, size_t distance) {
  return 3 * distance <= given.size();
}

std::string DidYouMean(std::string_view given,
                       const std::vector<std::string_view>& names) {
  const auto distance = [&](std::string_view name) {
    return EditDistance(given, name);
  };
  const auto best = std::ranges::min_element(names, {}, distance);
  if (best == names.end() || !Resembles(given, distance(*best))) return "";
  return ", did you mean " + std::string(*best) + "?";
}

}  // namespace fedmrn
