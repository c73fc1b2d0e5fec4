// Hostile clients against the real server: whole rounds of real clients, of
// which some attack.
#include "fedmrn/client/hostile.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fedmrn/core/test_util.h"
#include "fedmrn/sim/round.h"
#include "fedmrn/train/fake_task.h"

namespace fedmrn::sim {
namespace {

constexpr uint32_t kExamples[] = {5, 40, 1, 17, 8, 33, 16};
constexpr uint32_t kClientCount = std::size(kExamples);
constexpr uint32_t kRound = 2;

class Hostile : public testing::Test {
 protected:
  Hostile() {
    task_.model.layout.tensors[2].name = "bn.running_var";
    partition_.begin = {0};
    for (const uint32_t examples : kExamples) {
      partition_.begin.push_back(partition_.begin.back() + examples);
    }
    partition_.examples.resize(partition_.begin.back());
    std::iota(partition_.examples.begin(), partition_.examples.end(), 0u);
  }

  // A round of all clients with these settings, from start_.
  GlobalModel Round(std::vector<std::string> settings) {
    settings.insert(settings.begin(),
                    {"train.epochs=2", "train.batch=8", "rounds.count=9",
                     "partition.clients=7", "rounds.clients_per_round=7"});
    const Config config = ParseConfig("", "", settings).value();
    client::States states("");
    Workers workers(task_, 2);
    Progress progress;
    const auto executor = MakeThreadExecutor(
        {config, task_, partition_, workers, states, progress});
    log_.clear();
    GlobalModel model = start_;
    row_ = RunRound({config,
                     task_,
                     task_.model.layout.Fingerprint(),
                     {std::begin(kExamples), std::end(kExamples)},
                     *executor,
                     workers,
                     progress,
                     [&](const std::string& line) { log_.push_back(line); }},
                    kRound, model)
               .value()
               .row;
    hostile_ = 0;
    for (uint32_t client = 0; client < kClientCount; ++client) {
      hostile_ += client::IsHostile(config.faults, config.seed, client);
    }
    return model;
  }

  // The largest change of a weight, and of a plain value.
  float Moved(const GlobalModel& model) const {
    return Largest(model.weights, start_.weights);
  }
  float PlainMoved(const GlobalModel& model) const {
    return Largest(model.plain, start_.plain);
  }
  static float Largest(const std::vector<float>& a,
                       const std::vector<float>& b) {
    float largest = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      largest = std::max(largest, std::abs(a[i] - b[i]));
    }
    return largest;
  }

  train::Task task_ = train::MakeFakeTask();
  Partition partition_;
  const GlobalModel start_ = {Normal(1, train::kFakeParams, 0.1f),
                              std::vector<float>(train::kFakePlain, 0.5f)};
  std::vector<std::string> log_;
  results::RoundRow row_;
  uint32_t hostile_ = 0;
};

TEST_F(Hostile, LiesAreRefusedWithAReason) {
  const std::pair<const char*, const char*> lies[] = {
      {"replay", "round 1, this is round 2"},
      {"seed", "seed is not its client's"},
      {"weight", "says it has 1048576 examples"},
      {"nan-variance", "variance is negative"}};
  for (const auto& [attack, reason] : lies) {
    SCOPED_TRACE(attack);
    Round({"faults.hostile=0.4", std::string("faults.attack=") + attack});
    EXPECT_GT(hostile_, 0u);
    EXPECT_EQ(row_.dropped, hostile_);
    EXPECT_EQ(row_.clients, kClientCount - hostile_);
    EXPECT_EQ(log_.size(), hostile_);
    for (const std::string& line : log_) {
      EXPECT_NE(line.find(reason), std::string::npos) << line;
    }
  }
}

TEST_F(Hostile, WithoutAnyNothingChanges) {
  const GlobalModel honest = Round({"method.name=fedavg"});
  EXPECT_EQ(Round({"method.name=fedavg", "faults.attack=inflate",
                   "rounds.clip_norm=1000"})
                .weights,
            honest.weights);
}

TEST_F(Hostile, FlippedIsTheOpposite) {
  const GlobalModel honest = Round({"method.name=fedavg"});
  const GlobalModel flipped = Round({"method.name=fedavg", "faults.hostile=1"});
  for (size_t i = 0; i < honest.weights.size(); ++i) {
    EXPECT_NEAR(flipped.weights[i] - start_.weights[i],
                start_.weights[i] - honest.weights[i], 1e-6);
  }
}

TEST_F(Hostile, AMaskMovesAWeightByItsShareOfTheNoise) {
  for (const char* method : {"fedmrn", "fedmrns"}) {
    for (const char* attack : {"flip", "inflate", "random"}) {
      SCOPED_TRACE(std::string(method) + " " + attack);
      const GlobalModel model =
          Round({std::string("method.name=") + method, "method.magnitude=0.01",
                 "faults.hostile=1", std::string("faults.attack=") + attack});
      EXPECT_EQ(row_.clients, kClientCount);
      EXPECT_GT(Moved(model), 0);
      EXPECT_LE(Moved(model), 0.01f * 1.0001f);
    }
  }
  for (const char* method : {"fedavg", "eden", "signsgd", "terngrad"}) {
    SCOPED_TRACE(method);
    const GlobalModel model =
        Round({std::string("method.name=") + method, "faults.hostile=0.4",
               "faults.attack=inflate"});
    EXPECT_EQ(row_.clients, kClientCount);
    EXPECT_GT(Moved(model), 0.5f);
  }
}

TEST_F(Hostile, ClippedToTheMedian) {
  for (const char* method : {"fedavg", "eden", "signsgd", "fedmrn"}) {
    SCOPED_TRACE(method);
    const std::string name = std::string("method.name=") + method;
    const float honest = Moved(Round({name}));
    const GlobalModel spoilt =
        Round({name, "faults.hostile=0.4", "faults.attack=inflate"});
    EXPECT_GT(PlainMoved(spoilt), 1000);
    const GlobalModel clipped =
        Round({name, "faults.hostile=0.4", "faults.attack=inflate",
               "rounds.clip_norm=2"});
    EXPECT_EQ(row_.clients, kClientCount);
    EXPECT_LT(2 * hostile_, kClientCount);
    // An update of twice the median's length may have all of it in one weight.
    EXPECT_LT(Moved(clipped),
              3 * honest * std::sqrt(float{train::kFakeParams}));
    EXPECT_LT(PlainMoved(clipped), 100);
  }
}

TEST_F(Hostile, NobodyOutweighsHisShare) {
  // One weight each is an equal weight.
  EXPECT_LT(
      Largest(Round({"method.name=fedavg", "rounds.max_weight_share=0.001"})
                  .weights,
              Round({"method.name=fedavg", "rounds.weight=equal"}).weights),
      1e-6f);
  EXPECT_GT(
      Largest(
          Round({"method.name=fedavg", "rounds.max_weight_share=0.15"}).weights,
          Round({"method.name=fedavg"}).weights),
      1e-4f);
}

}  // namespace
}  // namespace fedmrn::sim
