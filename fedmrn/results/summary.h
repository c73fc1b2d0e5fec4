// A run at a glance: what its rounds came to. Everything that tells of whole
// runs, on a screen, in run.json or in a report, takes its figures from here.
#pragma once

#include <cmath>
#include <span>
#include <string_view>

#include "fedmrn/results/results.h"

namespace fedmrn::results {

struct Summary {
  // The round with the best score (the first of equals), and the last one that
  // was tested; their scores are NaN if none was.
  RoundRow best, last;
  RoundRow totals;                   // sums of bytes, clients and seconds
  double uplink_bits_per_param = 0;  // mean of the rounds

  bool tested() const { return !std::isnan(last.score); }
};
Summary SummaryOf(std::span<const RoundRow> rows);

// The values of several seeds; std is the sample's, NaN if there is but one.
struct Spread {
  double mean = 0;
  double std = 0;
};
Spread SpreadOf(std::span<const double> values);

// Mean and deviation of the scores of the last `count` tested rounds, or of as
// many as there are; NaN if there is none.
Spread LastScores(std::span<const RoundRow> rows, size_t count);

// Whether the scores of a metric are shares of 1, which people read in percent:
// accuracies are, R2 is not.
bool IsShare(std::string_view metric);

}  // namespace fedmrn::results
