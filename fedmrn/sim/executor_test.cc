#include "fedmrn/sim/executor.h"

#include <chrono>
#include <cmath>
#include <map>
#include <new>
#include <numeric>
#include <set>
#include <stdexcept>

#include "fedmrn/core/frame.h"
#include "fedmrn/core/test_util.h"
#include "fedmrn/sim/round.h"
#include "fedmrn/train/fake_task.h"

namespace fedmrn::sim {
namespace {

using Ids = std::vector<uint32_t>;

// What came back from a client: a frame, or why there is none.
struct Answer {
  Bytes frame;
  std::string failure;
};

Partition OfSizes(const std::vector<uint32_t>& sizes) {
  Partition partition;
  partition.begin = {0};
  for (const uint32_t size : sizes) {
    partition.begin.push_back(partition.begin.back() + size);
  }
  partition.examples.resize(partition.begin.back());
  std::iota(partition.examples.begin(), partition.examples.end(), 0u);
  return partition;
}

class ThreadExecutorTest : public testing::Test {
 protected:
  void SetUp() override { Configure({}); }

  void Configure(std::vector<std::string> settings) {
    settings.insert(settings.begin(),
                    {"train.epochs=2", "train.batch=8", "train.momentum=0.5"});
    const Result<Config> config = ParseConfig("", "", settings);
    ASSERT_TRUE(config) << config.error().ToString();
    config_ = *config;
  }

  Bytes Broadcast(uint32_t round = 4) const {
    return *EncodeModel(config_, task_.model.layout.Fingerprint(), round,
                        model_);
  }

  std::vector<Answer> Execute(uint32_t workers, ByteView broadcast,
                              const Ids& clients, uint32_t attempt = 0) {
    Workers threads(task_, workers);
    return Execute(config_, threads, states_, {4, attempt, clients, broadcast});
  }

  // In the order of the clients, whatever the order of arrival.
  std::vector<Answer> Execute(const Config& config, Workers& workers,
                              client::States& states, const RoundOrder& order,
                              const Ids& counted = {}) {
    const auto executor = MakeThreadExecutor(
        {config, task_, partition_, workers, states, progress_});
    std::map<uint32_t, Answer> arrived;
    const Status executed = executor->Execute(
        order,
        [&](uint32_t client, const Result<client::Answer>& answer) {
          EXPECT_FALSE(arrived.contains(client));
          arrived[client] = answer ? Answer{answer->frame, ""}
                                   : Answer{{}, answer.error().ToString()};
        },
        progress_.stop);
    EXPECT_EQ(executed.ok(), !progress_.stop);
    if (!executed) {
      EXPECT_EQ(executed.error().code, ErrorCode::kStopped);
    }
    EXPECT_TRUE(executor->Commit(order.round, counted));
    std::vector<Answer> answers;
    for (const uint32_t client : order.clients) {
      EXPECT_TRUE(arrived.contains(client) || progress_.stop);
      answers.push_back(arrived[client]);
    }
    return answers;
  }
  std::vector<Answer> Execute(uint32_t workers = 2) {
    return Execute(workers, Broadcast(), clients_);
  }

  static std::vector<Bytes> Frames(const std::vector<Answer>& answers) {
    std::vector<Bytes> frames;
    for (const Answer& answer : answers) {
      EXPECT_FALSE(answer.frame.empty()) << answer.failure;
      frames.push_back(answer.frame);
    }
    return frames;
  }
  static std::set<std::string> Failures(const std::vector<Answer>& answers) {
    std::set<std::string> failures;
    for (const Answer& answer : answers) {
      EXPECT_TRUE(answer.frame.empty());
      failures.insert(answer.failure);
    }
    return failures;
  }
  uint64_t TotalSteps() const {
    uint64_t steps = 0;
    for (const uint32_t c : clients_) {
      steps += 2 * ((partition_.of(c).size() + 7) / 8);
    }
    return steps;
  }

  Config config_;
  train::Task task_ = train::MakeFakeTask();
  const Partition partition_ = OfSizes({5, 40, 1, 17, 8, 33, 16});
  const Ids clients_ = {0, 1, 3, 4, 6};
  const GlobalModel model_ = {Normal(1, train::kFakeParams, 0.1f),
                              Normal(2, train::kFakePlain, 0.1f)};
  client::States states_{""};
  Progress progress_;
};

TEST_F(ThreadExecutorTest, SameBytesForAnyNumberOfWorkers) {
  for (const train::Method& method : train::Methods()) {
    SCOPED_TRACE(method.name);
    // With an optimiser that remembers, a client would answer otherwise the
    // second time.
    Configure(
        {"method.name=" + std::string(method.name), "method.optimizer=sgd"});
    const std::vector<Bytes> one = Frames(Execute(1));
    EXPECT_EQ(one, Frames(Execute(2)));
    EXPECT_EQ(one, Frames(Execute(3)));
    EXPECT_EQ(std::set<Bytes>(one.begin(), one.end()).size(), 5u);
    // Nor does a client's answer depend on who else is asked.
    const std::vector<Bytes> alone = Frames(Execute(1, Broadcast(), {3}));
    EXPECT_EQ(alone[0], one[2]);
  }
}

TEST_F(ThreadExecutorTest, LongestFirst) {
  std::vector<train::FakeStep> steps;
  const std::vector<Bytes> frames = Frames(Execute(3));
  task_ = train::MakeFakeTask(&steps);
  EXPECT_EQ(Frames(Execute(1)), frames);
  for (size_t i = 0; i < clients_.size(); ++i) {
    const Result<FrameView> frame = ParseFrame(frames[i]);
    ASSERT_TRUE(frame) << frame.error().ToString();
    EXPECT_EQ(frame->client, clients_[i]);
    EXPECT_EQ(frame->examples, partition_.of(clients_[i]).size());
    EXPECT_EQ(frame->round, 4u);
    EXPECT_EQ(frame->fingerprint, task_.model.layout.Fingerprint());
  }
  Ids started;  // by whom the examples of each step are
  for (const train::FakeStep& step : steps) {
    uint32_t owner = 0;
    while (partition_.begin[owner + 1] <= step.examples[0]) ++owner;
    if (started.empty() || started.back() != owner) started.push_back(owner);
  }
  EXPECT_EQ(started, (Ids{1, 3, 6, 4, 0}));
}

// One step of FedAvg with all examples: lr * (mean target - w), from the
// broadcast's weights.
TEST_F(ThreadExecutorTest, TrainsFromTheBroadcast) {
  Configure({"method.name=fedavg", "train.epochs=1", "train.batch=100",
             "train.lr=0.5"});
  const std::vector<Answer> answers = Execute();
  for (size_t k = 0; k < clients_.size(); ++k) {
    const Result<FrameView> frame = ParseFrame(answers[k].frame);
    ASSERT_TRUE(frame);
    std::vector<float> update(train::kFakeParams), plain(train::kFakePlain);
    DecodeUpdate(*frame, update);
    frame->CopyPlain(plain);
    const auto mean = [&](size_t i) {
      double sum = 0;
      for (const uint32_t e : partition_.of(clients_[k])) {
        sum += train::FakeTarget(e, i);
      }
      return sum / static_cast<double>(partition_.of(clients_[k]).size());
    };
    for (size_t i = 0; i < update.size(); ++i) {
      ASSERT_NEAR(update[i], 0.5 * (mean(i) - model_.weights[i]), 1e-6);
    }
    for (size_t i = 0; i < train::kFakeTrainable; ++i) {
      ASSERT_NEAR(plain[i], 0.5 * (mean(1000 + i) + model_.plain[i]), 1e-6);
    }
    for (size_t i = train::kFakeTrainable; i < train::kFakePlain; ++i) {
      ASSERT_NEAR(plain[i], model_.plain[i] + 1, 1e-6);
    }
  }
}

// Clients differ in their noise and draws, and so do rounds.
TEST_F(ThreadExecutorTest, SeedsOfClientsAndRounds) {
  std::set<uint64_t> seeds;
  for (const uint64_t seed : {1, 2}) {
    Configure({"seed=" + std::to_string(seed)});
    Workers threads(task_, 1);
    for (const uint32_t round : {4, 5}) {
      const Bytes broadcast = Broadcast(round);
      for (const Answer& answer : Execute(config_, threads, states_,
                                          {round, 0, clients_, broadcast})) {
        const Result<FrameView> frame = ParseFrame(answer.frame);
        ASSERT_TRUE(frame) << answer.failure;
        EXPECT_EQ(frame->noise.kind, NoiseKind::kUniform);
        EXPECT_EQ(frame->noise.magnitude, 0.01f);
        seeds.insert(frame->noise.seed);
      }
    }
  }
  EXPECT_EQ(seeds.size(), 2 * 2 * clients_.size());
}

// Every method's frames are what the server of its round expects.
TEST_F(ThreadExecutorTest, FramesFitTheRound) {
  for (const train::Method& method : train::Methods()) {
    SCOPED_TRACE(method.name);
    for (const char* more :
         {"seed=1", "method.dense=float16", "method.dense=delta",
          "method.update=float16", "method.bits=3"}) {
      Configure({"method.name=" + std::string(method.name), more});
      Result<Aggregator> aggregator = Aggregator::Create(
          RoundSpecOf(config_, task_.model.layout, 4, model_, 0));
      ASSERT_TRUE(aggregator) << aggregator.error().ToString();
      for (const Bytes& frame : Frames(Execute())) {
        const Status added = aggregator->Add(frame);
        EXPECT_TRUE(added) << added.error().ToString();
      }
    }
  }
}

// What the codec lost in one round is sent in the next: all that was ever
// counted and what is left add up to all updates of the rounds that counted.
TEST_F(ThreadExecutorTest, ErrorFeedback) {
  for (const char* method : {"topk", "drive", "signsgd"}) {
    SCOPED_TRACE(method);
    const std::string name = std::string("method.name=") + method;
    Configure({name, "method.keep=0.1", "method.update=float32"});
    Config plain = config_;
    plain.method.name = "fedavg";
    Configure({name, "method.keep=0.1", "method.error_feedback=true"});
    client::States states(""), none("");
    Workers threads(task_, 1);
    std::vector<double> sent(train::kFakeParams), updates(train::kFakeParams);
    for (uint32_t round = 1; round <= 5; ++round) {
      // Only every other frame is counted; what was refused is not forgotten.
      const bool counted = round % 2 == 1;
      const auto add = [&](const Config& config, client::States& from,
                           std::vector<double>& sum) {
        const Bytes broadcast = *EncodeModel(
            config, task_.model.layout.Fingerprint(), round, model_);
        const Answer answer =
            Execute(config, threads, from, {round, 0, Ids{3}, broadcast},
                    counted ? Ids{3} : Ids{})[0];
        ASSERT_FALSE(answer.frame.empty()) << answer.failure;
        std::vector<float> update(train::kFakeParams);
        DecodeUpdate(*ParseFrame(answer.frame), update);
        for (size_t i = 0; i < update.size() && counted; ++i) {
          sum[i] += update[i];
        }
      };
      add(config_, states, sent);
      add(plain, none, updates);
      const std::vector<float> left = *states.Load(3);
      ASSERT_EQ(left.size(), train::kFakeParams);
      double lost = 0;
      for (size_t i = 0; i < left.size(); ++i) {
        ASSERT_NEAR(sent[i] + left[i], updates[i], 1e-5);
        lost += std::fabs(left[i]);
      }
      EXPECT_GT(lost, 0);
    }
    EXPECT_TRUE(states.Load(4)->empty());
    EXPECT_TRUE(none.Load(3)->empty());
  }
}

TEST_F(ThreadExecutorTest, CrashedClientsKeepTheirState) {
  Configure({"method.name=fedpm"});
  Workers threads(task_, 2);
  const Bytes broadcast = Broadcast();
  Frames(Execute(config_, threads, states_, {4, 0, clients_, broadcast},
                 clients_));
  const std::vector<float> state = *states_.Load(3);
  EXPECT_EQ(state.size(), 2 * train::kFakeParams + 1);
  Configure({"method.name=fedpm", "faults.crash=1"});
  Failures(Execute());
  EXPECT_EQ(*states_.Load(3), state);
}

TEST_F(ThreadExecutorTest, ADeadlineDropsWhoIsLate) {
  const std::vector<Bytes> good = Frames(Execute());
  Configure(
      {"faults.delay=1", "faults.delay_s=3600", "rounds.deadline_s=0.05"});
  EXPECT_EQ(Failures(Execute()),
            std::set<std::string>{"has not answered in time"});
  // A deadline that nobody misses changes nothing.
  Configure({"rounds.deadline_s=3600"});
  EXPECT_EQ(Frames(Execute()), good);
}

TEST_F(ThreadExecutorTest, SaysWhenItFailedItself) {
  task_.make_learner = []() -> std::unique_ptr<train::Learner> {
    throw std::runtime_error("no room for a network");
  };
  Workers threads(task_, 2);
  const auto executor = MakeThreadExecutor(
      {config_, task_, partition_, threads, states_, progress_});
  const Bytes broadcast = Broadcast();
  const Status executed = executor->Execute(
      {4, 0, clients_, broadcast},
      [](uint32_t, const Result<client::Answer>&) { FAIL(); }, progress_.stop);
  ASSERT_FALSE(executed);
  EXPECT_EQ(executed.error().code, ErrorCode::kFailed);
  EXPECT_EQ(executed.error().message,
            "the threads failed: no room for a network");
}

TEST_F(ThreadExecutorTest, Progress) {
  Execute();
  EXPECT_EQ(progress_.steps_total, TotalSteps());
  EXPECT_EQ(progress_.steps_done, TotalSteps());
  EXPECT_EQ(progress_.examples_trained, 2 * (5u + 40 + 17 + 8 + 16));
}

TEST_F(ThreadExecutorTest, Drop) {
  Configure({"faults.drop=1"});
  std::vector<train::FakeStep> steps;
  task_ = train::MakeFakeTask(&steps);
  EXPECT_EQ(Failures(Execute(1)), std::set<std::string>{"dropped (injected)"});
  EXPECT_TRUE(steps.empty());
  EXPECT_EQ(progress_.steps_done, TotalSteps());
}

TEST_F(ThreadExecutorTest, CrashIsAnywhereInTheTraining) {
  Configure({"faults.crash=1"});
  EXPECT_EQ(Failures(Execute(2)), std::set<std::string>{"crashed (injected)"});
  EXPECT_EQ(progress_.steps_done, TotalSteps());
  std::set<size_t> lengths;  // of client 1, which would take 10 steps
  for (uint32_t attempt = 0; attempt < 100; ++attempt) {
    std::vector<train::FakeStep> steps;
    task_ = train::MakeFakeTask(&steps);
    Failures(Execute(1, Broadcast(), {1}, attempt));
    lengths.insert(steps.size());
  }
  EXPECT_EQ(*lengths.begin(), 1u);
  EXPECT_EQ(*lengths.rbegin(), 10u);
  EXPECT_EQ(lengths.size(), 10u);
}

TEST_F(ThreadExecutorTest, CorruptFramesAreFoundOut) {
  const std::vector<Bytes> good = Frames(Execute());
  Configure({"faults.corrupt=1"});
  std::set<size_t> places;
  for (uint32_t attempt = 0; attempt < 20; ++attempt) {
    const std::vector<Bytes> bad =
        Frames(Execute(2, Broadcast(), clients_, attempt));
    for (size_t i = 0; i < good.size(); ++i) {
      EXPECT_FALSE(ParseFrame(bad[i]));
      ASSERT_EQ(bad[i].size(), good[i].size());
      size_t different = 0;
      for (size_t b = 0; b < good[i].size(); ++b) {
        if (good[i][b] == bad[i][b]) continue;
        ++different;
        places.insert(b);
      }
      EXPECT_EQ(different, 1u);
    }
  }
  EXPECT_GT(places.size(), 20u);
}

TEST_F(ThreadExecutorTest, DelayChangesOnlyTheTime) {
  const std::vector<Bytes> good = Frames(Execute());
  Configure({"faults.delay=1", "faults.delay_s=0.02"});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Frames(Execute(1)), good);
  EXPECT_GE(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(100));
}

TEST_F(ThreadExecutorTest, FaultsComeAsOftenAsTold) {
  Configure({"faults.drop=0.25", "faults.crash=0.25", "faults.corrupt=0.25"});
  int dropped = 0, crashed = 0, corrupt = 0, good = 0;
  for (uint32_t attempt = 0; attempt < 200; ++attempt) {
    const std::vector<Answer> answers =
        Execute(1, Broadcast(), clients_, attempt);
    if (attempt < 5) {
      const std::vector<Answer> again =
          Execute(3, Broadcast(), clients_, attempt);
      for (size_t i = 0; i < answers.size(); ++i) {
        EXPECT_EQ(answers[i].frame, again[i].frame);
        EXPECT_EQ(answers[i].failure, again[i].failure);
      }
    }
    for (const Answer& answer : answers) {
      dropped += answer.failure == "dropped (injected)";
      crashed += answer.failure == "crashed (injected)";
      if (answer.frame.empty()) continue;
      ++(ParseFrame(answer.frame) ? good : corrupt);
    }
  }
  // Each is expected 250 times of 1,000, sigma 14.
  for (const int count : {dropped, crashed, corrupt, good}) {
    EXPECT_NEAR(count, 250, 60);
  }
}

// Nothing but bytes crosses the line, and bytes can be anything.
TEST_F(ThreadExecutorTest, BrokenBroadcastsGiveFailures) {
  const Bytes good = Broadcast();
  for (const size_t size : {size_t{0}, size_t{10}, good.size() - 1}) {
    const auto answers = Execute(2, ByteView(good).first(size), clients_);
    for (const std::string& failure : Failures(answers)) {
      EXPECT_NE(failure, "");
    }
  }
  Bytes flipped = good;
  flipped[200] ^= 1;
  for (const std::string& failure : Failures(Execute(2, flipped, clients_))) {
    EXPECT_NE(failure.find("checksum"), std::string::npos) << failure;
  }
}

TEST_F(ThreadExecutorTest, ForeignBroadcastsGiveFailures) {
  const uint64_t fingerprint = task_.model.layout.Fingerprint();
  const auto failures = [&](const Result<Bytes>& broadcast) {
    return Failures(Execute(2, *broadcast, clients_));
  };
  const std::set<std::string> another = {
      "the broadcast is of another model, run or round"};
  EXPECT_EQ(failures(EncodeModel(config_, fingerprint + 1, 4, model_)),
            another);
  EXPECT_EQ(failures(EncodeModel(config_, fingerprint, 5, model_)), another);
  GlobalModel longer = model_, shorter = model_, denser = model_;
  longer.weights.push_back(0);
  shorter.weights.pop_back();
  denser.plain.pop_back();
  for (const GlobalModel* model : {&longer, &shorter, &denser}) {
    EXPECT_EQ(failures(EncodeModel(config_, fingerprint, 4, *model)), another);
  }
  FrameHeader update;
  update.round = 4;
  update.client = 1;
  update.examples = 1;
  update.fingerprint = fingerprint;
  EXPECT_EQ(failures(EncodeFrame(update, {}, model_.weights, model_.plain)),
            another);
}

// What training came to in the last epoch: of the fake task, the mean number of
// the client's examples and how many are even. Client 3 has 46 to 62.
TEST_F(ThreadExecutorTest, TellsOfTheLastEpoch) {
  for (const train::Method& method : train::Methods()) {
    for (const bool drop_last : {false, true}) {
      Configure({"method.name=" + std::string(method.name),
                 drop_last ? "train.drop_last=true" : "train.batch=8"});
      Workers workers(task_, 1);
      const auto executor = MakeThreadExecutor(
          {config_, task_, partition_, workers, states_, progress_});
      const Ids client = {3};
      const Bytes broadcast = Broadcast();
      ASSERT_TRUE(executor->Execute(
          {4, 0, client, broadcast},
          [&](uint32_t, const Result<client::Answer>& answer) {
            ASSERT_TRUE(answer);
            if (drop_last) {  // one of them is left out
              EXPECT_NEAR(answer->train_loss, 54, 0.5);
              return;
            }
            EXPECT_DOUBLE_EQ(answer->train_loss, 54);
            EXPECT_DOUBLE_EQ(answer->train_score, 9.0 / 17);
          },
          progress_.stop));
    }
  }
}

// Throws what it is given at example 50, which is client 3's.
template <typename Exception>
class Throwing final : public train::FakeLearner {
 public:
  explicit Throwing(Exception exception) : exception_(std::move(exception)) {}

  train::BatchScore Gradient(std::span<const uint32_t> examples,
                             const PhiloxStream& draws,
                             std::span<const float> coded,
                             std::span<float> plain,
                             std::span<float> coded_gradient,
                             std::span<float> plain_gradient) override {
    for (const uint32_t e : examples) {
      if (e == 50) throw exception_;
    }
    return train::FakeLearner::Gradient(examples, draws, coded, plain,
                                        coded_gradient, plain_gradient);
  }

 private:
  const Exception exception_;
};

TEST_F(ThreadExecutorTest, AThrowingLearnerCostsItsClientOnly) {
  const std::vector<Bytes> good = Frames(Execute());
  task_.make_learner = [] {
    return std::make_unique<Throwing<std::runtime_error>>(
        std::runtime_error("a bad example, say"));
  };
  const std::vector<Answer> answers = Execute();
  for (size_t i = 0; i < answers.size(); ++i) {
    if (clients_[i] == 3) {  // 46 to 62
      EXPECT_TRUE(answers[i].frame.empty());
      EXPECT_EQ(answers[i].failure, "a bad example, say");
    } else {
      EXPECT_EQ(answers[i].frame, good[i]);
    }
  }
}

// Without the client that had no room the model would be another than on a
// larger machine.
TEST_F(ThreadExecutorTest, OutOfMemoryInAWorkerEndsTheRound) {
  task_.make_learner = [] {
    return std::make_unique<Throwing<std::bad_alloc>>(std::bad_alloc());
  };
  const Bytes broadcast = Broadcast();
  for (const uint32_t workers : {1, 2, 5}) {
    Workers threads(task_, workers);
    const auto executor = MakeThreadExecutor(
        {config_, task_, partition_, threads, states_, progress_});
    const Status executed = executor->Execute(
        {4, 0, clients_, broadcast},
        [](uint32_t client, const Result<client::Answer>& answer) {
          EXPECT_TRUE(answer);
          EXPECT_NE(client, 3u);
        },
        progress_.stop);
    ASSERT_FALSE(executed);
    EXPECT_EQ(executed.error().code, ErrorCode::kFailed);
    EXPECT_EQ(executed.error().message, "round 4, client 3: out of memory");
  }
}

TEST_F(ThreadExecutorTest, DivergedUpdatesAreNotSent) {
  Configure({"method.name=fedavg", "train.lr=1e38", "train.momentum=0"});
  for (const std::string& failure : Failures(Execute())) {
    EXPECT_NE(failure.find("finite"), std::string::npos) << failure;
  }
}

TEST_F(ThreadExecutorTest, HalfPrecisionForPlainValues) {
  const std::vector<Bytes> single = Frames(Execute());
  Configure({"method.dense=float16"});
  const std::vector<Bytes> half = Frames(Execute());
  for (size_t i = 0; i < half.size(); ++i) {
    EXPECT_EQ(half[i].size() + 2 * train::kFakePlain, single[i].size());
  }
}

TEST_F(ThreadExecutorTest, StopEndsAllAtOnce) {
  class Stopping final : public train::FakeLearner {
   public:
    explicit Stopping(Progress& progress) : progress_(progress) {}
    train::BatchScore Gradient(std::span<const uint32_t>, const PhiloxStream&,
                               std::span<const float>, std::span<float>,
                               std::span<float>, std::span<float>) override {
      progress_.stop = true;
      return {};
    }

   private:
    Progress& progress_;
  };
  task_.make_learner = [this] { return std::make_unique<Stopping>(progress_); };
  Failures(Execute(1));
  EXPECT_EQ(progress_.examples_trained, 8u) << "one step";
}

}  // namespace
}  // namespace fedmrn::sim
