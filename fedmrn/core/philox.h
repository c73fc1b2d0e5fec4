// Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"):
// the only source of randomness in FedMRN. A stream is a function from a block
// number to 128 bits, so any part of it can be generated alone, in any order,
// on any machine.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace fedmrn {

// What a stream's numbers are for; keeps streams of one seed independent.
// Part of the wire format (kNoise, kRotation, kClientSeed, kDither,
// kPlainDither): never renumber.
enum class Purpose : uint32_t {
  kNoise = 0,     // G(seed): shared by client and server
  kRotation = 1,  // DRIVE's and EDEN's random signs: shared as well
  kStep = 2,      // mask and PM draws of a local step; `sub` is the step
  kEncode = 3,    // draws of stochastic codecs but the masks'
  // The simulator's; but for kClientSeed, never on the wire.
  kInit = 4,        // initial weights; `sub` is the tensor
  kPartition = 5,   // which client has which examples
  kSample = 6,      // which clients a round takes; `sub` is the round
  kClientSeed = 7,  // the seeds of one client in one round
  kShuffle = 8,     // order of the examples; `sub` is the local epoch
  kAugment = 9,     // crops and flips; `sub` is the local step
  kFault = 10,      // injected faults; `sub` is the round
  kSynthetic = 11,  // generated data
  kDropout = 12,    // of a network; `sub` is the local step
  kSubset = 13,     // which part of a data set is used
  // Shared by client and server again.
  kDither = 14,       // draws of the final mask
  kPlainDither = 15,  // of the plain section's differences
};

// Ten rounds, Philox's usual number; seven for the draws of local steps, which
// are the hottest and never leave the client. Seven is the least that its
// authors found to pass BigCrush.
constexpr int RoundsFor(Purpose purpose) {
  return purpose == Purpose::kStep ? 7 : 10;
}

// Key = seed (low word first); counter = {block low, block high, sub, purpose}.
struct PhiloxStream {
  uint64_t seed = 0;
  Purpose purpose = Purpose::kNoise;
  uint32_t sub = 0;
};

// Fills `words` with the stream's words from word 4*first_block on: word j of
// block b is word 4b+j of the stream. Bit-identical on every CPU.
void PhiloxWords(const PhiloxStream& stream, uint64_t first_block,
                 std::span<uint32_t> words);

namespace ref {

// One block: the definition.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key,
                                   int rounds = 10);

void PhiloxWords(const PhiloxStream& stream, uint64_t first_block,
                 std::span<uint32_t> words);

}  // namespace ref
}  // namespace fedmrn
