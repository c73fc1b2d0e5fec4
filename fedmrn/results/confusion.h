// Which classes a test took for which, and what follows from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/base/result.h"

namespace fedmrn::results {

// What a tested round gave: counts[truth * classes + answer]. Empty: none was.
struct Confusion {
  uint32_t round = 0;
  std::vector<uint64_t> counts = {};

  size_t classes() const;
  bool operator==(const Confusion&) const = default;
};

// Those that a run keeps.
struct Confusions {
  Confusion best, last;

  bool operator==(const Confusions&) const = default;
};

// The share of each class's examples that was answered rightly (its recall);
// NaN of a class without examples.
std::vector<double> ClassAccuracies(const Confusion& confusion);

// Mean of 2 |truth and answer| / (|truth| + |answer|) over the classes that
// occur as either; NaN if none does.
double MacroF1(const Confusion& confusion);

// As text, for checkpoints, and back.
std::string ConfusionsText(const Confusions& confusions);
Result<Confusions> ParseConfusions(std::string_view text);

}  // namespace fedmrn::results
