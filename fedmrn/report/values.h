// What in a run's config can change its results, and where that counts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fedmrn/report/runs.h"

namespace fedmrn::report {

// By key, as JSON.
using Values = std::map<std::string, std::string>;

// A setting has cells, which are partitions, and these compare methods.
enum class Part { kSetting, kPartition, kMethod, kSeed };
inline constexpr Part kParts[] = {Part::kSetting, Part::kPartition,
                                  Part::kMethod, Part::kSeed};

Values ValuesOf(const SavedRun& run, Part part);

// Fills in data_files and model_files, without which ValuesOf does not know
// that runs read other files.
void NameFiles(std::vector<SavedRun>& runs);

}  // namespace fedmrn::report
