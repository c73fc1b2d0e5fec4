// When a run ends: a pure function of its settings and its rounds, so that
// whoever finds its rows, now or later, says the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "fedmrn/results/results.h"
#include "fedmrn/sim/config.h"

namespace fedmrn::sim {

struct Ending {
  uint32_t round = 0;    // the last one
  std::string_view key;  // that ended it, such as "rounds.patience"
  std::string why;       // "all of its 8 rounds are done"
};

// Nothing if the run goes on after these rounds.
std::optional<Ending> EndingOf(const RoundsSettings& rounds,
                               std::span<const results::RoundRow> rows);

// Whether a key says how long a run is, and nothing about its rounds.
bool IsLength(std::string_view key);

// Whether a run can only have become longer by what this key says now: then the
// rounds that were done before would have been the same.
bool OnlyLonger(std::string_view key, const RoundsSettings& now,
                const RoundsSettings& then);

}  // namespace fedmrn::sim
