// How many threads one network computes on.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fedmrn/base/parallel.h"

namespace fedmrn::train {

// From now on oneDNN and LibTorch compute on so many threads when this one
// calls them. Every worker calls this, usually with 1: clients side by side are
// faster than threads within one, sums come out the same for any number of
// workers, and OpenMP's threads keep a core busy while they wait.
void ComputeOnThreads(uint32_t threads);

// Parts that a batch is divided into.
inline uint32_t PartsOf(uint32_t images, uint32_t threads) {
  return std::min(images, threads);
}

// Calls work(part, first, count) for each part of a batch, on a thread of its
// own. Where each part begins follows from the two numbers alone, and so does
// what comes out.
template <typename Work>
void ForEachPart(uint32_t images, uint32_t threads, const Work& work) {
  const uint32_t parts = PartsOf(images, threads);
  const auto begin = [&](size_t part) {
    return static_cast<uint32_t>(uint64_t{images} * part / parts);
  };
  ParallelFor(parts, parts, [&](size_t, size_t part) {
    work(static_cast<uint32_t>(part), begin(part),
         begin(part + 1) - begin(part));
  });
}

}  // namespace fedmrn::train
