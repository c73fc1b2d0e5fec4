#include "fedmrn/sim/client_tests.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "fedmrn/base/stopwatch.h"
#include "fedmrn/core/aggregate.h"
#include "fedmrn/sim/evaluate.h"
#include "fedmrn/sim/round.h"

namespace fedmrn::sim {
namespace {

// Faults are drawn anew for these orders; no round has so many attempts.
constexpr uint32_t kAttempt = std::numeric_limits<uint32_t>::max();
// Rounds count from 1, so nobody else draws clients for this one.
constexpr uint32_t kNoRound = 0;
// So many answers are kept at once; some models are large.
constexpr size_t kAnswersAtOnce = 16;

// The model that a round with this answer alone would leave behind.
Result<GlobalModel> ModelAfter(const Config& config, const train::Task& task,
                               uint32_t round, const GlobalModel& model,
                               ByteView frame) {
  const uint32_t examples = FEDMRN_TRY(ParseFrame(frame)).examples;
  Aggregator alone = FEDMRN_TRY(Aggregator::Create(
      RoundSpecOf(config, task.model.layout, round, model, examples)));
  FEDMRN_TRY(alone.Add(frame));
  GlobalModel after = model;
  const train::Method& method = *train::FindMethod(config.method.name);
  if (method.server_step == nullptr) {
    FEDMRN_TRY(alone.Finish(after.weights, after.plain));
    return after;
  }
  std::vector<float> mean(model.weights.size());
  FEDMRN_TRY(alone.Finish(mean, after.plain));
  method.server_step({config.method, round, mean}, after.weights);
  return after;
}

Result<std::vector<double>> AllOf(std::span<const Result<double>> results) {
  std::vector<double> values;
  for (const Result<double>& result : results) {
    values.push_back(FEDMRN_TRY(result));
  }
  return values;
}

}  // namespace

ClientScores ClientScoresOf(std::vector<double> scores) {
  std::erase_if(scores, [](double score) { return std::isnan(score); });
  if (scores.empty()) return {};
  std::ranges::sort(scores);
  const auto count = static_cast<double>(scores.size());
  return {std::accumulate(scores.begin(), scores.end(), 0.0) / count,
          scores[static_cast<size_t>(std::ceil(count / 10)) - 1],
          scores.front()};
}

ClientTests::ClientTests(const Config& config, const train::Task& task,
                         const Partition& held_out,
                         const client::States& states, Executor& executor,
                         Workers& workers, Progress& progress)
    : config_(config),
      task_(task),
      held_out_(held_out),
      states_(states),
      executor_(executor),
      workers_(workers),
      progress_(progress) {
  std::vector<uint32_t> with_examples;
  for (uint32_t client = 0; client < held_out.clients(); ++client) {
    if (!held_out.of(client).empty()) with_examples.push_back(client);
  }
  const auto count = static_cast<uint32_t>(with_examples.size());
  for (const uint32_t index :
       SampleClients(config.seed, kNoRound, 0, count,
                     std::min(config.run.eval_clients, count))) {
    clients_.push_back(with_examples[index]);
  }
}

Result<double> ClientTests::ScoreOf(
    client::Bench& bench, uint32_t client, const GlobalModel& network,
    const Result<std::vector<float>>& state) const {
  if (!state) return state.error();
  train::LocalTensors* const local = bench.learner->local();
  if (local != nullptr) {
    const std::span own = client::LocalValuesOf(task_, *state);
    local->values.assign(own.begin(), own.end());
  }
  const uint64_t end = held_out_.begin[client + 1];
  train::Score score;
  for (uint64_t first = held_out_.begin[client]; first < end;
       first += kTestBatch) {
    const auto count =
        static_cast<uint32_t>(std::min<uint64_t>(kTestBatch, end - first));
    score.Add(
        bench.learner->Evaluate(first, count, network.weights, network.plain));
    progress_.tests_done += count;
  }
  if (local != nullptr) local->values.clear();
  return score.metric / static_cast<double>(score.count);
}

Status ClientTests::Test(uint32_t round, const GlobalModel& model,
                         results::RoundRow& row) const {
  if (clients_.empty()) return Ok();
  const Stopwatch watch;
  uint64_t examples = 0;
  for (const uint32_t client : clients_)
    examples += held_out_.of(client).size();
  progress_.tests_done = 0;
  progress_.tests_total = 2 * examples;
  progress_.phase = Phase::kEvaluating;
  const GlobalModel network = NetworkOf(config_, task_, round, model);
  std::vector<Result<double>> scores(clients_.size(), std::nan(""));
  workers_.ForEach(clients_.size(), [&](client::Bench& bench, size_t i) {
    if (progress_.stop) return;
    const uint32_t client = clients_[i];
    scores[i] = ScoreOf(bench, client, network, states_.Load(client));
  });
  if (progress_.stop) return Error{ErrorCode::kStopped, "stopped"};
  const ClientScores global = ClientScoresOf(FEDMRN_TRY(AllOf(scores))),
                     personal = ClientScoresOf(
                         FEDMRN_TRY(PersonalScores(round, model)));
  row.client_score = global.mean;
  row.client_score_p10 = global.p10;
  row.client_score_worst = global.worst;
  row.personal_score = personal.mean;
  row.personal_score_p10 = personal.p10;
  row.personal_score_worst = personal.worst;
  row.eval_s += watch.seconds();
  row.wall_s += watch.seconds();
  return Ok();
}

Result<std::vector<double>> ClientTests::PersonalScores(
    uint32_t round, const GlobalModel& model) const {
  const uint32_t next = round + 1;
  const Bytes broadcast = FEDMRN_TRY(
      EncodeModel(config_, task_.model.layout.Fingerprint(), next, model));
  std::vector<double> scores;
  for (size_t first = 0; first < clients_.size(); first += kAnswersAtOnce) {
    const std::span some = std::span(clients_).subspan(
        first, std::min(kAnswersAtOnce, clients_.size() - first));
    std::map<uint32_t, Bytes> frames;  // in the order of the clients
    FEDMRN_TRY(executor_.Execute(
        {next, kAttempt, some, broadcast},
        [&](uint32_t client, const Result<client::Answer>& answer) {
          if (answer) frames[client] = answer->frame;
        },
        progress_.stop));
    const std::vector<std::pair<uint32_t, Bytes>> answers(frames.begin(),
                                                          frames.end());
    std::vector<Result<double>> results(answers.size(), std::nan(""));
    workers_.ForEach(answers.size(), [&](client::Bench& bench, size_t i) {
      if (progress_.stop) return;
      const auto& [client, frame] = answers[i];
      const Result<GlobalModel> own =
          ModelAfter(config_, task_, next, model, frame);
      if (!own) return;  // damaged, as an injected fault may have it
      results[i] = ScoreOf(bench, client, NetworkOf(config_, task_, next, *own),
                           states_.LoadKept(client));
    });
    if (progress_.stop) return Error{ErrorCode::kStopped, "stopped"};
    const std::vector<double> theirs = FEDMRN_TRY(AllOf(results));
    scores.insert(scores.end(), theirs.begin(), theirs.end());
  }
  return scores;
}

}  // namespace fedmrn::sim
