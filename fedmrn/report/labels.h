// Which labels each client of a config has, and a picture of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/report/gnuplot.h"
#include "fedmrn/sim/config.h"
#include "fedmrn/sim/partition.h"

namespace fedmrn::report {

// A config's clients, seen through their labels.
struct ClientLabels {
  sim::Config config;
  uint32_t classes = 0;
  std::vector<uint16_t> labels;  // of each example
  sim::Partition partition;

  size_t clients() const { return partition.clients(); }
  std::vector<uint32_t> CountsOf(size_t client) const;
};

// Loads the data. Fails if it is not there or cannot be so divided.
Result<ClientLabels> LoadClientLabels(const sim::Config& config);

// "labels, 3 per client, random"
std::string PartitionText(const sim::Config& config);

// Sizes of clients as bars above, a bubble per client and label below; its area
// is its number of examples.
Picture LabelPicture(const ClientLabels& view, const std::string& name);

}  // namespace fedmrn::report
