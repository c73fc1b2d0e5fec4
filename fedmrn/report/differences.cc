#include "fedmrn/report/differences.h"

#include <utility>
#include <vector>

#include "fedmrn/report/paper.h"
#include "fedmrn/report/text.h"

namespace fedmrn::report {

BySeed BySeedOf(const Group& group, const Figure& figure) {
  BySeed values;
  for (const SavedRun* run : group.runs) {
    values[ValuesOf(*run, Part::kSeed)] =
        UnitOf(run->metric).scale * figure.of_run(run->summary);
  }
  return values;
}

BySeed SumOverPartitions(const Setting& setting, const std::string& label) {
  BySeed sum;
  for (const PaperPartition& partition : kPaperPartitions) {
    const Cell* cell = setting.CellOf(partition.kind);
    const Group* group = cell == nullptr ? nullptr : cell->Labelled(label);
    if (group == nullptr) return {};
    const bool first = partition.kind == kPaperPartitions.front().kind;
    BySeed more;
    for (const auto& [seed, value] : BySeedOf(*group, kBest)) {
      const auto before = sum.find(seed);
      if (first) {
        more[seed] = value;
      } else if (before != sum.end()) {
        more[seed] = before->second + value;
      }
    }
    sum = std::move(more);
  }
  return sum;
}

std::optional<results::Difference> DifferenceOf(const BySeed& first,
                                                const BySeed& second) {
  std::vector<double> differences;
  for (const auto& [seed, value] : first) {
    const auto other = second.find(seed);
    if (other != second.end()) differences.push_back(value - other->second);
  }
  if (differences.empty()) return std::nullopt;
  return results::DifferenceOfPairs(differences);
}

}  // namespace fedmrn::report
