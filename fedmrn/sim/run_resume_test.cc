// Whole runs that find what another has left in their folder: they go on from
// it to the model of an undisturbed run, or refuse it.
#include <cmath>
#include <filesystem>
#include <map>
#include <thread>

#include "fedmrn/base/files.h"
#include "fedmrn/results/checkpoint.h"
#include "fedmrn/sim/run.h"
#include "fedmrn/sim/run_test_util.h"

namespace fedmrn::sim {
namespace {

namespace fs = std::filesystem;

TEST_F(Runs, StoppedAndResumed) {
  const Config config = Tiny({});
  const RunResult expected = Undisturbed(config);
  StopAfter(config, 0);
  EXPECT_TRUE(fs::exists(Path(CheckpointName(0))));
  StopAfter(config, 1, true);
  StopAfter(config, 2, true);
  ExpectSame(Resume(Tiny({"run.workers=2"})), expected);
  EXPECT_TRUE(log_.empty()) << log_[0];

  // A finished run only tells its results again.
  const Bytes rows = Read("rounds.csv"), model = Read("model.pt");
  ExpectSame(Resume(config), expected);
  EXPECT_EQ(Read("rounds.csv"), rows);
  EXPECT_EQ(Read("model.pt"), model);
}

// What clients keep goes on too: here on disk, in the undisturbed run in
// memory.
TEST_F(Runs, ClientStatesAreResumed) {
  for (const std::vector<std::string>& method :
       {std::vector<std::string>{"method.name=topk",
                                 "method.error_feedback=true"},
        {"method.name=fedpm"}}) {
    SCOPED_TRACE(method[0]);
    std::vector<std::string> settings = method;
    settings.insert(settings.end(),
                    {"data.train_examples=96", "partition.clients=3",
                     "rounds.clients_per_round=2", "rounds.count=4",
                     "run.eval_every=4", "run.checkpoint_every=2"});
    const Config config = Tiny(settings);
    const RunResult expected = Undisturbed(config);
    out_ = root_ / method[0];
    StopAfter(config, 3);  // the third round's states are in no checkpoint
    const auto files = fs::directory_iterator(Path("clients"));
    EXPECT_GE(std::distance(fs::begin(files), fs::end(files)), 2);
    fs::copy(out_, root_ / "damaged", fs::copy_options::recursive);
    ExpectSame(Resume(config), expected);
    EXPECT_FALSE(fs::exists(Path("clients"))) << "nobody needs them any more";
    ExpectSame(Resume(config), expected);

    // Without its clients' states it would end in another model.
    out_ = root_ / "damaged";
    for (const auto& entry : fs::directory_iterator(Path("clients"))) {
      fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
    }
    const Result<RunResult> lost = Resume(config);
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().code, ErrorCode::kFailed);
    EXPECT_NE(lost.error().message.find("is damaged"), std::string::npos)
        << lost.error().message;
    fs::remove_all(out_);
  }
}

// A server's moments are part of the checkpoint.
TEST_F(Runs, ServerMomentsAreResumed) {
  std::map<std::string, std::string> models;
  for (const std::string optimizer : {"none", "momentum", "adam", "yogi"}) {
    SCOPED_TRACE(optimizer);
    const Config config =
        Tiny({"server.optimizer=" + optimizer, "method.name=fedavg",
              "data.train_examples=96", "partition.clients=3",
              "rounds.clients_per_round=2", "run.eval_every=3"});
    const RunResult expected = Undisturbed(config);
    models[expected.model_sha256] = optimizer;
    out_ = root_ / optimizer;
    StopAfter(config, 2);
    ExpectSame(Resume(config), expected);
  }
  EXPECT_EQ(models.size(), 4u);
}

// A frame that was damaged on its way costs the round its update and the client
// nothing: the same run in memory, on disk, killed and resumed. What the states
// must be is client_test's and executor_test's business.
TEST_F(Runs, DamagedFramesLeaveStatesAsTheyWere) {
  const Config config = Tiny({"method.name=topk", "method.error_feedback=true",
                              "data.train_examples=96", "partition.clients=3",
                              "rounds.clients_per_round=2", "rounds.count=6",
                              "faults.corrupt=0.4", "run.eval_every=6",
                              "run.checkpoint_every=2"});
  const RunResult expected = Undisturbed(config);
  uint32_t dropped = 0;
  for (const results::RoundRow& row : expected.rows) dropped += row.dropped;
  EXPECT_GE(dropped, 2u);
  StopAfter(config, 3);
  StopAfter(config, 5, /*resume=*/true);
  ExpectSame(Resume(config), expected);
}

TEST_F(Runs, StoppedInTheMiddleOfARound) {
  const Config config = Tiny({});
  const RunResult expected = Undisturbed(config);
  Progress progress;
  RunOptions options = Options(false);
  options.progress = &progress;
  std::thread watcher([&] {
    while (progress.round < 2 || progress.steps_done < 4) {
      std::this_thread::yield();
    }
    progress.stop = true;
  });
  const Result<RunResult> result = sim::Run(config, options);
  watcher.join();
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_TRUE(result->stopped);
  EXPECT_LT(result->rows.size(), 3u);
  ExpectSame(Resume(config), expected);
}

TEST_F(Runs, CheckpointsAsOftenAsTold) {
  const Config config = Tiny({"rounds.count=5", "run.checkpoint_every=2"});
  const RunResult expected = Undisturbed(config);
  StopAfter(config, 3);
  EXPECT_TRUE(fs::exists(Path(CheckpointName(2))));
  EXPECT_FALSE(fs::exists(Path(CheckpointName(3))));
  ExpectSame(Resume(config), expected);
  EXPECT_TRUE(fs::exists(Path(CheckpointName(5)))) << "the last always";
}

TEST_F(Runs, ResumeRefusesAnotherConfig) {
  StopAfter(Tiny({}), 1);
  const auto before = Contents();
  const Result<RunResult> result =
      Resume(Tiny({"train.lr=0.2", "rounds.count=2", "run.workers=2"}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().ToString(),
            out_.string() +
                " holds a run with another config:\n"
                "  train.lr: was 0.1, now 0.2\n"
                "  rounds.count: was 3, now 2\n"
                "resume with the same config, or start anew with another "
                "--out");
  for (const char* setting :
       {"seed=2", "data.test_examples=32", "partition.kind=labels",
        "method.name=fedmrns", "method.progressive=false",
        "rounds.weight=batches", "faults.drop=0.1",
        "run.threads_per_client=2"}) {
    const std::string key(setting, std::string_view(setting).find('='));
    const Result<RunResult> refused = Resume(Tiny({setting}));
    ASSERT_FALSE(refused) << setting;
    EXPECT_NE(refused.error().message.find("\n  " + key + ": was "),
              std::string::npos)
        << refused.error().message;
  }
  EXPECT_EQ(Contents(), before);
}

TEST_F(Runs, WhatDoesNotChangeResultsMayChange) {
  StopAfter(Tiny({}), 1);
  const Result<RunResult> result = Resume(
      Tiny({"data.dir=elsewhere", "run.workers=2", "run.checkpoint_every=3",
            "run.eval_every=3", "run.tensorboard=false"}));
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(result->model_sha256, Undisturbed(Tiny({})).model_sha256);
  EXPECT_FALSE(std::isnan(result->rows[0].score));
  EXPECT_TRUE(std::isnan(result->rows[1].score));
  EXPECT_FALSE(std::isnan(result->rows[2].score));
}

TEST_F(Runs, DamagedCheckpointFallsBackToTheOneBefore) {
  const Config config = Tiny({});
  const RunResult expected = Undisturbed(config);
  StopAfter(config, 2);
  FlipByte(2);
  ExpectSame(Resume(config), expected);
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_EQ(log_[0], Path(CheckpointName(2)) +
                         " is damaged (its SHA-256 differs); going back to the "
                         "one before");

  // At the end of the run, and cut off.
  Truncate(3);
  ExpectSame(Resume(config), expected);
  EXPECT_EQ(log_.size(), 2u);
  Write(CheckpointName(3), {});
  ExpectSame(Resume(config), expected);
  EXPECT_EQ(log_.size(), 3u);
}

TEST_F(Runs, AllCheckpointsDamaged) {
  const Config config = Tiny({});
  StopAfter(config, 2);
  FlipByte(2);
  Truncate(1);
  const auto before = Contents();
  const Result<RunResult> result = Resume(config);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().ToString(),
            "no checkpoint in " + Path("checkpoints") + " can be used: " +
                Path(CheckpointName(1)) + " is damaged (its SHA-256 differs)");
  EXPECT_EQ(log_.size(), 2u);
  // Nor is it taken for an empty folder.
  const Result<RunResult> anew = sim::Run(config, Options(false));
  ASSERT_FALSE(anew);
  EXPECT_NE(anew.error().message.find("already holds a run"),
            std::string::npos);
  EXPECT_EQ(Contents(), before);
}

TEST_F(Runs, CheckpointOfAnotherModel) {
  const Config config = Tiny({});
  StopAfter(config, 1);
  Result<results::Checkpoint> checkpoint =
      results::DecodeCheckpoint(Read(CheckpointName(1)));
  ASSERT_TRUE(checkpoint);
  checkpoint->model = *EncodeModel(config, 1, 1, {{1, 2, 3}, {}});
  Write(CheckpointName(1), results::EncodeCheckpoint(*checkpoint));
  const Result<RunResult> result = Resume(config);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().ToString(),
            out_.string() + "'s checkpoint is of another model");
}

TEST_F(Runs, NeverOverwritesAnotherRun) {
  const Config config = Tiny({"rounds.count=1"});
  ASSERT_TRUE(sim::Run(config, Options(false)));
  const auto before = Contents();
  const Result<RunResult> again = sim::Run(config, Options(false));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().ToString(),
            out_.string() +
                " already holds a run; --resume goes on with it, --overwrite "
                "begins anew, --out DIR "
                "writes elsewhere");
  EXPECT_EQ(Contents(), before);

  // Its results are worth as much without the checkpoints.
  fs::remove_all(Path("checkpoints"));
  const auto results = Contents();
  EXPECT_FALSE(sim::Run(config, Options(false)));
  const Result<RunResult> resumed = Resume(config);
  ASSERT_FALSE(resumed);
  EXPECT_EQ(resumed.error().ToString(),
            out_.string() +
                " holds results, but no checkpoint to go on from; --out DIR "
                "writes elsewhere");
  EXPECT_EQ(Contents(), results);
}

TEST_F(Runs, MoreRoundsAreTheSameRun) {
  const RunResult five = Undisturbed(Tiny({"rounds.count=5"}));
  ASSERT_TRUE(sim::Run(Tiny({}), Options(false)));
  ExpectSame(Resume(Tiny({"rounds.count=5"})), five);
  EXPECT_EQ(ParseConfig(AsText(Read("config.toml")), "", {})->rounds.count, 5u);
  // What clients kept is gone when a run has ended.
  const auto topk = [](const char* rounds) {
    return Tiny({"method.name=topk", "method.error_feedback=true", rounds});
  };
  fs::remove_all(out_);
  ASSERT_TRUE(sim::Run(topk("rounds.count=1"), Options(false)));
  ASSERT_TRUE(Resume(topk("rounds.count=1")));
  const Result<RunResult> refused = Resume(topk("rounds.count=2"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("cannot have more rounds"),
            std::string::npos);
}

TEST_F(Runs, Overwrite) {
  ASSERT_TRUE(sim::Run(Tiny({"train.lr=0.2"}), Options(false)));
  Write("notes.txt", AsBytes("mine"));
  RunOptions options = Options(false);
  options.overwrite = true;
  ExpectSame(sim::Run(Tiny({}), options), Undisturbed(Tiny({})));
  EXPECT_EQ(AsText(Read("notes.txt")), "mine");
}

}  // namespace
}  // namespace fedmrn::sim
