// Tensors that stay on clients, through clients, rounds and whole runs.
#include "fedmrn/train/local_tensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "fedmrn/base/files.h"
#include "fedmrn/client/client.h"
#include "fedmrn/core/test_util.h"
#include "fedmrn/sim/round.h"
#include "fedmrn/sim/run.h"
#include "fedmrn/train/fake_task.h"

namespace fedmrn::sim {
namespace {

namespace fs = std::filesystem;
using Values = std::vector<float>;

Config Parsed(const std::vector<std::string>& settings) {
  const Result<Config> config = ParseConfig("", "", settings);
  EXPECT_TRUE(config) << config.error().ToString();
  return *config;
}

const GlobalModel& Start() {
  static const GlobalModel start = {Normal(1, train::kFakeParams, 0.1f),
                                    Normal(2, train::kFakePlain, 0.1f)};
  return start;
}

train::Task FakeTask(const std::string& local) {
  train::Task task = train::MakeFakeTask();
  task.model.initialize = [](uint64_t, std::span<float> coded,
                             std::span<float> plain) {
    std::ranges::copy(Start().weights, coded.begin());
    std::ranges::copy(Start().plain, plain.begin());
  };
  return local.empty() ? task : *train::WithLocalTensors(task, local, 1);
}

// One client that answers round after round, each of which counts.
struct Alone {
  Alone(const std::vector<std::string>& settings, const std::string& local)
      : config(Parsed(settings)), task(FakeTask(local)) {
    bench.learner = task.make_learner();
    examples.resize(20);
    std::iota(examples.begin(), examples.end(), 0u);
    model.weights.resize(task.model.layout.coded_params());
    model.plain.resize(task.model.layout.plain_values());
    task.model.initialize(1, model.weights, model.plain);
  }

  Bytes Answer(uint32_t round) {
    const Bytes broadcast =
        *EncodeModel(config, task.model.layout.Fingerprint(), round, model);
    const client::Settings settings = {RunId(config), config.seed,
                                       train::FindMethod(config.method.name),
                                       config.method, config.train};
    const std::array<uint32_t, 1> id = {5};
    Result<client::Answer> answer =
        client::Client(settings, task, examples, states, bench)
            .Answer({round, 0, id[0]}, broadcast, [](size_t) { return true; });
    EXPECT_TRUE(answer) << answer.error().ToString();
    states.Commit(round, id);
    EXPECT_TRUE(bench.learner->local() == nullptr ||
                bench.learner->local()->values.empty());
    return answer->frame;
  }

  Config config;
  train::Task task;
  GlobalModel model;
  std::vector<uint32_t> examples;
  client::States states{""};
  client::Bench bench;
};

const std::vector<std::string> kFedAvg = {"method.name=fedavg",
                                          "train.epochs=2", "train.batch=8",
                                          "train.lr=0.3", "train.momentum=0.5"};

// What a client sends is as if all were sent, but for what stays; and that is
// trained as it would be.
TEST(LocalTensorsSimTest, TrainedAsTheRestAndNeverSent) {
  Alone whole(kFedAvg, ""), own(kFedAvg, "fc.*,bn.*");
  const Bytes all = whole.Answer(1), some = own.Answer(1);
  const FrameView frame = *ParseFrame(some);
  EXPECT_EQ(frame.params, 21u);
  EXPECT_EQ(frame.plain_count, 0u);
  EXPECT_EQ(all.size() - some.size(), 4u * (16 + train::kFakePlain));
  Values update(train::kFakeParams), shared(21), plain(train::kFakePlain);
  DecodeUpdate(*ParseFrame(all), update);
  ParseFrame(all)->CopyPlain(plain);
  DecodeUpdate(frame, shared);
  EXPECT_EQ(shared, Values(update.begin(), update.begin() + 21));
  const Values kept = *own.states.Load(5);
  ASSERT_EQ(kept.size(), 16 + train::kFakePlain);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(kept[i], Start().weights[21 + i] + update[21 + i], 1e-6);
  }
  EXPECT_EQ(Values(kept.begin() + 16, kept.end()), plain);
}

// The second round goes on from what the first has left on the client.
TEST(LocalTensorsSimTest, GoOnFromRoundToRound) {
  // One step over all examples: half of the way to their mean.
  Alone own({"method.name=fedavg", "train.epochs=1", "train.batch=100",
             "train.lr=0.5"},
            "fc.*");
  double expected = Start().weights[21];
  for (uint32_t round = 1; round <= 3; ++round) {
    own.Answer(round);
    double mean = 0;
    for (const uint32_t e : own.examples) {
      mean += train::FakeTarget(e, 21) / static_cast<double>(20);
    }
    expected += 0.5 * (mean - expected);
    EXPECT_NEAR((*own.states.Load(5))[0], expected, 1e-6);
  }
}

// Whatever else a method keeps and sends.
TEST(LocalTensorsSimTest, EveryMethod) {
  for (const train::Method& method : train::Methods()) {
    SCOPED_TRACE(method.name);
    Alone own({"method.name=" + std::string(method.name), "train.batch=8"},
              "fc.*,bn.count");
    Alone without({"method.name=" + std::string(method.name), "train.batch=8"},
                  "");
    for (uint32_t round = 1; round <= 2; ++round) {
      Aggregator sum = *Aggregator::Create(
          RoundSpecOf(own.config, own.task.model.layout, round, own.model, 0));
      const Status added = sum.Add(own.Answer(round));
      EXPECT_TRUE(added) << added.error().ToString();
      without.Answer(round);
    }
    // FedPM's are two moments for each parameter and the number of steps.
    const bool keeps = !without.states.Load(5)->empty();
    EXPECT_EQ(own.states.Load(5)->size(), 18u + (keeps ? 2 * 21 + 1 : 0));
  }
}

// What was lost stands before them.
TEST(LocalTensorsSimTest, BesideErrorFeedback) {
  std::vector<std::string> settings = kFedAvg;
  settings.insert(settings.end(), {"method.name=topk", "method.keep=0.1",
                                   "method.error_feedback=true"});
  Alone whole(settings, ""), own(settings, "bn.*");
  for (uint32_t round = 1; round <= 3; ++round) {
    Values update(train::kFakeParams), expected(train::kFakeParams);
    DecodeUpdate(*ParseFrame(own.Answer(round)), update);
    DecodeUpdate(*ParseFrame(whole.Answer(round)), expected);
    EXPECT_EQ(update, expected);
  }
  const Values lost = *whole.states.Load(5), state = *own.states.Load(5);
  ASSERT_EQ(state.size(), lost.size() + train::kFakePlain);
  EXPECT_EQ(Values(state.begin(), state.end() - train::kFakePlain), lost);
}

class LocalTensorsRunTest : public testing::Test {
 protected:
  void SetUp() override {
    out_ = fs::path(testing::TempDir()) / ("local" + std::to_string(getpid()));
    fs::remove_all(out_);
  }
  void TearDown() override { fs::remove_all(out_); }

  static Config Tiny(std::vector<std::string> more) {
    std::vector<std::string> settings = {
        "data.name=synthetic",  "data.train_examples=128",
        "data.test_examples=8", "data.validation=0.25",
        "partition.clients=4",  "rounds.clients_per_round=2",
        "rounds.count=3",       "train.epochs=1",
        "train.batch=16",       "run.eval_clients=4",
        "run.workers=1"};
    settings.insert(settings.end(), more.begin(), more.end());
    return Parsed(settings);
  }
  static RunResult Ran(const Config& config, const RunOptions& options = {}) {
    const Result<RunResult> result = sim::Run(config, options);
    EXPECT_TRUE(result) << result.error().ToString();
    return *result;
  }
  static std::string Timeless(std::vector<results::RoundRow> rows) {
    for (results::RoundRow& row : rows) {
      row.train_s = row.encode_s = row.aggregate_s = row.eval_s = row.wall_s =
          0;
    }
    return results::RoundsCsv(rows);
  }

  fs::path out_;
};

// Stopped and resumed, with any number of workers: the same for all, clients'
// own scores too.
TEST_F(LocalTensorsRunTest, TheSameWheneverItIsStopped) {
  const Config config =
      Tiny({"method.local=bn*,fc.*", "run.checkpoint_every=2"});
  const RunResult expected = Ran(config);
  EXPECT_EQ(expected.rows[0].plain_bytes, 0u);

  Progress progress;
  RunOptions options;
  options.out = out_;
  options.progress = &progress;
  options.on_round = [&](std::span<const results::RoundRow> rows) {
    progress.stop = rows.size() == 1;
  };
  EXPECT_TRUE(Ran(config, options).stopped);
  progress.stop = false;
  options.on_round = nullptr;
  options.resume = true;
  Config three = config;
  three.run.workers = 3;
  const RunResult resumed = Ran(three, options);
  EXPECT_EQ(resumed.model_sha256, expected.model_sha256);
  EXPECT_EQ(Timeless(resumed.rows), Timeless(expected.rows));

  const auto run =
      nlohmann::json::parse(AsText(*ReadFile((out_ / "run.json").string())));
  EXPECT_EQ(run["masked_params"], 389'920 - 2'560);
  EXPECT_EQ(run["dense_values"], 0);
  EXPECT_EQ(run["local_values"], 2'560 + 1'920);
  // What was trained stays, and the run may have more rounds.
  EXPECT_TRUE(fs::exists(out_ / "clients"));
  const Config longer = Tiny(
      {"method.local=bn*,fc.*", "run.checkpoint_every=2", "rounds.count=4"});
  EXPECT_EQ(Ran(longer, options).model_sha256, Ran(longer).model_sha256);
}

// With one client nothing is averaged, so what stays with it comes to the same
// as if it travelled: a client tested with its own tensors scores as that
// global model. The global model itself has the initial ones.
TEST_F(LocalTensorsRunTest, ClientsAreTestedWithTheirOwn) {
  const std::vector<std::string> one = {
      "method.name=fedavg",  "data.train_examples=240",
      "partition.clients=1", "rounds.clients_per_round=1",
      "rounds.count=3",      "train.epochs=3"};
  std::vector<std::string> local = one;
  local.push_back("method.local=bn*,fc.*");
  const RunResult whole = Ran(Tiny(one)), own = Ran(Tiny(local));
  ASSERT_GT(whole.rows[2].score, 0.5) << "learned nothing";
  // The same but for rounding, which was seen to change 3 of the 60 answers.
  for (size_t round = 0; round < 3; ++round) {
    EXPECT_NEAR(own.rows[round].client_score, whole.rows[round].score,
                3.5 / 60);
    EXPECT_NEAR(own.rows[round].personal_score,
                whole.rows[round].personal_score, 3.5 / 60);
  }
  EXPECT_LT(own.rows[2].score, whole.rows[2].score - 0.2);
}

}  // namespace
}  // namespace fedmrn::sim
