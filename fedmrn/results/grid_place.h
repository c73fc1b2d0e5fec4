// Where a run stands in the grid that made it: grid.json in the run's folder,
// which a report takes its names from.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fedmrn/base/result.h"

namespace fedmrn::results {

struct GridPlace {
  std::string summary;                                      // of the grid
  std::vector<std::pair<std::string, std::string>> labels;  // by axis
};

// Leaves a file that says the same as it is.
Status WriteGridPlace(const std::string& folder, const GridPlace& place);

// Nothing of a run that no grid made. A damaged file counts as none: names are
// no results.
GridPlace ReadGridPlace(const std::string& folder);

}  // namespace fedmrn::results
