// Partitions: which examples belong to which client. Pure functions of the
// labels and the settings, seed included. Every example has exactly one client
// and every client at least one example.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/base/settings.h"
#include "fedmrn/train/data/dataset.h"

namespace fedmrn::sim {

// All clients' examples in one list of indices: client k has
// examples[begin[k]] up to examples[begin[k + 1]], ascending.
struct Partition {
  std::vector<uint32_t> examples;
  std::vector<uint32_t> begin;

  size_t clients() const { return begin.empty() ? 0 : begin.size() - 1; }
  std::span<const uint32_t> of(size_t client) const {
    return std::span(examples).subspan(begin[client],
                                       begin[client + 1] - begin[client]);
  }
  // The number of examples of each client.
  std::vector<uint32_t> sizes() const {
    std::vector<uint32_t> sizes(clients());
    for (size_t k = 0; k < sizes.size(); ++k)
      sizes[k] = begin[k + 1] - begin[k];
    return sizes;
  }
};

using train::PartitionKind;
inline constexpr Choice kPartitionKinds[] = {
    {"iid", PartitionKind::kIid},
    {"dirichlet", PartitionKind::kDirichlet},
    {"labels", PartitionKind::kLabels},
    {"natural", PartitionKind::kNatural}};
inline constexpr Choice kLabelsAssignments[] = {{"random", false},
                                                {"cyclic", true}};

struct PartitionSettings {
  PartitionKind kind = PartitionKind::kIid;
  uint32_t clients = 100;
  uint32_t labels_per_client = 3;
  bool cyclic = false;  // labels: the authors' assignment instead of random
  double alpha = 0.3;
  uint32_t min_examples = 10;
  // Apart from the run's own, so that runs with other seeds share one division.
  uint64_t seed = 1;
};
using PartitionKey = Key<PartitionSettings>;
std::span<const PartitionKey> PartitionKeys();

// The keys that a kind reads, beside those of all.
struct PartitionRow {
  std::string_view name;  // of kPartitionKinds
  std::vector<const PartitionKey*> keys;
};
std::span<const PartitionRow> PartitionRows();

// iid        examples at random; sizes differ by at most 1
// dirichlet  the paper's Non-IID-1: each label by Dirichlet(alpha) shares; who
//            has a fair share already gets none; anew until all have enough
// labels     the paper's Non-IID-2: each client has labels_per_client labels,
//            each label's examples are split evenly among its clients
// natural    by `natural_clients`, which has a client id per example for data
//            that comes with its clients and is empty otherwise; their number
//            is the data's, not settings.clients
// Fails where the data cannot be so divided; the error names the config's key.
Result<Partition> MakePartition(const PartitionSettings& settings,
                                std::span<const uint16_t> labels,
                                uint32_t classes,
                                std::span<const uint32_t> natural_clients);

// Takes this share of each client's examples, drawn by the settings' seed and
// rounded down, out of the partition: for validation. Fails where that is no
// example at all.
Result<Partition> HoldOut(double share, const PartitionSettings& settings,
                          Partition& partition);

}  // namespace fedmrn::sim
