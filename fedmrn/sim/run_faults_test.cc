// Whole runs on a machine that fails: each ends in a sentence, and goes on from
// the last good state to the same model.
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "fedmrn/base/file_faults.h"
#include "fedmrn/base/files.h"
#include "fedmrn/results/checkpoint.h"
#include "fedmrn/sim/run.h"
#include "gtest/gtest.h"

namespace fedmrn::sim {
namespace {

namespace fs = std::filesystem;

// With all that a run can keep: clients' states and the server's moments.
Config TinyWithStates() {
  const std::vector<std::string> settings = {
      "data.name=synthetic",   "data.train_examples=24",
      "data.test_examples=8",  "partition.clients=3",
      "train.epochs=1",        "train.batch=8",
      "rounds.count=2",        "rounds.clients_per_round=2",
      "run.workers=1",         "method.name=topk",
      "server.optimizer=adam", "method.error_feedback=true"};
  const Result<Config> config = ParseConfig("", "", settings);
  EXPECT_TRUE(config) << config.error().ToString();
  return *config;
}

class RunFaults : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    out_ = fs::path(testing::TempDir()) /
           ("faults_" + std::string(test->name()) + std::to_string(getpid()));
  }
  void TearDown() override { fs::remove_all(out_); }

  // Resumes what is there.
  Result<RunResult> RunThere(
      const decltype(RunOptions::on_round)& on_round = {}) const {
    RunOptions options;
    options.out = out_;
    options.resume = true;
    options.on_round = on_round;
    return sim::Run(config_, options);
  }
  void ExpectGoesOn(const std::string& where) const {
    const Result<RunResult> result = RunThere();
    ASSERT_TRUE(result) << where << result.error().ToString();
    EXPECT_EQ(result->model_sha256, expected_) << where;
    for (const auto& entry : fs::recursive_directory_iterator(out_)) {
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
    }
  }

  const Config config_ = TinyWithStates();
  const std::string expected_ = sim::Run(config_, {})->model_sha256;
  fs::path out_;
};

// Every seventh step, which meets the six kinds of steps in turn.
TEST_F(RunFaults, AnyStepOfAnyFileFails) {
  constexpr int kStride = 7;
  int failures = 0;
  for (int fails = 0;; fails += kStride) {
    fs::remove_all(out_);
    std::atomic<int> steps = 0;
    std::string where;
    const int why = fails % 2 == 0 ? ENOSPC : EIO;
    {
      const FileFaults faults([&](FileStep, const std::string& path) {
        if (steps++ != fails) return 0;
        where = path;
        return why;
      });
      const Result<RunResult> result = RunThere();
      if (where.empty()) {  // there are no more steps
        ASSERT_TRUE(result) << result.error().ToString();
        break;
      }
      ASSERT_FALSE(result) << where;
      EXPECT_EQ(result.error().code, ErrorCode::kFailed);
      const std::string& message = result.error().message;
      EXPECT_NE(message.find(where + ": cannot "), message.npos) << message;
      EXPECT_TRUE(message.ends_with(std::strerror(why))) << message;
    }
    ++failures;
    ExpectGoesOn(where);
  }
  EXPECT_GT(failures, 12);
}

TEST_F(RunFaults, ReadOnlyFromSomeMomentOn) {
  std::atomic<bool> read_only = false;
  {
    const FileFaults faults([&](FileStep step, const std::string&) {
      return read_only && step == FileStep::kOpen ? EROFS : 0;
    });
    const Result<RunResult> result =
        RunThere([&](std::span<const results::RoundRow> rows) {
          read_only = rows.size() == 1;
        });
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kFailed) << "no bad input";
    EXPECT_TRUE(result.error().message.ends_with(": Read-only file system"))
        << result.error().message;
  }
  ExpectGoesOn("");
}

TEST_F(RunFaults, TheFolderIsRemovedUnderTheRun) {
  for (const bool replaced : {false, true}) {
    fs::remove_all(out_);
    const Result<RunResult> result =
        RunThere([&](std::span<const results::RoundRow> rows) {
          if (rows.size() != 1) return;
          fs::remove_all(out_);
          if (replaced) {
            EXPECT_TRUE(FolderLock::Take(out_));
          }
        });
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kFailed);
    EXPECT_EQ(result.error().message,
              out_.string() +
                  ": was removed or replaced while fedmrn was at work there");
    EXPECT_EQ(fs::exists(out_), replaced) << "nobody asked for it";
    EXPECT_FALSE(fs::exists(out_ / "checkpoints"));
    EXPECT_FALSE(fs::exists(out_ / "run.json"));
  }
}

// Clocks tell when a run began and ended, and nothing else.
TEST_F(RunFaults, TheClockJumps) {
  constexpr int64_t kYears = 20 * 365 * 86'400;
  for (const int64_t jump : {-kYears, int64_t{1} << 60}) {
    fs::remove_all(out_);
    Progress progress;
    RunOptions options;
    options.out = out_;
    options.progress = &progress;
    options.on_round = [&](std::span<const results::RoundRow> rows) {
      progress.stop = rows.size() == 1;
    };
    const Result<RunResult> stopped = sim::Run(config_, options);
    ASSERT_TRUE(stopped && stopped->stopped);
    const std::string folder = out_ / "checkpoints";
    auto checkpoint = results::LoadCheckpoint(folder, [](const auto&) {});
    ASSERT_TRUE(checkpoint && checkpoint->has_value());
    (*checkpoint)->started += jump;
    ASSERT_TRUE(results::SaveCheckpoint(folder, **checkpoint));
    ExpectGoesOn(std::to_string(jump));
  }
}

}  // namespace
}  // namespace fedmrn::sim
