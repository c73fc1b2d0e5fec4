// A grid: a config in which any value may be a list. Every list is an axis,
// and all combinations are run.
//
//   summary = "What a learning rate does"  # a line for people
//   train.lr = [0.1, 0.3]                  # an axis of one key
//
//   [variants.method.fedavg]               # an axis of named bundles of keys
//   method.name = "fedavg"
//   [variants.method.fedmrn]
//   method.name = "fedmrn"
//   rounds.weight = "batches"
//
//   [profiles.quick]                       # the first is the default
//   rounds.count = 5
//   only.method = ["fedmrn"]               # narrows an axis
//   [profiles.paper]
//   seed = [1, 2, 3]
//
// Variants win over the file's own keys, the profile over variants, and --set
// over all of them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/sim/config.h"

namespace fedmrn::sim {

struct GridOptions {
  std::string profile = {};            // empty: the first of the file, if any
  std::vector<std::string> only = {};  // "method=fedavg,fedmrn", as of --only
  std::vector<std::string> settings = {};  // "train.lr=0.1", as of --set
  std::vector<std::string> lists = {};  // "lr=1,0.3": more axes, as of --grid
};

struct GridRun {
  // The values of the axes joined by '-', a folder's name: "iid-fedavg-seed1".
  std::string name;
  // Each axis has its name and value here: {"lr", "0.1"}.
  std::vector<std::pair<std::string, std::string>> labels;
  Config config;
};

struct Grid {
  std::string summary;
  std::string profile;                // the one in use; empty if there is none
  std::vector<std::string> profiles;  // all of the file
  std::vector<std::string> axes;      // in the file's order, then "seed"
  // All combinations; the last axis changes fastest. Names are unique, and no
  // two configs are the same.
  std::vector<GridRun> runs;
};

// `file` is the text's name for messages. The error has one line per mistake,
// as ParseConfig's; one that only some of the runs have names the first of
// them.
Result<Grid> ParseGrid(std::string_view text, std::string_view file,
                       const GridOptions& options);
Result<Grid> LoadGrid(const std::string& path, const GridOptions& options);

}  // namespace fedmrn::sim
