// A run at a glance: what its rounds came to. Everything that tells of whole
// runs, on a screen, in run.json or in a report, takes its figures from here.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "fedmrn/results/results.h"

namespace fedmrn::results {

// A mean of several values, of rounds or of seeds; std is the sample's, NaN if
// there is but one.
struct Spread {
  double mean = std::nan("");
  double std = std::nan("");
  size_t count = 0;
};
Spread SpreadOf(std::span<const double> values);

// Mean and deviation of the scores of the last `count` rounds, or of as many as
// there are, those that were tested; NaN if none was.
Spread LastScores(std::span<const RoundRow> rows, size_t count);

// Single rounds swing, and the best of them says more about luck than the mean
// of so many does.
inline constexpr uint32_t kLastRounds = 10;

struct Summary {
  // The round with the best score (the first of equals), and the last one that
  // was tested; their scores are NaN if none was.
  RoundRow best, last;
  Spread last_ten;  // scores of the last ten rounds, those that were tested
  size_t last_rounds = 0;            // there are of the ten, tested or not
  RoundRow totals;                   // sums of bytes, clients and seconds
  double uplink_bits_per_param = 0;  // mean of the rounds

  bool tested() const { return !std::isnan(last.score); }
};
Summary SummaryOf(std::span<const RoundRow> rows);

// Runs that differ in their seeds alone. All spreads are over the seeds.
struct SeedsSummary {
  size_t seeds = 0;
  Spread best, last;  // scores
  Spread last_ten;    // of each run's mean of its last ten rounds
  // The deviation of a run's last ten rounds: of several, the root of the mean
  // square.
  double swing = std::nan("");
  // There are of the ten, and were tested, in the run that has the fewest.
  size_t last_rounds = 0, last_tests = 0;
  Spread uplink_bytes, uplink_bits_per_param;
};
SeedsSummary SummaryOfSeeds(std::span<const Summary> runs);

// What it took to reach a score: the first tested round that has it, and the
// upload of all rounds until then. Over the seeds that reached it.
struct ToTarget {
  double reached = std::nan("");  // so many seeds
  Spread rounds, uplink_bytes;
};
// Nothing is known of a target that is NaN.
ToTarget ToTargetOf(std::span<const std::span<const RoundRow>> runs,
                    double target);

// How two means over seeds stand to each other. They differ only if their
// difference exceeds twice its standard error; one seed has no error, and
// proves nothing.
enum class Verdict { kOneSeed, kNotToldApart, kDiffer };
struct Difference {
  double value = 0;  // the first mean less the second
  Verdict verdict = Verdict::kOneSeed;
};
// Of runs that share nothing.
Difference DifferenceOf(const Spread& first, const Spread& second);
// Of runs in pairs, from the differences in each: runs of one seed see the same
// clients, and rise and fall together.
Difference DifferenceOfPairs(std::span<const double> differences);

// Whether the scores of a metric are shares of 1, which people read in percent:
// accuracies are, R2 is not.
bool IsShare(std::string_view metric);

}  // namespace fedmrn::results
