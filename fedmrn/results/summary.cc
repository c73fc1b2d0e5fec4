#include "fedmrn/results/summary.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

namespace fedmrn::results {
namespace {

double SquareError(const Spread& spread) {
  return spread.std * spread.std / static_cast<double>(spread.count);
}

Difference Judged(double value, double square_error) {
  return {value, std::abs(value) > 2 * std::sqrt(square_error)
                     ? Verdict::kDiffer
                     : Verdict::kNotToldApart};
}

}  // namespace

Summary SummaryOf(std::span<const RoundRow> rows) {
  Summary summary;
  RoundRow& totals = summary.totals;
  for (const RoundRow& row : rows) {
    totals.uplink_bytes += row.uplink_bytes;
    totals.payload_bytes += row.payload_bytes;
    totals.plain_bytes += row.plain_bytes;
    totals.downlink_bytes += row.downlink_bytes;
    totals.clients += row.clients;
    totals.dropped += row.dropped;
    totals.train_s += row.train_s;
    totals.encode_s += row.encode_s;
    totals.aggregate_s += row.aggregate_s;
    totals.eval_s += row.eval_s;
    totals.wall_s += row.wall_s;
    summary.uplink_bits_per_param +=
        row.uplink_bits_per_param / static_cast<double>(rows.size());
    if (std::isnan(row.score)) continue;
    if (!summary.tested() || row.score > summary.best.score) summary.best = row;
    summary.last = row;
  }
  summary.last_ten = LastScores(rows, kLastRounds);
  summary.last_rounds = std::min<size_t>(rows.size(), kLastRounds);
  return summary;
}

Spread SpreadOf(std::span<const double> values) {
  const double count = static_cast<double>(values.size());
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / count;
  // The mean of equal values may be rounded to another one.
  const bool equal =
      std::ranges::adjacent_find(values, std::not_equal_to()) == values.end();
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean,
          values.size() < 2 ? std::nan("")
          : equal           ? 0
                            : std::sqrt(squares / (count - 1)),
          values.size()};
}

SeedsSummary SummaryOfSeeds(std::span<const Summary> runs) {
  const auto spread = [&](const auto& figure_of) {
    std::vector<double> values;
    for (const Summary& run : runs) {
      values.push_back(static_cast<double>(figure_of(run)));
    }
    return SpreadOf(values);
  };
  SeedsSummary seeds;
  seeds.seeds = runs.size();
  seeds.best = spread([](const Summary& run) { return run.best.score; });
  seeds.last = spread([](const Summary& run) { return run.last.score; });
  seeds.last_ten = spread([](const Summary& run) { return run.last_ten.mean; });
  seeds.swing = std::sqrt(spread([](const Summary& run) {
                            return run.last_ten.std * run.last_ten.std;
                          }).mean);
  seeds.uplink_bytes =
      spread([](const Summary& run) { return run.totals.uplink_bytes; });
  seeds.uplink_bits_per_param =
      spread([](const Summary& run) { return run.uplink_bits_per_param; });
  seeds.last_rounds = seeds.last_tests = runs.empty() ? 0 : kLastRounds;
  for (const Summary& run : runs) {
    seeds.last_rounds = std::min(seeds.last_rounds, run.last_rounds);
    seeds.last_tests = std::min(seeds.last_tests, run.last_ten.count);
  }
  return seeds;
}

ToTarget ToTargetOf(std::span<const std::span<const RoundRow>> runs,
                    double target) {
  if (std::isnan(target)) return {};
  std::vector<double> rounds, uploads;
  for (const std::span<const RoundRow> rows : runs) {
    double bytes = 0;
    for (const RoundRow& row : rows) {
      bytes += static_cast<double>(row.uplink_bytes);
      if (!(row.score >= target)) continue;  // not if it is NaN, either
      rounds.push_back(row.round);
      uploads.push_back(bytes);
      break;
    }
  }
  return {static_cast<double>(rounds.size()), SpreadOf(rounds),
          SpreadOf(uploads)};
}

Difference DifferenceOf(const Spread& first, const Spread& second) {
  const double value = first.mean - second.mean;
  if (first.count < 2 || second.count < 2) return {value, Verdict::kOneSeed};
  return Judged(value, SquareError(first) + SquareError(second));
}

Difference DifferenceOfPairs(std::span<const double> differences) {
  const Spread spread = SpreadOf(differences);
  if (spread.count < 2) return {spread.mean, Verdict::kOneSeed};
  return Judged(spread.mean, SquareError(spread));
}

Spread LastScores(std::span<const RoundRow> rows, size_t count) {
  std::vector<double> scores;
  for (const RoundRow& row : rows.last(std::min(count, rows.size()))) {
    if (!std::isnan(row.score)) scores.push_back(row.score);
  }
  return SpreadOf(scores);
}

bool IsShare(std::string_view metric) { return metric.ends_with("accuracy"); }

}  // namespace fedmrn::results
