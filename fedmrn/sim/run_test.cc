// Whole runs, on generated data. Sums differ between CPUs (oneDNN), so no hash
// of a trained model is written here: runs are compared with each other.
// run_resume_test.cc has those that go on from what another has left.
#include "fedmrn/sim/run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "fedmrn/base/files.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/results/checkpoint.h"
#include "fedmrn/results/summary.h"
#include "fedmrn/sim/run_test_util.h"

namespace fedmrn::sim {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

TEST_F(Runs, SameModelForAnyNumberOfWorkers) {
  std::map<std::string, std::string> models;
  // executor_test.cc has all methods.
  for (const char* method : {"fedavg", "fedmrn", "fedmrns", "fedpm"}) {
    SCOPED_TRACE(method);
    const std::string name = std::string("method.name=") + method;
    const RunResult one = Undisturbed(Tiny({name, "rounds.count=2"}));
    ExpectSame(sim::Run(Tiny({name, "rounds.count=2", "run.workers=2"}), {}),
               one);
    models[one.model_sha256] = method;
  }
  models[Undisturbed(Tiny({"rounds.count=2", "seed=2"})).model_sha256] = "seed";
  // Another number of threads within a client is another run, for any number of
  // workers as well.
  const std::string threads = "run.threads_per_client=2";
  const RunResult two = Undisturbed(Tiny({"rounds.count=2", threads}));
  ExpectSame(sim::Run(Tiny({"rounds.count=2", threads, "run.workers=2"}), {}),
             two);
  models[two.model_sha256] = "threads";
  EXPECT_EQ(models.size(), 6u);
}

TEST_F(Runs, FaultsDoNotDependOnWorkers) {
  const std::vector<std::string> faults = {
      "faults.drop=0.3", "faults.crash=0.2", "faults.corrupt=0.2",
      "rounds.min_clients=2"};
  std::vector<std::string> with_two = faults;
  with_two.push_back("run.workers=2");
  const RunResult one = Undisturbed(Tiny(faults));
  ExpectSame(sim::Run(Tiny(with_two), {}), one);
  uint32_t dropped = 0;
  for (const results::RoundRow& row : one.rows) {
    dropped += row.dropped;
    EXPECT_GE(row.clients, 2u);
  }
  EXPECT_GT(dropped, 0u);

  RunOptions options = Options(false);
  options.out = "";
  const Result<RunResult> lost = sim::Run(Tiny({"faults.drop=1"}), options);
  ASSERT_FALSE(lost);
  EXPECT_NE(lost.error().message.find("dropped (injected)"), std::string::npos);
  EXPECT_EQ(log_.size(), 20u * 3);
}

TEST_F(Runs, EndsEarlyAndSaysSo) {
  const Config whole = Tiny({});
  const RunResult expected = Undisturbed(whole);
  EXPECT_EQ(expected.ended_by, "rounds.count");
  const results::RoundRow best = results::SummaryOf(expected.rows).best;
  const std::string target =
      "rounds.target_accuracy=" + std::to_string(best.score - 1e-3);
  // The same rounds, up to the first that reaches it.
  const Result<RunResult> ended = sim::Run(Tiny({target}), Options(false));
  ASSERT_TRUE(ended) << ended.error().ToString();
  EXPECT_FALSE(ended->stopped);
  EXPECT_EQ(ended->ended_by, "rounds.target_accuracy");
  const size_t rounds = ended->rows.size();
  EXPECT_EQ(Timeless(ended->rows),
            Timeless({expected.rows.begin(),
                      expected.rows.begin() + static_cast<ptrdiff_t>(rounds)}));
  EXPECT_GE(ended->rows.back().score, best.score - 1e-3);
  EXPECT_EQ(Read("model.pt"), Read("model-best.pt"));
  const auto json = [&] {
    return nlohmann::json::parse(AsText(Read("run.json")));
  };
  EXPECT_EQ(json()["ended_by"], "rounds.target_accuracy");
  EXPECT_EQ(json()["finished"], true);
  uint64_t tested = 0, right = 0;
  const auto confusion = json()["last"]["confusion"];
  for (size_t truth = 0; truth < confusion.size(); ++truth) {
    for (const uint64_t count : confusion[truth]) tested += count;
    right += confusion[truth][truth].get<uint64_t>();
  }
  EXPECT_EQ(tested, whole.data.test_examples);
  EXPECT_EQ(static_cast<double>(right) / static_cast<double>(tested),
            ended->rows.back().score);

  // It stays so, unless the target is raised or gone.
  const Result<RunResult> again = Resume(Tiny({target}));
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_EQ(again->ended_by, "rounds.target_accuracy");
  EXPECT_EQ(again->rows.size(), rounds);
  EXPECT_EQ(json()["last"]["confusion"], confusion);
  EXPECT_FALSE(Resume(Tiny({"rounds.target_accuracy=0.0001"})));
  ExpectSame(Resume(whole), expected);
  EXPECT_EQ(json()["ended_by"], "rounds.count");
}

TEST_F(Runs, ThePatienceOfARunAndItsBestModel) {
  // A learning rate of nothing never betters the first round.
  const Config patient = Tiny({"method.name=fedavg", "train.lr=1e-30",
                               "rounds.count=30", "rounds.patience=2"});
  const Result<RunResult> ended = sim::Run(patient, Options(false));
  ASSERT_TRUE(ended) << ended.error().ToString();
  EXPECT_EQ(ended->ended_by, "rounds.patience");
  const results::RoundRow best = results::SummaryOf(ended->rows).best;
  EXPECT_EQ(ended->rows.size(), best.round + 2);
  const Bytes best_model = Read("model-best.pt");
  out_ = root_ / "to the best";
  ASSERT_TRUE(sim::Run(Tiny({"method.name=fedavg", "train.lr=1e-30",
                             "rounds.count=" + std::to_string(best.round)}),
                       Options(false)));
  EXPECT_EQ(Read("model.pt"), best_model);
}

// The magnitudes are part of what a checkpoint keeps, and nothing but the
// frames' bytes depends on how masks are coded.
TEST_F(Runs, SteeredMagnitudes) {
  for (const char* method : {"fedmrn", "fedmrns"}) {
    SCOPED_TRACE(method);
    const auto steered = [&](const std::vector<std::string>& more) {
      std::vector<std::string> settings = {
          std::string("method.name=") + method, "method.noise=bernoulli",
          "method.magnitude=auto", "rounds.count=6"};
      settings.insert(settings.end(), more.begin(), more.end());
      return Tiny(settings);
    };
    const Config config = steered({});
    const RunResult expected = Undisturbed(config);
    fs::remove_all(out_);
    StopAfter(config, 2);
    StopAfter(config, 4, true);
    ExpectSame(Resume(steered({"run.workers=2"})), expected);
    EXPECT_EQ(Undisturbed(steered({"method.coding=plain"})).model_sha256,
              expected.model_sha256);
    const RunResult more = Undisturbed(steered({"method.target_ones=0.2"}));
    EXPECT_NEAR(more.rows.back().share_of_ones, 0.2, 0.04);

    // From the method's own magnitude, within what a round may change.
    EXPECT_NEAR(expected.rows.front().magnitude,
                config.method.mask.first_magnitude, 1e-8);
    for (size_t i = 1; i < expected.rows.size(); ++i) {
      const double change =
          expected.rows[i].magnitude / expected.rows[i - 1].magnitude;
      EXPECT_GE(change, 0.5 - 1e-6);
      EXPECT_LE(change, 2 + 1e-6);
    }
    EXPECT_NEAR(expected.rows.back().share_of_ones, 0.1, 0.02);
  }
}

TEST_F(Runs, ValidationLeavesTheTestSetUnseen) {
  const Config config = Tiny({"data.validation=0.25", "data.test_examples=32"});
  const RunResult result = Undisturbed(config);
  // Another test set changes nothing.
  const RunResult other =
      Undisturbed(Tiny({"data.validation=0.25", "data.test_examples=64"}));
  EXPECT_EQ(result.model_sha256, other.model_sha256);
  EXPECT_EQ(Timeless(result.rows), Timeless(other.rows));
  // But clients train on less, and tests are others.
  const RunResult without = Undisturbed(Tiny({"data.test_examples=32"}));
  EXPECT_NE(result.model_sha256, without.model_sha256);
}

TEST_F(Runs, StatisticsOfTheDecodedUpdate) {
  const auto model_after_one_round = [this](const char* setting) {
    fs::remove_all(out_);
    EXPECT_TRUE(
        sim::Run(Tiny({"method.name=signsgd", "rounds.count=1", setting}),
                 Options(false)));
    const auto last =
        results::LoadCheckpoint(Path("checkpoints"), [](const auto&) {});
    const Result<FrameView> frame = ParseFrame((*last)->model);
    GlobalModel model{std::vector<float>(frame->params),
                      std::vector<float>(frame->plain_count)};
    DecodeUpdate(*frame, model.weights);
    frame->CopyPlain(model.plain);
    return model;
  };
  const GlobalModel of_training =
      model_after_one_round("method.decoded_statistics=false");
  const GlobalModel of_decoded =
      model_after_one_round("method.decoded_statistics=true");
  // Half of the plain values are trained, and nothing about them changes.
  EXPECT_EQ(of_training.weights, of_decoded.weights);
  const auto halves = [](const GlobalModel& model) {
    const auto middle = model.plain.begin() + 960;
    return std::pair(std::vector(model.plain.begin(), middle),
                     std::vector(middle, model.plain.end()));
  };
  EXPECT_EQ(halves(of_training).first, halves(of_decoded).first);
  EXPECT_NE(halves(of_training).second, halves(of_decoded).second);
}

TEST_F(Runs, WarnsOfErrorFeedbackThatMayDoHarm) {
  const auto warned = [this](const char* method) {
    log_.clear();
    fs::remove_all(out_);
    const Result<RunResult> result =
        sim::Run(Tiny({std::string("method.name=") + method,
                       "method.error_feedback=true", "rounds.count=1"}),
                 Options(false));
    EXPECT_TRUE(result);
    return std::ranges::any_of(log_, [](const std::string& line) {
      return line.starts_with("error feedback may do harm with ");
    });
  };
  for (const char* method : {"terngrad", "signsgd", "fedavg-sm"}) {
    EXPECT_TRUE(warned(method)) << method;
  }
  for (const char* method : {"fedavg", "topk", "drive", "eden"}) {
    EXPECT_FALSE(warned(method)) << method;
  }
}

// Entropy coding changes nothing but bytes.
TEST_F(Runs, CodingLeavesTheModelAsItIs) {
  for (const char* method :
       {"fedmrn", "fedmrns", "fedavg-sm", "signsgd", "topk", "fedsparsify",
        "terngrad", "fedbat", "fedpm"}) {
    SCOPED_TRACE(method);
    std::string models[2];
    uint64_t bytes[2];
    for (const bool entropy : {false, true}) {
      const Config config = Tiny(
          {std::string("method.name=") + method, "method.dense=delta",
           std::string("method.coding=") + (entropy ? "entropy" : "plain")});
      RunOptions options = Options(false);
      options.out = "";
      const Result<RunResult> result = sim::Run(config, options);
      ASSERT_TRUE(result) << result.error().ToString();
      models[entropy] = result->model_sha256;
      bytes[entropy] = result->rows.back().uplink_bytes;
    }
    EXPECT_EQ(models[0], models[1]);
    // FedPM's masks begin as fair coins, which no code makes shorter.
    if (std::string_view(method) == "fedpm") {
      EXPECT_LE(bytes[1], bytes[0]);
    } else {
      EXPECT_LT(bytes[1], bytes[0]);
    }
  }
}

TEST_F(Runs, Files) {
  const Config config = Tiny({"run.eval_every=2", "method.coding=plain"});
  RunOptions options = Options(true);  // of nothing: begins
  std::vector<size_t> told;
  options.on_round = [&](std::span<const results::RoundRow> rows) {
    told.push_back(rows.size());
    const Result<std::vector<results::RoundRow>> written =
        rows.empty() ? std::vector<results::RoundRow>()
                     : results::ParseRoundsCsv(AsText(Read("rounds.csv")));
    ASSERT_TRUE(written);
    EXPECT_EQ(written->size(), rows.size());
  };
  const Result<RunResult> result = sim::Run(config, options);
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(told, (std::vector<size_t>{0, 1, 2, 3}));

  const Bytes csv = Read("rounds.csv");
  EXPECT_EQ(AsText(csv), results::RoundsCsv(result->rows));
  EXPECT_TRUE(AsText(csv).starts_with(
      "round,accuracy,loss,uplink_bytes,payload_bytes,dense_bytes,"
      "downlink_bytes,uplink_bits_per_param,"
      "clients,dropped,train_s,encode_s,aggregate_s,eval_s,wall_s,"
      "train_loss,train_accuracy\n1,,,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
  for (const results::RoundRow& row : result->rows) {
    EXPECT_EQ(std::isnan(row.score), row.round == 1);
    EXPECT_EQ(row.clients, 3u);
    EXPECT_EQ(row.uplink_bytes, 3u * (84 + 389920 / 8 + 4 * 1920 + 8));
    EXPECT_EQ(row.payload_bytes, 3u * 389920 / 8);
    EXPECT_EQ(row.plain_bytes, 3u * 4 * 1920);
    EXPECT_EQ(row.downlink_bytes, 3u * (84 + 4 * (389920 + 1920) + 8));
    EXPECT_DOUBLE_EQ(row.uplink_bits_per_param,
                     8.0 * (84 + 389920 / 8 + 4 * 1920 + 8) / 389920);
  }

  const Json run = Json::parse(AsText(Read("run.json")));
  EXPECT_EQ(run["model_sha256"], result->model_sha256);
  EXPECT_EQ(run["finished"], true);
  EXPECT_EQ(run["rounds_done"], 3);
  EXPECT_EQ(run["fedmrn_version"], "1.2.3");
  EXPECT_EQ(run["masked_params"], 389920);
  EXPECT_EQ(run["dense_values"], 1920);
  EXPECT_EQ(run["last"]["accuracy"], result->rows[2].score);
  EXPECT_EQ(run["config"]["data"]["train_examples"], 320);

  const Bytes toml = Read("config.toml");
  const Result<Config> read = ParseConfig(AsText(toml), "config.toml", {});
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(ConfigToml(*read), ConfigToml(config));
  EXPECT_GT(Read("model.pt").size(), 4u * 389920);
  EXPECT_FALSE(fs::is_empty(Path("tb")));
  for (const auto& [path, hash] : Contents()) {
    EXPECT_FALSE(path.ends_with(".tmp")) << path;
  }

  // The hash is that of the model in the last checkpoint.
  const auto last =
      results::LoadCheckpoint(Path("checkpoints"), [](const auto&) {});
  ASSERT_TRUE(last && last->has_value());
  const Result<FrameView> frame = ParseFrame((*last)->model);
  ASSERT_TRUE(frame);
  GlobalModel model{std::vector<float>(frame->params),
                    std::vector<float>(frame->plain_count)};
  DecodeUpdate(*frame, model.weights);
  frame->CopyPlain(model.plain);
  EXPECT_EQ(ModelSha256(model), result->model_sha256);
}

TEST_F(Runs, StartsFromTheSameModelEverywhere) {
  StopAfter(Tiny({}), 0);
  const auto first =
      results::LoadCheckpoint(Path("checkpoints"), [](const auto&) {});
  ASSERT_TRUE(first && first->has_value());
  const Result<FrameView> frame = ParseFrame((*first)->model);
  ASSERT_TRUE(frame);
  GlobalModel model{std::vector<float>(frame->params),
                    std::vector<float>(frame->plain_count)};
  DecodeUpdate(*frame, model.weights);
  frame->CopyPlain(model.plain);
  EXPECT_EQ(ModelSha256(model),
            "07112a62c2db659584b0eac23a337fb19fd0504ad335d9b9b31813b14b68cf9d");
}

TEST(ModelHash, IsOfLittleEndianFloats) {
  // printf '\0\0\200\77\0\0\0\300\0\0\0\77' | sha256sum: 1, -2, 0.5
  const std::string expected =
      "2ce4bdb6b34a50ac7092eb9fee94337a27498e9eb9bae44192f15b88831b2422";
  EXPECT_EQ(ModelSha256({{1, -2}, {0.5}}), expected);
  EXPECT_EQ(ModelSha256({{1, -2, 0.5}, {}}), expected);
}

TEST_F(Runs, TenThousandClients) {
  const RunResult result =
      Undisturbed(Tiny({"data.train_examples=10000", "partition.clients=10000",
                        "rounds.count=2"}));
  EXPECT_EQ(result.rows[0].clients, 3u);
}

TEST_F(Runs, EveryPartition) {
  for (const char* kind : {"iid", "dirichlet", "labels"}) {
    Undisturbed(Tiny({std::string("partition.kind=") + kind, "rounds.count=1",
                      "partition.min_examples=2"}));
  }
}

TEST_F(Runs, WhatCannotBeWritesNothing) {
  const auto error = [&](std::vector<std::string> settings) {
    const Result<RunResult> result =
        sim::Run(Tiny(std::move(settings)), Options(false));
    return result ? "none" : result.error().ToString();
  };
  EXPECT_NE(
      error({"data.name=svhn", "data.dir=/nonexistent"}).find("/nonexistent"),
      std::string::npos);
  EXPECT_NE(error({"partition.kind=labels", "partition.labels_per_client=11"})
                .find("labels_per_client"),
            std::string::npos);
  EXPECT_NE(error({"partition.kind=natural"}), "none");
  EXPECT_NE(error({"partition.clients=1000"}), "none");
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(Runs, AFolderThatCannotBe) {
  // A file where a folder must be.
  ASSERT_TRUE(WriteFileAtomically(root_ / "new", {}));
  const Result<RunResult> result = sim::Run(Tiny({}), Options(false));
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find(out_.string()), std::string::npos)
      << result.error().message;
}

TEST_F(Runs, DivergedEndsAtOnce) {
  const Result<RunResult> result =
      sim::Run(Tiny({"method.name=fedavg", "train.lr=1e38"}), Options(false));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().ToString(),
            "training diverged in round 1: no client's update is finite; lower "
            "train.lr");
  EXPECT_EQ(log_.size(), 3u);  // one sample of clients
}

TEST(DefaultFolder, TellsTheRunsApart) {
  const auto folder = [](std::vector<std::string> settings,
                         const std::string& file = "") {
    return DefaultFolder(Tiny(settings), file, settings);
  };
  EXPECT_EQ(folder({"method.name=fedavg", "seed=3"}),
            "runs/synthetic-iid-fedavg-seed3");
  EXPECT_EQ(folder({"method.name=fedavg", "model.name=cnn8"}),
            "runs/synthetic-cnn8-iid-fedavg-seed1");
  EXPECT_EQ(folder({"method.name=fedavg", "train.lr=0.3", "run.workers=2",
                    "rounds.count=9"}),
            "runs/synthetic-iid-fedavg-seed1-lr0.3");
  EXPECT_EQ(folder({"seed=3", "train.lr=0.3", "data.dir=/a b"}, "x/my.toml"),
            "runs/my-seed3-lr0.3-dir_a_b");
  const std::string longest = folder({"data.dir=" + std::string(300, 'x')});
  EXPECT_LT(longest.size(), 150u);
  EXPECT_NE(longest, folder({"data.dir=" + std::string(301, 'x')}));
}

}  // namespace
}  // namespace fedmrn::sim
