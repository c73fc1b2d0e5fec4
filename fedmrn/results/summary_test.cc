#include "fedmrn/results/summary.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace fedmrn::results {
namespace {

std::vector<RoundRow> Rows(const std::vector<double>& scores) {
  std::vector<RoundRow> rows;
  for (const double score : scores) {
    RoundRow row;
    row.round = static_cast<uint32_t>(rows.size()) + 1;
    row.score = score;
    row.loss = 1 - score;
    row.uplink_bytes = 1000 * row.round;
    row.uplink_bits_per_param = row.round;
    row.clients = 10;
    row.dropped = 1;
    row.wall_s = 0.5;
    rows.push_back(row);
  }
  return rows;
}

TEST(Summary, BestLastAndTotals) {
  const double untested = std::nan("");
  const Summary summary =
      SummaryOf(Rows({untested, 0.5, 0.75, 0.75, 0.25, untested}));
  EXPECT_TRUE(summary.tested());
  EXPECT_EQ(summary.best.score, 0.75);
  EXPECT_EQ(summary.best.round, 3u);  // the first of equals
  EXPECT_EQ(summary.last.score, 0.25);
  EXPECT_EQ(summary.last.loss, 0.75);
  EXPECT_EQ(summary.last.round, 5u);
  EXPECT_EQ(summary.totals.uplink_bytes, 21000u);
  EXPECT_EQ(summary.totals.clients, 60u);
  EXPECT_EQ(summary.totals.dropped, 6u);
  EXPECT_EQ(summary.totals.wall_s, 3);
  EXPECT_EQ(summary.uplink_bits_per_param, 3.5);
}

TEST(Summary, ScoresMayBeNegative) {
  const Summary summary = SummaryOf(Rows({-2, -1, -3}));
  EXPECT_EQ(summary.best.score, -1);
  EXPECT_EQ(summary.last.score, -3);
}

TEST(Summary, NothingTested) {
  for (const Summary& summary :
       {SummaryOf({}), SummaryOf(Rows({std::nan("")}))}) {
    EXPECT_FALSE(summary.tested());
    EXPECT_TRUE(std::isnan(summary.best.score));
    EXPECT_TRUE(std::isnan(summary.last.score));
  }
}

TEST(Spread, SampleDeviation) {
  const Spread spread = SpreadOf(std::vector<double>{1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(spread.mean, 2.5);
  EXPECT_DOUBLE_EQ(spread.std, std::sqrt(5.0 / 3));
  EXPECT_TRUE(std::isnan(SpreadOf(std::vector<double>{7}).std));
  EXPECT_TRUE(std::isnan(SpreadOf({}).mean));
}

TEST(LastScores, OfTestedRounds) {
  const std::vector<RoundRow> rows =
      Rows({0, 1, std::nan(""), 2, std::nan("")});
  EXPECT_DOUBLE_EQ(LastScores(rows, 2).mean, 1.5);
  EXPECT_DOUBLE_EQ(LastScores(rows, 10).mean, 1);
  EXPECT_DOUBLE_EQ(LastScores(rows, 10).std, 1);
  EXPECT_TRUE(std::isnan(LastScores({}, 10).mean));
}

TEST(Metric, AccuraciesAreShares) {
  EXPECT_TRUE(IsShare("accuracy"));
  EXPECT_TRUE(IsShare("pixel accuracy"));
  EXPECT_FALSE(IsShare("R2"));
}

}  // namespace
}  // namespace fedmrn::results
