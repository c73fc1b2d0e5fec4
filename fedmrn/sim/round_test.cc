#include "fedmrn/sim/round.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>
#include <utility>

#include "fedmrn/core/frame.h"
#include "fedmrn/core/test_util.h"
#include "fedmrn/sim/evaluate.h"
#include "fedmrn/train/fake_task.h"

namespace fedmrn::sim {
namespace {

using Ids = std::vector<uint32_t>;

// A frame, or why there is none.
struct Answer {
  Bytes frame;
  std::string failure;
  double train_s = 0;
  double encode_s = 0;
  double train_loss = 0, train_score = 0;
};

class FakeExecutor final : public Executor {
 public:
  struct Order {
    uint32_t round, attempt;
    Ids clients;
    Bytes broadcast;
  };
  using Client = std::function<Answer(const Order& order, uint32_t client)>;

  explicit FakeExecutor(Client client) : client_(std::move(client)) {}

  Status Execute(const RoundOrder& order, const OnAnswer& on_answer,
                 const std::atomic<bool>& stop) override {
    orders.push_back({order.round,
                      order.attempt,
                      {order.clients.begin(), order.clients.end()},
                      {order.broadcast.begin(), order.broadcast.end()}});
    for (const uint32_t client : order.clients) {
      Answer answer = client_(orders.back(), client);
      if (stop) return Error{ErrorCode::kStopped, "stopped"};
      if (!answer.failure.empty()) {
        on_answer(client, Error{ErrorCode::kUnavailable, answer.failure});
      } else {
        on_answer(client,
                  client::Answer{std::move(answer.frame), answer.train_s,
                                 answer.encode_s, answer.train_loss,
                                 answer.train_score});
      }
    }
    return failure;
  }

  Status Commit(uint32_t round, std::span<const uint32_t> clients) override {
    committed.emplace_back(round, Ids(clients.begin(), clients.end()));
    return Ok();
  }

  std::vector<Order> orders;
  std::vector<std::pair<uint32_t, Ids>> committed;
  Status failure = Ok();  // of the executor itself

 private:
  Client client_;
};

constexpr uint32_t kRound = 3;

class RunRoundTest : public testing::Test {
 protected:
  void SetUp() override { Configure({}); }

  void Configure(std::vector<std::string> settings) {
    settings.insert(settings.begin(),
                    {"method.name=fedavg", "partition.clients=10",
                     "rounds.clients_per_round=6", "rounds.count=20"});
    const Result<Config> config = ParseConfig("", "", settings);
    ASSERT_TRUE(config) << config.error().ToString();
    config_ = *config;
    model_.weights = Normal(1, train::kFakeParams, 0.1f);
    model_.plain = Normal(2, train::kFakePlain, 0.1f);
    model_.moments = {};
    start_ = model_;
    examples_.clear();
    for (uint32_t c = 0; c < 10; ++c) examples_.push_back(ExamplesOf(c));
  }

  Result<results::RoundRow> Run(Executor& executor, uint32_t round = kRound) {
    const Result<RoundResult> result = RunRound(
        {config_, task_, fingerprint_, examples_, executor, workers_, progress_,
         [&](const std::string& line) { log_.push_back(line); }},
        round, model_);
    if (!result) return result.error();
    return result->row;
  }

  static uint32_t ExamplesOf(uint32_t client) { return 5 + 17 * client; }

  FrameHeader HeaderOf(uint32_t client) const {
    FrameHeader header;
    header.codec = train::FindMethod(config_.method.name)->codec;
    header.run = RunId(config_);
    header.round = kRound;
    header.client = client;
    header.examples = examples_[client];
    header.fingerprint = fingerprint_;
    if (FindCodec(header.codec)->uses_noise) {
      header.noise = {config_.method.mask.noise, config_.method.mask.magnitude,
                      ClientSeed(config_.seed, kRound, client)};
    }
    return header;
  }
  static Bytes Frame(const FrameHeader& header,
                     size_t params = train::kFakeParams) {
    EncodeOptions options;
    options.draw_seed = header.client;
    const Result<Bytes> frame =
        EncodeFrame(header, options, Normal(10 + header.client, params, 0.1f),
                    Normal(50 + header.client, train::kFakePlain, 0.1f));
    EXPECT_TRUE(frame) << frame.error().ToString();
    return frame ? *frame : Bytes();
  }
  Answer Update(uint32_t client) const { return {Frame(HeaderOf(client)), ""}; }

  // The new model must be the mean over these clients, by Eq. 5.
  void ExpectMeanOf(const Ids& clients,
                    const std::function<double(uint32_t)>& weight) {
    std::vector<double> update(train::kFakeParams), plain(train::kFakePlain);
    double total = 0;
    for (const uint32_t client : clients) {
      const Bytes bytes = Frame(HeaderOf(client));
      const Result<FrameView> frame = ParseFrame(bytes);
      ASSERT_TRUE(frame);
      std::vector<float> u(train::kFakeParams), d(train::kFakePlain);
      DecodeUpdate(*frame, u);
      frame->CopyPlain(d);
      const double w = weight(client);
      for (size_t i = 0; i < u.size(); ++i) update[i] += w * u[i];
      for (size_t i = 0; i < d.size(); ++i) plain[i] += w * d[i];
      total += w;
    }
    for (size_t i = 0; i < update.size(); ++i) {
      ASSERT_NEAR(model_.weights[i], start_.weights[i] + update[i] / total,
                  1e-6);
    }
    for (size_t i = 0; i < plain.size(); ++i) {
      ASSERT_NEAR(model_.plain[i], plain[i] / total, 1e-6);
    }
  }
  void ExpectUntouched() {
    ExpectSameBits(model_.weights, start_.weights);
    ExpectSameBits(model_.plain, start_.plain);
  }

  Config config_;
  const train::Task task_ = train::MakeFakeTask();
  const uint64_t fingerprint_ = task_.model.layout.Fingerprint();
  Workers workers_{task_, 2};
  Progress progress_;
  GlobalModel model_, start_;
  std::vector<uint32_t> examples_;
  std::vector<std::string> log_;
};

TEST_F(RunRoundTest, SendsTheModelAndTakesTheMean) {
  for (const char* method : {"fedavg", "fedmrn", "fedmrns"}) {
    SCOPED_TRACE(method);
    Configure({std::string("method.name=") + method});
    FakeExecutor executor([&](const auto&, uint32_t client) {
      Answer answer = Update(client);
      answer.train_s = 0.5;
      answer.encode_s = 0.25;
      return answer;
    });
    const Result<results::RoundRow> row = Run(executor);
    ASSERT_TRUE(row) << row.error().ToString();
    ASSERT_EQ(executor.orders.size(), 1u);
    const auto& order = executor.orders[0];
    EXPECT_EQ(order.round, kRound);
    EXPECT_EQ(order.attempt, 0u);
    EXPECT_EQ(order.clients, SampleClients(1, kRound, 0, 10, 6));

    const Result<FrameView> broadcast = ParseFrame(order.broadcast);
    ASSERT_TRUE(broadcast);
    EXPECT_TRUE(broadcast->broadcast);
    EXPECT_EQ(broadcast->round, kRound);
    EXPECT_EQ(broadcast->fingerprint, fingerprint_);
    std::vector<float> weights(train::kFakeParams), plain(train::kFakePlain);
    DecodeUpdate(*broadcast, weights);
    broadcast->CopyPlain(plain);
    ExpectSameBits(weights, start_.weights);
    ExpectSameBits(plain, start_.plain);

    ExpectMeanOf(order.clients, ExamplesOf);
    EXPECT_EQ(row->round, kRound);
    EXPECT_EQ(row->clients, 6u);
    EXPECT_EQ(row->dropped, 0u);
    EXPECT_EQ(row->train_s, 3.0);
    EXPECT_EQ(row->encode_s, 1.5);
    EXPECT_TRUE(log_.empty());
  }
}

// By examples, of the counted clients of the sample that made the round.
TEST_F(RunRoundTest, TrainingIsAMeanOfTheCountedClients) {
  Configure({"rounds.min_clients=4"});
  FakeExecutor executor([&](const auto& order, uint32_t client) {
    Answer answer = Update(client);
    answer.train_loss = order.attempt == 0 ? 1e9 : client;
    answer.train_score = client % 2;
    const size_t place = static_cast<size_t>(
        std::ranges::find(order.clients, client) - order.clients.begin());
    if (place < (order.attempt == 0 ? 3 : 2)) answer.frame.pop_back();
    return answer;
  });
  const Result<results::RoundRow> row = Run(executor);
  ASSERT_TRUE(row) << row.error().ToString();
  ASSERT_EQ(executor.orders.size(), 2u);
  double examples = 0, loss = 0, odd = 0;
  for (size_t place = 2; place < 6; ++place) {
    const uint32_t client = executor.orders[1].clients[place];
    examples += ExamplesOf(client);
    loss += ExamplesOf(client) * client;
    odd += ExamplesOf(client) * (client % 2);
  }
  EXPECT_DOUBLE_EQ(row->train_loss, loss / examples);
  EXPECT_DOUBLE_EQ(row->train_score, odd / examples);
}

TEST_F(RunRoundTest, WeightsAreExamplesOrBatches) {
  Configure({"rounds.weight=batches", "train.batch=64"});
  FakeExecutor executor(
      [&](const auto&, uint32_t client) { return Update(client); });
  ASSERT_TRUE(Run(executor));
  ExpectMeanOf(executor.orders[0].clients, [](uint32_t client) {
    return std::ceil(ExamplesOf(client) / 64.0);
  });
}

TEST_F(RunRoundTest, WeightsMayBeEqual) {
  Configure({"rounds.weight=equal"});
  FakeExecutor executor(
      [&](const auto&, uint32_t client) { return Update(client); });
  ASSERT_TRUE(Run(executor));
  ExpectMeanOf(executor.orders[0].clients, [](uint32_t) { return 1.0; });
}

// A server that knows its clients believes millions of examples.
TEST_F(RunRoundTest, ClientsMayBeLarge) {
  for (const bool equal : {false, true}) {
    Configure({equal ? "rounds.weight=equal" : "rounds.weight=examples"});
    for (uint32_t& examples : examples_) examples *= 100'000;
    FakeExecutor executor(
        [&](const auto&, uint32_t client) { return Update(client); });
    const auto row = Run(executor);
    ASSERT_TRUE(row) << row.error().message;
    EXPECT_EQ(row->dropped, 0u);
    ExpectMeanOf(executor.orders[0].clients, [&](uint32_t client) {
      return equal ? 1.0 : examples_[client];
    });
  }
}

TEST_F(RunRoundTest, SamplesAsTold) {
  FakeExecutor executor(
      [&](const auto&, uint32_t client) { return Update(client); });
  Configure({"rounds.sampling=weighted"});
  ASSERT_TRUE(Run(executor));
  EXPECT_EQ(executor.orders[0].clients,
            SampleByExamples(1, kRound, 0, examples_, 6));
  ExpectMeanOf(executor.orders[0].clients, [](uint32_t) { return 1.0; });
  Configure({"rounds.sampling=all"});
  ASSERT_TRUE(Run(executor));
  EXPECT_EQ(executor.orders[1].clients, AllClients(10));
  ExpectMeanOf(executor.orders[1].clients, ExamplesOf);
}

// The mean is a step's direction; statistics stay means.
TEST_F(RunRoundTest, ServersMayHaveAnOptimizer) {
  FakeExecutor executor(
      [&](const auto&, uint32_t client) { return Update(client); });
  Configure({"server.optimizer=momentum", "server.beta1=0"});
  ASSERT_TRUE(Run(executor));
  ExpectMeanOf(executor.orders[0].clients, ExamplesOf);
  const GlobalModel mean = model_;
  Configure({"server.optimizer=momentum", "server.lr=2"});
  ASSERT_TRUE(Run(executor));
  for (size_t i = 0; i < train::kFakeParams; ++i) {
    EXPECT_NEAR(model_.weights[i] - start_.weights[i],
                2 * (mean.weights[i] - start_.weights[i]), 1e-6);
  }
  for (size_t i = 0; i < train::kFakePlain; ++i) {
    const float factor = i < train::kFakeTrainable ? 2 : 1;
    EXPECT_NEAR(model_.plain[i] - start_.plain[i],
                factor * (mean.plain[i] - start_.plain[i]), 1e-6);
  }
  EXPECT_EQ(NetworkOf(config_, task_, kRound, model_).moments.first.size(), 0u);
}

// Methods whose clients upload a model instead of an update.
TEST_F(RunRoundTest, MethodsMayHaveAStepOfTheirOwn) {
  const std::vector<float> zeros(train::kFakeParams);
  for (const char* method : {"fedsparsify", "fedpm"}) {
    SCOPED_TRACE(method);
    Configure({std::string("method.name=") + method});
    FakeExecutor executor(
        [&](const auto&, uint32_t client) { return Update(client); });
    ASSERT_TRUE(Run(executor));
    // The mean alone, as if it was added to nothing.
    start_.weights = zeros;
    if (std::string_view(method) == "fedpm") {
      for (float& s : model_.weights) {
        s = static_cast<float>((1 / (1 + std::exp(-double{s})) - 0.01) / 0.98);
      }
    }
    ExpectMeanOf(executor.orders[0].clients, ExamplesOf);
  }
}

// The test set is put to the network, not to the scores.
TEST_F(RunRoundTest, EvaluatesTheNetwork) {
  Configure({"method.name=fedpm"});
  FakeExecutor executor(
      [&](const auto&, uint32_t client) { return Update(client); });
  const Result<results::RoundRow> row = Run(executor);
  ASSERT_TRUE(row) << row.error().ToString();
  const GlobalModel network = NetworkOf(config_, task_, kRound, model_);
  const train::Score score = Evaluate(task_, network, workers_, progress_);
  EXPECT_EQ(row->loss, score.loss / train::kFakeTests);
  EXPECT_NE(row->loss, Evaluate(task_, model_, workers_, progress_).loss /
                           train::kFakeTests);
  Configure({"method.name=fedavg"});
  ExpectSameBits(NetworkOf(config_, task_, kRound, model_).weights,
                 model_.weights);
}

TEST_F(RunRoundTest, BytesAreThoseOfTheFrames) {
  uint64_t uplink = 0;
  FakeExecutor executor([&](const auto& order, uint32_t client) -> Answer {
    if (client == order.clients[0]) return {{}, "gone"};
    FrameHeader header = HeaderOf(client);
    header.plain_kind =
        client % 2 == 0 ? PlainKind::kFloat16 : PlainKind::kFloat32;  // shorter
    Bytes frame = Frame(header);
    if (client == order.clients[1]) frame.pop_back();  // but it has arrived
    uplink += frame.size();
    return {frame, ""};
  });
  const Result<results::RoundRow> row = Run(executor);
  ASSERT_TRUE(row) << row.error().ToString();
  EXPECT_EQ(row->uplink_bytes, uplink);
  EXPECT_EQ(row->downlink_bytes, 6 * executor.orders[0].broadcast.size());
  EXPECT_EQ(executor.orders[0].broadcast.size(),
            kFrameHeaderBytes + 4 * (train::kFakeParams + train::kFakePlain) +
                kFrameChecksumBytes);
  EXPECT_DOUBLE_EQ(row->uplink_bits_per_param,
                   8.0 * static_cast<double>(uplink) / 5 / train::kFakeParams);
  EXPECT_EQ(row->clients, 4u);
  EXPECT_EQ(row->dropped, 2u);
}

// Each of these costs one client, and the others' mean is as if it had never
// been asked.
TEST_F(RunRoundTest, BadAnswersAreCountedAndLeftOut) {
  struct Case {
    const char* name;
    std::function<Answer(const FakeExecutor::Order&, uint32_t)> answer;
    const char* log;
  };
  const auto with = [&](auto change) {
    return [this, change](const auto&, uint32_t client) -> Answer {
      FrameHeader header = HeaderOf(client);
      change(header);
      return {Frame(header), ""};
    };
  };
  const Case cases[] = {
      {"dropped",
       [](const auto&, uint32_t) {
         return Answer{{}, "is away"};
       },
       "is away"},
      {"corrupt",
       [this](const auto&, uint32_t client) {
         Answer answer = Update(client);
         answer.frame[100] ^= 1;
         return answer;
       },
       "checksum"},
      {"cut off",
       [this](const auto&, uint32_t client) {
         Answer answer = Update(client);
         answer.frame.resize(50);
         return answer;
       },
       "offset"},
      {"another model", with([](FrameHeader& h) { h.fingerprint ^= 1; }),
       "the frame is of another model"},
      {"another length",
       [this](const auto&, uint32_t client) -> Answer {
         return {Frame(HeaderOf(client), train::kFakeParams + 1), ""};
       },
       "the frame is of another model"},
      {"another round", with([](FrameHeader& h) { --h.round; }),
       "the frame is of round 2, this is round 3"},
      {"another codec", with([](FrameHeader& h) {
         h.codec = CodecId::kMrnBinary;
         h.noise = {NoiseKind::kUniform, 0.01f, 1};
       }),
       "codec"},
      {"broadcast", with([](FrameHeader& h) {
         h.broadcast = true;
         h.examples = 0;
       }),
       "not an update"},
      {"too heavy", with([](FrameHeader& h) { h.examples = 1 << 30; }),
       "it has "},
      {"a neighbour's frame",
       [this](const auto& order, uint32_t) { return Update(order.clients[4]); },
       "its frame is of client"},
      {"a stranger's frame", with([](FrameHeader& h) { h.client = 1000; }),
       "its frame is of client 1000"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Configure({});
    log_.clear();
    FakeExecutor executor([&](const auto& order, uint32_t client) {
      return client == order.clients[2] ? c.answer(order, client)
                                        : Update(client);
    });
    const Result<results::RoundRow> row = Run(executor);
    ASSERT_TRUE(row) << row.error().ToString();
    EXPECT_EQ(row->clients, 5u);
    EXPECT_EQ(row->dropped, 1u);
    Ids rest = executor.orders[0].clients;
    const std::string bad = std::to_string(rest[2]);
    rest.erase(rest.begin() + 2);
    ExpectMeanOf(rest, ExamplesOf);
    // Nor may that client believe that its update has arrived.
    ASSERT_EQ(executor.committed.size(), 1u);
    EXPECT_EQ(executor.committed[0], std::pair(kRound, rest));
    ASSERT_EQ(log_.size(), 1u);
    EXPECT_TRUE(log_[0].starts_with("round 3: client " + bad + ": "))
        << log_[0];
    EXPECT_NE(log_[0].find(c.log), std::string::npos) << log_[0];
  }
}

TEST_F(RunRoundTest, FewerThanMinClientsRepeatsWithAFreshSample) {
  Configure({"rounds.min_clients=4"});
  uint64_t uplink = 0, frames = 0;
  FakeExecutor executor([&](const auto& order, uint32_t client) -> Answer {
    const bool answers = order.attempt >= 2 ? client != order.clients[0]
                                            : client <= order.clients[2];
    if (!answers) return {{}, "is away"};
    Answer answer = Update(client);
    uplink += answer.frame.size();
    ++frames;
    return answer;
  });
  const Result<results::RoundRow> row = Run(executor);
  ASSERT_TRUE(row) << row.error().ToString();
  ASSERT_EQ(executor.orders.size(), 3u);
  std::set<Ids> samples;
  for (uint32_t attempt = 0; attempt < 3; ++attempt) {
    const auto& order = executor.orders[attempt];
    EXPECT_EQ(order.attempt, attempt);
    EXPECT_EQ(order.round, kRound);
    EXPECT_EQ(order.clients, SampleClients(1, kRound, attempt, 10, 6));
    samples.insert(order.clients);
  }
  EXPECT_EQ(samples.size(), 3u);
  // All that went over the wire counts, but only the last sample's updates.
  EXPECT_EQ(frames, 3u + 3 + 5);
  EXPECT_EQ(row->uplink_bytes, uplink);
  EXPECT_EQ(row->downlink_bytes, 18 * executor.orders[0].broadcast.size());
  EXPECT_EQ(row->clients, 5u);
  EXPECT_EQ(row->dropped, 3u + 3 + 1);
  EXPECT_DOUBLE_EQ(row->uplink_bits_per_param,
                   8.0 * static_cast<double>(uplink) /
                       static_cast<double>(frames) / train::kFakeParams);
  Ids last = executor.orders[2].clients;
  last.erase(last.begin());
  ExpectMeanOf(last, ExamplesOf);
  // Samples that were given up leave nothing behind at their clients.
  ASSERT_EQ(executor.committed.size(), 1u);
  EXPECT_EQ(executor.committed[0], std::pair(kRound, last));
}

TEST_F(RunRoundTest, GivenUpWithTheLastFailure) {
  Configure({"rounds.min_clients=2"});
  FakeExecutor executor([&](const auto& order, uint32_t client) -> Answer {
    if (client == order.clients[0]) return Update(client);
    return {{}, "no power, attempt " + std::to_string(order.attempt)};
  });
  const Result<results::RoundRow> row = Run(executor);
  ASSERT_FALSE(row);
  EXPECT_EQ(executor.orders.size(), 20u);
  EXPECT_EQ(row.error().ToString(),
            "round 3: fewer than 2 clients answered in each of 20 samples; the "
            "last failure: client " +
                std::to_string(executor.orders[19].clients[5]) +
                ": no power, attempt 19");
  ExpectUntouched();
}

TEST_F(RunRoundTest, TheExecutorFails) {
  FakeExecutor executor(
      [&](const auto&, uint32_t client) { return Update(client); });
  executor.failure = Error{ErrorCode::kUnavailable, "the cluster is gone"};
  const Result<results::RoundRow> row = Run(executor);
  ASSERT_FALSE(row);
  EXPECT_EQ(row.error().ToString(), "the cluster is gone");
  EXPECT_EQ(executor.orders.size(), 1u);
  EXPECT_TRUE(executor.committed.empty());
  ExpectUntouched();
}

TEST_F(RunRoundTest, Stopped) {
  FakeExecutor executor([&](const auto&, uint32_t client) {
    progress_.stop = true;
    return Update(client);
  });
  const Result<results::RoundRow> row = Run(executor);
  ASSERT_FALSE(row);
  EXPECT_EQ(row.error().code, ErrorCode::kStopped);
  EXPECT_EQ(executor.orders.size(), 1u);
  ExpectUntouched();
}

TEST_F(RunRoundTest, EvaluatesWhenToldAndAtTheEnd) {
  for (const auto& [round, evaluated] : {std::pair{3u, false},
                                         {4u, true},
                                         {5u, false},
                                         {8u, true},
                                         {9u, true}}) {
    SCOPED_TRACE(round);
    Configure({"run.eval_every=4", "rounds.count=9"});
    FakeExecutor executor([&, at = round](const auto&, uint32_t client) {
      FrameHeader header = HeaderOf(client);
      header.round = at;
      return Answer{Frame(header), ""};
    });
    const Result<results::RoundRow> row = Run(executor, round);
    ASSERT_TRUE(row) << row.error().ToString();
    EXPECT_EQ(std::isnan(row->score), !evaluated);
    EXPECT_EQ(std::isnan(row->loss), !evaluated);
    if (!evaluated) continue;
    double correct = 0, loss = 0;
    for (size_t test = 0; test < train::kFakeTests; ++test) {
      const float w = model_.weights[test % train::kFakeParams];
      correct += w >= 0;
      loss += 1.0 / 3 + w * model_.plain[0];
    }
    EXPECT_DOUBLE_EQ(row->score, correct / train::kFakeTests);
    EXPECT_NEAR(row->loss, loss / train::kFakeTests, 1e-12);
    EXPECT_EQ(progress_.tests_done, train::kFakeTests);
    EXPECT_EQ(progress_.tests_total, train::kFakeTests);
  }
}

TEST_F(RunRoundTest, EvaluationDoesNotDependOnWorkers) {
  Workers one(task_, 1), three(task_, 3);
  const train::Score a = Evaluate(task_, model_, one, progress_);
  const train::Score b = Evaluate(task_, model_, three, progress_);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.metric, b.metric);
  EXPECT_EQ(a.count, train::kFakeTests);
  EXPECT_EQ(b.count, train::kFakeTests);
}

}  // namespace
}  // namespace fedmrn::sim
