// Runs compared seed by seed: those of one seed see the same clients, and rise
// and fall together.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "fedmrn/report/groups.h"
#include "fedmrn/report/values.h"

namespace fedmrn::report {

// A figure of groups, and of their runs.
struct Figure {
  results::Spread Group::*of_group;
  double (*of_run)(const results::Summary&);
};
inline constexpr Figure kBest = {
    &Group::best, [](const results::Summary& run) { return run.best.score; }};
inline constexpr Figure kLastTen = {
    &Group::last_ten,
    [](const results::Summary& run) { return run.last_ten.mean; }};

// In the unit of the metric.
using BySeed = std::map<Values, double>;
BySeed BySeedOf(const Group& group, const Figure& figure);
// Best scores summed over the paper's three partitions, of the seeds that all
// three have.
BySeed SumOverPartitions(const Setting& setting, const std::string& label);

// Over the seeds that both have; nothing if there is none.
std::optional<results::Difference> DifferenceOf(const BySeed& first,
                                                const BySeed& second);

}  // namespace fedmrn::report
