#include "fedmrn/results/summary.h"

#include <cmath>
#include <numeric>

namespace fedmrn::results {

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
  return summary;
}

Spread SpreadOf(std::span<const double> values) {
  const double count = static_cast<double>(values.size());
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean,
          values.size() > 1 ? std::sqrt(squares / (count - 1)) : std::nan("")};
}

Spread LastScores(std::span<const RoundRow> rows, size_t count) {
  std::vector<double> scores;
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if (scores.size() == count) break;
    if (!std::isnan(row->score)) scores.push_back(row->score);
  }
  return SpreadOf(scores);
}

bool IsShare(std::string_view metric) { return metric.ends_with("accuracy"); }

}  // namespace fedmrn::results
