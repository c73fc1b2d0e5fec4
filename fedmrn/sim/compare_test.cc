#include "fedmrn/sim/compare.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "fedmrn/base/files.h"

namespace fedmrn::sim {
namespace {

std::vector<results::RoundRow> Rows(std::vector<double> accuracies) {
  std::vector<results::RoundRow> rows;
  for (const double accuracy : accuracies) {
    results::RoundRow row;
    row.round = static_cast<uint32_t>(rows.size()) + 1;
    row.score = accuracy;
    row.loss = 1 - accuracy;
    row.uplink_bytes = 1000 * row.round;
    row.uplink_bits_per_param = row.round;
    row.wall_s = 0.5;
    rows.push_back(row);
  }
  return rows;
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
  const std::vector<SummaryRow> rows = Summarise(*grid, outcomes, 0.5);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].labels, (std::vector<std::string>{"1", "uniform"}));
  EXPECT_EQ(rows[0].summary.seeds, 2u);
  EXPECT_EQ(rows[0].summary.best.mean, 0.625);
  EXPECT_EQ(rows[0].summary.best.std, std::sqrt(2 * 0.125 * 0.125));
  EXPECT_EQ(rows[0].summary.last.mean, 0.5);
  EXPECT_EQ(rows[0].summary.uplink_bytes.mean, 3000);
  EXPECT_EQ(rows[1].summary.seeds, 1u);
  EXPECT_EQ(rows[1].summary.last.mean, 0.5);
  EXPECT_TRUE(std::isnan(rows[1].summary.last.std));
  EXPECT_EQ(SummaryCsv(*grid, rows),
            "lr,noise,seeds,best_accuracy,best_accuracy_std,last_accuracy,"
            "last_accuracy_std,last_ten_accuracy,last_ten_accuracy_std,"
            "last_ten_swing,last_ten_tests,uplink_bytes,"
            "uplink_bits_per_param,target_accuracy,reached_seeds,"
            "rounds_to_target,uplink_bytes_to_target\n"
            "1,uniform,2,0.625,0.1767766952966369,0.5,0.3535533905932738,"
            "0.5625,0.2651650429449553,0.125,2,3000,1.5,0.5,2,1,1000\n"
            "2,uniform,1,0.5,,0.5,,0.5,,,1,1000,1,0.5,1,1,1000\n");
  const std::string none = SummaryCsv(
      *grid, Summarise(*grid, std::vector<GridOutcome>(6), std::nan("")));
  EXPECT_EQ(none.substr(none.find('\n')),
            "\n1,uniform,0,,,,,,,,0,,,,,,\n2,uniform,0,,,,,,,,0,,,,,,\n");
  EXPECT_TRUE(std::isnan(TargetOf(*grid)));
}

TEST(CompareTest, SeedsOfThePartitionAreSeeds) {
  const Result<Grid> grid = ParseGrid(
      "partition.seed = [1, 2]\ntrain.lr = [1, 2]\nseed = [1, 2]", "g", {});
  ASSERT_TRUE(grid.ok()) << grid.error().message;
  const std::vector<SummaryRow> rows = Summarise(
      *grid,
      std::vector<GridOutcome>(8, {RunState::kFinished, Rows({0.5}), ""}),
      std::nan(""));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].labels, (std::vector<std::string>{"1"}));
  EXPECT_EQ(rows[0].summary.seeds, 4u);
  EXPECT_TRUE(SummaryCsv(*grid, rows).starts_with("lr,seeds,"));
}

// Two runs beside each other, each in one step, as thread sanitizers are slow.
class RunGridTest : public testing::Test {
 protected:
  RunGridTest() {
    const Result<Grid> grid = ParseGrid(R"(seed = [1, 2]
data = {name = "synthetic", train_examples = 32, test_examples = 10}
partition.clients = 4
rounds = {count = 1, clients_per_round = 1}
train = {epochs = 1, batch = 8}
)",
                                        "g", {});
    EXPECT_TRUE(grid.ok()) << grid.error().message;
    if (grid.ok()) grid_ = *grid;
    options_.out = out_.string();
    options_.jobs = 2;
    options_.progress = progress_;
    options_.on_start = [this](size_t run) { Note("start", run); };
    options_.on_end = [this](size_t run, const GridOutcome&) {
      Note("end", run);
    };
    std::filesystem::remove_all(out_);
  }
  ~RunGridTest() override { std::filesystem::remove_all(out_); }

  // Without a lock of its own: calls come one at a time.
  void Note(const std::string& what, size_t run) {
    notes_.push_back(what + std::to_string(run));
  }

  std::vector<GridOutcome> Find() {
    const Result<std::vector<GridOutcome>> found =
        FindRuns(grid_, options_.out);
    EXPECT_TRUE(found.ok()) << found.error().message;
    return found.ok() ? *found : std::vector<GridOutcome>(2);
  }

  const std::filesystem::path out_ =
      std::filesystem::temp_directory_path() /
      ("fedmrn_compare_test_" + std::to_string(getpid()));
  Grid grid_;
  std::vector<Progress> progress_{2};
  GridRunOptions options_;
  std::vector<std::string> notes_;
};

TEST_F(RunGridTest, RunsWhatIsNotFinished) {
  std::vector<GridOutcome> outcomes = Find();
  EXPECT_EQ(outcomes[0].state, RunState::kNew);
  ASSERT_TRUE(RunGrid(grid_, options_, outcomes).ok());
  std::ranges::sort(notes_);
  EXPECT_EQ(notes_,
            (std::vector<std::string>{"end0", "end1", "start0", "start1"}));
  for (const auto& seen : {outcomes, Find()}) {
    for (const GridOutcome& outcome : seen) {
      EXPECT_EQ(outcome.state, RunState::kFinished) << outcome.error;
      EXPECT_EQ(outcome.rows.size(), 1u);
    }
  }
  notes_.clear();
  ASSERT_TRUE(RunGrid(grid_, options_, outcomes).ok());
  EXPECT_TRUE(notes_.empty());
}

TEST_F(RunGridTest, StartsNothingOnceStopped) {
  std::vector<GridOutcome> outcomes = Find();
  for (Progress& progress : progress_) progress.stop = true;
  ASSERT_TRUE(RunGrid(grid_, options_, outcomes).ok());
  EXPECT_TRUE(notes_.empty());
  EXPECT_EQ(outcomes[1].state, RunState::kNew);
}

// A run that has ended, was given more rounds and stopped before the first of
// them is as far as it was, and goes on or is left as it is.
TEST_F(RunGridTest, StoppedInTheFirstOfMoreRounds) {
  const auto run_all = [&] {
    std::vector<GridOutcome> outcomes = Find();
    ASSERT_TRUE(RunGrid(grid_, options_, outcomes).ok());
  };
  const auto count_to = [&](uint32_t rounds) {
    for (GridRun& run : grid_.runs) run.config.rounds.count = rounds;
  };
  run_all();
  count_to(2);
  options_.on_start = [this](size_t) {
    for (Progress& progress : progress_) progress.stop = true;
  };
  run_all();
  for (Progress& progress : progress_) progress.stop = false;
  options_.on_start = {};
  size_t unfinished = 0;
  for (const GridOutcome& outcome : Find()) {
    EXPECT_EQ(outcome.rows.size(), 1u);
    unfinished += outcome.state == RunState::kInterrupted;
  }
  EXPECT_EQ(unfinished, 2u);
  count_to(1);
  run_all();
  count_to(2);
  run_all();
  for (const GridOutcome& outcome : Find()) {
    EXPECT_EQ(outcome.state, RunState::kFinished);
    EXPECT_EQ(outcome.rows.size(), 2u);
  }
}

TEST_F(RunGridTest, OneProcessAtATime) {
  const Result<FolderLock> other = FolderLock::Take(options_.out);
  ASSERT_TRUE(other.ok());
  std::vector<GridOutcome> outcomes(2);
  const Status ran = RunGrid(grid_, options_, outcomes);
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().message,
            options_.out + ": another fedmrn is at work there");
}

}  // namespace
}  // namespace fedmrn::sim
