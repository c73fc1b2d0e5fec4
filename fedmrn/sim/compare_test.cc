#include "fedmrn/sim/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace fedmrn {
namespace {

std::vector<RoundRow> Rows(std::vector<double> accuracies) {
  std::vector<RoundRow> rows;
  for (const double accuracy : accuracies) {
    RoundRow row;
    row.round = static_cast<uint32_t>(rows.size()) + 1;
    row.accuracy = accuracy;
    row.loss = 1 - accuracy;
    row.uplink_bytes = 1000 * row.round;
    row.uplink_bits_per_param = row.round;
    row.wall_s = 0.5;
    rows.push_back(row);
  }
  return rows;
}

TEST(CompareTest, FiguresOfTestedRounds) {
  const Figures figures = FiguresOf(Rows({0.5, 0.75, 0.25, std::nan("")}));
  EXPECT_EQ(figures.best_accuracy, 0.75);
  EXPECT_EQ(figures.last_accuracy, 0.25);
  EXPECT_EQ(figures.last_loss, 0.75);
  EXPECT_EQ(figures.uplink_bytes, 10000);
  EXPECT_EQ(figures.uplink_bits_per_param, 2.5);
  EXPECT_EQ(figures.seconds, 2);
  EXPECT_TRUE(std::isnan(FiguresOf({}).best_accuracy));
}

TEST(CompareTest, MeanAndDeviationOverSeeds) {
  const Result<Grid> grid = ParseGrid(
      "train.lr = [1, 2]\nmethod.noise = [\"uniform\"]\nseed = [1, 2, 3]", "g",
      {});
  ASSERT_TRUE(grid.ok()) << grid.error().message;
  std::vector<GridOutcome> outcomes(6);
  // Seeds of lr 1: two finished ones, and one that must not count.
  outcomes[0] = {RunState::kFinished, Rows({0.5, 0.25}), ""};
  outcomes[1] = {RunState::kFinished, Rows({0.75, 0.75}), ""};
  outcomes[2] = {RunState::kFailed, Rows({1.0}), "why"};
  outcomes[4] = {RunState::kFinished, Rows({0.5}), ""};
  outcomes[5] = {RunState::kInterrupted, Rows({1.0}), ""};
  const std::vector<SummaryRow> rows = Summarise(*grid, outcomes);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].labels, (std::vector<std::string>{"1", "uniform"}));
  EXPECT_EQ(rows[0].seeds, 2u);
  EXPECT_EQ(rows[0].mean.best_accuracy, 0.625);
  EXPECT_EQ(rows[0].deviation.best_accuracy, std::sqrt(2 * 0.125 * 0.125));
  EXPECT_EQ(rows[0].mean.last_accuracy, 0.5);
  EXPECT_EQ(rows[0].mean.uplink_bytes, 3000);
  EXPECT_EQ(rows[1].seeds, 1u);
  EXPECT_EQ(rows[1].mean.last_accuracy, 0.5);
  EXPECT_TRUE(std::isnan(rows[1].deviation.last_accuracy));
  EXPECT_EQ(SummaryCsv(*grid, rows),
            "lr,noise,seeds,best_accuracy,best_accuracy_std,last_accuracy,"
            "last_accuracy_std,uplink_bytes,uplink_bits_per_param\n"
            "1,uniform,2,0.625,0.1767766952966369,0.5,0.3535533905932738,3000,"
            "1.5\n"
            "2,uniform,1,0.5,,0.5,,1000,1\n");
  const std::string none =
      SummaryCsv(*grid, Summarise(*grid, std::vector<GridOutcome>(6)));
  EXPECT_EQ(none.substr(none.find('\n')),
            "\n1,uniform,0,,,,,,\n2,uniform,0,,,,,,\n");
}

}  // namespace
}  // namespace fedmrn
