// What a run reads: its examples, divided among clients, and its own files. A
// run goes on with the same content only, wherever that lies.
#pragma once

#include <string>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/results/results.h"
#include "fedmrn/sim/config.h"
#include "fedmrn/sim/partition.h"
#include "fedmrn/train/task.h"

namespace fedmrn::sim {

struct RunInputs {
  train::Task task;  // its tests are on held-out examples if the config says so
  Partition partition;
  Partition held_out;  // for the tests, client after client; or empty
  results::Inputs digests;
};

Result<RunInputs> ReadInputs(const Config& config);

// Digests of what configs name as it lies there now. Reads it once for all
// configs that name the same.
class DigestReader {
 public:
  Result<results::Inputs> Of(const Config& config);

 private:
  struct Known {
    train::DataSettings data;
    train::ModelSettings model;
    results::Inputs digests;
  };
  std::vector<Known> known_;
};

// Whether a run in `folder` that began with `saved` is one on these inputs.
Status CheckSameInputs(const results::Inputs& inputs,
                       const results::Inputs& saved, const std::string& folder);

}  // namespace fedmrn::sim
