#include "fedmrn/results/summary.h"

#include <cmath>
#include <span>
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

TEST(Summary, LastTenRounds) {
  const double untested = std::nan("");
  // Earlier rounds do not count, however few of the ten were tested.
  const Summary summary =
      SummaryOf(Rows({9, 9, 1, 2, 1, 2, untested, 1, 2, 1, untested, 2}));
  EXPECT_EQ(summary.last_rounds, 10u);
  EXPECT_EQ(summary.last_ten.count, 8u);
  EXPECT_DOUBLE_EQ(summary.last_ten.mean, 1.5);
  EXPECT_DOUBLE_EQ(summary.last_ten.std, std::sqrt(8 * 0.25 / 7));
  // A shorter run has fewer, and one round no deviation.
  EXPECT_EQ(SummaryOf(Rows({1, 2, 3})).last_ten.count, 3u);
  EXPECT_EQ(SummaryOf(Rows({1, 2, 3})).last_rounds, 3u);
  EXPECT_TRUE(std::isnan(SummaryOf(Rows({1})).last_ten.std));
  EXPECT_TRUE(std::isnan(SummaryOf({}).last_ten.mean));
}

TEST(Summary, OverSeeds) {
  const SeedsSummary seeds = SummaryOfSeeds(std::vector<Summary>{
      SummaryOf(Rows({1, 3})), SummaryOf(Rows({2, 4, 6, 8}))});
  EXPECT_EQ(seeds.seeds, 2u);
  EXPECT_DOUBLE_EQ(seeds.best.mean, 5.5);
  EXPECT_DOUBLE_EQ(seeds.last_ten.mean, 3.5);
  EXPECT_DOUBLE_EQ(seeds.last_ten.std, std::sqrt(2 * 1.5 * 1.5));
  EXPECT_DOUBLE_EQ(seeds.swing, std::sqrt((2 + 20.0 / 3) / 2));
  EXPECT_EQ(seeds.last_rounds, 2u);
  EXPECT_EQ(seeds.last_tests, 2u);
  EXPECT_DOUBLE_EQ(seeds.uplink_bytes.mean, (3000 + 10000) / 2.0);
  const SeedsSummary none = SummaryOfSeeds({});
  EXPECT_EQ(none.last_rounds, 0u);
  EXPECT_TRUE(std::isnan(none.best.mean));
}

TEST(Difference, OnlyBeyondTwiceItsStandardError) {
  // Errors of 0.3 and 0.4 together are 0.5.
  const Spread first{.mean = 5, .std = 0.6, .count = 4};
  Spread second{.mean = 4.01, .std = 1.2, .count = 9};
  EXPECT_EQ(DifferenceOf(first, second).verdict, Verdict::kNotToldApart);
  second.mean = 3.99;
  EXPECT_EQ(DifferenceOf(first, second).verdict, Verdict::kDiffer);
  EXPECT_DOUBLE_EQ(DifferenceOf(second, first).value, -1.01);
  EXPECT_EQ(DifferenceOf(second, first).verdict, Verdict::kDiffer);
  // However large it is.
  second = SpreadOf(std::vector<double>{-100});
  EXPECT_EQ(DifferenceOf(first, second).verdict, Verdict::kOneSeed);
  EXPECT_EQ(DifferenceOf(second, first).verdict, Verdict::kOneSeed);
}

// Two that rise and fall together by 5 are told apart by a steady difference.
TEST(Difference, OfPairsOnlyTheDifferencesCount) {
  // A mean of -1 and a standard error of 0.49, then of 0.51.
  const double root3 = std::sqrt(3.0);
  for (const auto& [error, verdict] :
       {std::pair(0.49, Verdict::kDiffer),
        std::pair(0.51, Verdict::kNotToldApart)}) {
    const double std = error * root3;
    const Difference difference =
        DifferenceOfPairs(std::vector<double>{-1 - std, -1, -1 + std});
    EXPECT_DOUBLE_EQ(difference.value, -1);
    EXPECT_EQ(difference.verdict, verdict);
  }
  EXPECT_EQ(DifferenceOfPairs(std::vector<double>{-3, -3}).verdict,
            Verdict::kDiffer);
  EXPECT_EQ(DifferenceOfPairs(std::vector<double>{0, 0}).verdict,
            Verdict::kNotToldApart);
  EXPECT_EQ(DifferenceOfPairs(std::vector<double>{-100}).verdict,
            Verdict::kOneSeed);
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
  EXPECT_EQ(SpreadOf(std::vector<double>{0.1, 0.1, 0.1}).std, 0);
  EXPECT_TRUE(std::isnan(SpreadOf(std::vector<double>{7}).std));
  EXPECT_TRUE(std::isnan(SpreadOf({}).mean));
}

TEST(LastScores, OfTestedRounds) {
  const std::vector<RoundRow> rows =
      Rows({0, 1, std::nan(""), 2, std::nan("")});
  EXPECT_EQ(LastScores(rows, 2).mean, 2);  // of two rounds one test
  EXPECT_EQ(LastScores(rows, 4).mean, 1.5);
  EXPECT_DOUBLE_EQ(LastScores(rows, 10).mean, 1);
  EXPECT_DOUBLE_EQ(LastScores(rows, 10).std, 1);
  EXPECT_TRUE(std::isnan(LastScores({}, 10).mean));
}

TEST(Metric, AccuraciesAreShares) {
  EXPECT_TRUE(IsShare("accuracy"));
  EXPECT_TRUE(IsShare("pixel accuracy"));
  EXPECT_FALSE(IsShare("R2"));
}

TEST(SummaryTest, RoundsAndUploadToATarget) {
  const double none = std::nan("");
  const auto rows = [](const std::vector<double>& scores) {
    std::vector<RoundRow> made(scores.size());
    for (uint32_t i = 0; i < made.size(); ++i) {
      made[i].round = i + 1;
      made[i].score = scores[i];
      made[i].uplink_bytes = 10;
    }
    return made;
  };
  const std::vector<RoundRow> slow = rows({0.1, none, 0.4, 0.6}),
                              fast = rows({0.5, 0.2}), never = rows({0.1});
  const std::span<const RoundRow> runs[] = {slow, fast, never};
  const ToTarget reached = ToTargetOf(runs, 0.5);
  EXPECT_EQ(reached.reached, 2);
  EXPECT_EQ(reached.rounds.mean, 2.5);
  EXPECT_EQ(reached.uplink_bytes.mean, 25);
  EXPECT_EQ(ToTargetOf(runs, 0.9).reached, 0);
  EXPECT_TRUE(std::isnan(ToTargetOf(runs, 0.9).rounds.mean));
  EXPECT_TRUE(std::isnan(ToTargetOf(runs, none).reached));
}

}  // namespace
}  // namespace fedmrn::results
