#include "fedmrn/sim/sampling.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "fedmrn/core/random.h"

namespace fedmrn::sim {
namespace {

// Attempts are apart by more draws than one of them can take.
Random DrawsOf(uint64_t seed, uint32_t round, uint32_t attempt) {
  return Random({seed + (uint64_t{attempt} << 32), Purpose::kSample, round});
}

}  // namespace

std::vector<uint32_t> SampleClients(uint64_t seed, uint32_t round,
                                    uint32_t attempt, uint32_t clients,
                                    uint32_t sampled) {
  Random random = DrawsOf(seed, round, attempt);
  std::vector<uint32_t> chosen = AllClients(clients);
  for (uint32_t i = 0; i < sampled; ++i) {
    std::swap(chosen[i], chosen[i + random.Below(clients - i)]);
  }
  chosen.resize(sampled);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<uint32_t> SampleByExamples(uint64_t seed, uint32_t round,
                                       uint32_t attempt,
                                       std::span<const uint32_t> examples,
                                       uint32_t sampled) {
  Random random = DrawsOf(seed, round, attempt);
  std::vector<uint64_t> left(examples.begin(), examples.end());
  uint64_t total = std::accumulate(left.begin(), left.end(), uint64_t{0});
  std::vector<uint32_t> chosen;
  while (chosen.size() < sampled) {
    uint64_t example = random.Below(total);  // of those left; whose is it?
    uint32_t client = 0;
    while (example >= left[client]) example -= left[client++];
    total -= std::exchange(left[client], 0);
    chosen.push_back(client);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<uint32_t> AllClients(uint32_t clients) {
  std::vector<uint32_t> all(clients);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

}  // namespace fedmrn::sim
