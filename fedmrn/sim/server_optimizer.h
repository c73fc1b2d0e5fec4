// The server's optimizers: how a round's mean update moves the model. Rows of
// one table. The paper's server adds the mean as it is ("none"); the others
// take it for a gradient: FedAvgM (Hsu et al., 2019), FedAdam and FedYogi
// (Reddi et al., 2021, Algorithm 2).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/base/settings.h"
#include "fedmrn/sim/model.h"

namespace fedmrn::sim {

struct ServerSettings {
  std::string optimizer = "none";  // of its row
  double lr = 1;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double tau = 1e-3;
};
std::span<const Key<ServerSettings>> ServerKeys();

struct ServerOptimizer {
  std::string_view name;
  std::string_view summary;
  double lr;  // unless told otherwise
  // By how much a parameter moves whose mean update is `delta`; renews its
  // moments. Null: by delta.
  double (*step)(const ServerSettings& settings, double delta, float& first,
                 float& second);
  // The keys that it reads.
  std::vector<const Key<ServerSettings>*> keys;
};
std::span<const ServerOptimizer> ServerOptimizers();
// null if there is none
const ServerOptimizer* FindServerOptimizer(std::string_view name);

// One step of a row that has one: of the weights by their mean update, and of
// the first `trainable_plain` plain values by what their mean differs from
// them, as they are parameters like the others. The other plain values, which
// are statistics of the data, become their mean.
void StepModel(const ServerSettings& settings, std::span<const float> update,
               std::span<const float> plain, size_t trainable_plain,
               GlobalModel& model);

}  // namespace fedmrn::sim
