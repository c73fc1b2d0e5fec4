// Which clients a round takes: pure functions of the seed, the round and the
// attempt, so that a resumed run takes the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fedmrn::sim {

enum class Sampling { kUniform, kWeighted, kAll };

// K of N clients without replacement, in rising order.
std::vector<uint32_t> SampleClients(uint64_t seed, uint32_t round,
                                    uint32_t attempt, uint32_t clients,
                                    uint32_t sampled);
// The same one after the other, each with a chance in proportion to its
// examples among those that are left.
std::vector<uint32_t> SampleByExamples(uint64_t seed, uint32_t round,
                                       uint32_t attempt,
                                       std::span<const uint32_t> examples,
                                       uint32_t sampled);
std::vector<uint32_t> AllClients(uint32_t clients);

}  // namespace fedmrn::sim
