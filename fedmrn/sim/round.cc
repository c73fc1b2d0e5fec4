#include "fedmrn/sim/round.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "fedmrn/core/aggregate.h"
#include "fedmrn/core/random.h"

namespace fedmrn::sim {
namespace {

// Samples to try before a round is given up.
constexpr uint32_t kMaxAttempts = 20;
constexpr uint32_t kTestBatch = 64;

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// Eq. 5, unless the method has a step of its own.
Status ServerStep(const Config& config, uint32_t round,
                  const Aggregator& aggregator, int threads,
                  GlobalModel& model) {
  const train::Method& method = *train::FindMethod(config.method.name);
  if (method.server_step == nullptr) {
    return aggregator.Finish(model.weights, model.plain, threads);
  }
  std::vector<float> mean(model.weights.size());
  const Status finished = aggregator.Finish(mean, model.plain, threads);
  if (!finished) return finished;
  method.server_step({MethodSettingsOf(config), round, mean}, model.weights);
  return Ok();
}

}  // namespace

Result<results::RoundRow> RunRound(const RoundContext& context, uint32_t round,
                                   GlobalModel& model) {
  const Config& config = context.config;
  const auto threads = static_cast<int>(context.workers.count());
  const Stopwatch wall;
  results::RoundRow row;
  row.round = round;
  uint64_t frames = 0;
  std::string last_failure = "no client answered";

  for (uint32_t attempt = 0;; ++attempt) {
    if (attempt == kMaxAttempts) {
      return Error{ErrorCode::kUnavailable,
                   "round " + std::to_string(round) + ": fewer than " +
                       std::to_string(config.rounds.min_clients) +
                       " clients answered in each of " +
                       std::to_string(attempt) +
                       " samples; the last failure: " + last_failure};
    }
    // Lines 2-4: choose clients and send them the global model.
    const std::vector<uint32_t> clients =
        SampleClients(config.seed, round, attempt, context.clients,
                      config.rounds.clients_per_round);
    const Result<Bytes> broadcast =
        EncodeModel(context.fingerprint, round, model);
    if (!broadcast) return broadcast.error();
    row.downlink_bytes += clients.size() * broadcast->size();

    // Lines 5-7: each client trains and answers with a frame.
    context.progress.phase = Phase::kTraining;
    const std::vector<Answer> answers =
        context.executor.Execute({round, attempt, clients, *broadcast});
    if (context.progress.stop) {
      return Error{ErrorCode::kUnavailable, "stopped"};
    }

    // Lines 8-9 and Eq. 5: decode the frames and add them up.
    context.progress.phase = Phase::kAggregating;
    const Stopwatch aggregation;
    Result<Aggregator> aggregator = Aggregator::Create(
        RoundSpecOf(config, context.fingerprint, round, model));
    if (!aggregator) return aggregator.error();
    std::vector<ByteView> arrived;
    std::vector<uint32_t> senders;
    const auto failed = [&](uint32_t client, const std::string& why) {
      ++row.dropped;
      last_failure = "client " + std::to_string(client) + ": " + why;
      context.log("round " + std::to_string(round) + ": " + last_failure);
    };
    for (size_t i = 0; i < clients.size(); ++i) {
      row.train_s += answers[i].train_s;
      row.encode_s += answers[i].encode_s;
      if (answers[i].frame.empty()) {
        failed(clients[i], answers[i].failure);
        continue;
      }
      row.uplink_bytes += answers[i].frame.size();
      ++frames;
      // A frame may speak for nobody but its sender.
      const Result<FrameView> frame = ParseFrame(answers[i].frame);
      if (frame) {
        row.payload_bytes += frame->payload.size();
        row.plain_bytes += frame->plain.size();
      }
      if (frame && frame->client != clients[i]) {
        failed(clients[i],
               "its frame is of client " + std::to_string(frame->client));
        continue;
      }
      arrived.push_back(answers[i].frame);
      senders.push_back(clients[i]);
    }
    const std::vector<Status> verdicts = aggregator->AddAll(arrived, threads);
    for (size_t i = 0; i < verdicts.size(); ++i) {
      if (!verdicts[i]) failed(senders[i], verdicts[i].error().ToString());
    }
    const bool enough = aggregator->clients() >= config.rounds.min_clients;
    if (enough) {
      const Status finished =
          ServerStep(config, round, *aggregator, threads, model);
      if (!finished) return finished.error();
      row.clients = static_cast<uint32_t>(aggregator->clients());
    }
    row.aggregate_s += aggregation.seconds();
    if (enough) break;
  }
  row.uplink_bits_per_param =
      8.0 * static_cast<double>(row.uplink_bytes) /
      (static_cast<double>(frames) * static_cast<double>(model.weights.size()));

  if (round % config.run.eval_every == 0 || round == config.rounds.count) {
    const Stopwatch evaluation;
    const train::Score score =
        Evaluate(context.task, NetworkOf(config, context.task, round, model),
                 context.workers, context.progress);
    if (context.progress.stop) {
      return Error{ErrorCode::kUnavailable, "stopped"};
    }
    row.accuracy = score.metric / static_cast<double>(score.count);
    if (!score.confusion.empty())
      row.mean_iou = train::MeanIou(score.confusion);
    row.loss = score.loss / static_cast<double>(score.count);
    row.eval_s = evaluation.seconds();
  }
  row.wall_s = wall.seconds();
  return row;
}

GlobalModel NetworkOf(const Config& config, const train::Task& task,
                      uint32_t round, const GlobalModel& model) {
  GlobalModel network = model;
  const train::Method& method = *train::FindMethod(config.method.name);
  if (method.network != nullptr) {
    method.network(task.model.layout, config.seed, round, network.weights);
  }
  return network;
}

RoundSpec RoundSpecOf(const Config& config, uint64_t fingerprint,
                      uint32_t round, const GlobalModel& model) {
  RoundSpec spec;
  spec.round = round;
  spec.fingerprint = fingerprint;
  spec.params = model.weights.size();
  spec.plain_count = static_cast<uint32_t>(model.plain.size());
  const train::MethodSettings settings = MethodSettingsOf(config);
  spec.codec = train::CodecOf(*train::FindMethod(config.method.name), settings);
  if (FindCodec(spec.codec)->uses_noise) {
    spec.noise = settings.mask.noise;
    spec.magnitude = settings.mask.magnitude;
  }
  if (config.rounds.weight == "batches") {
    spec.examples_per_weight = config.train.batch;
  } else if (config.rounds.weight == "equal") {
    spec.examples_per_weight = spec.max_examples;
  }
  return spec;
}

std::vector<uint32_t> SampleClients(uint64_t seed, uint32_t round,
                                    uint32_t attempt, uint32_t clients,
                                    uint32_t sampled) {
  // Attempts are apart by more draws than one of them can take.
  Random random({seed + (uint64_t{attempt} << 32), Purpose::kSample, round});
  std::vector<uint32_t> chosen(clients);
  std::iota(chosen.begin(), chosen.end(), 0u);
  for (uint32_t i = 0; i < sampled; ++i) {
    std::swap(chosen[i], chosen[i + random.Below(clients - i)]);
  }
  chosen.resize(sampled);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

Result<Bytes> EncodeModel(uint64_t fingerprint, uint32_t round,
                          const GlobalModel& model) {
  FrameHeader header;
  header.codec = CodecId::kFloat32;
  header.broadcast = true;
  header.round = round;
  header.fingerprint = fingerprint;
  return EncodeFrame(header, {}, model.weights, model.plain);
}

train::Score Evaluate(const train::Task& task, const GlobalModel& network,
                      Workers& workers, Progress& progress) {
  progress.tests_done = 0;
  progress.tests_total = task.data->test_examples;
  progress.phase = Phase::kEvaluating;
  const size_t batches =
      (task.data->test_examples + kTestBatch - 1) / kTestBatch;
  std::vector<train::Score> scores(batches);
  workers.ForEach(batches, [&](Worker& worker, size_t batch) {
    if (progress.stop) return;
    const uint64_t first = batch * kTestBatch;
    const auto count = static_cast<uint32_t>(
        std::min<uint64_t>(kTestBatch, task.data->test_examples - first));
    scores[batch] =
        worker.learner->Evaluate(first, count, network.weights, network.plain);
    progress.tests_done += count;
  });
  train::Score total;
  for (const train::Score& score :
       scores) {  // in order: the sum is always the same
    total.Add(score);
  }
  return total;
}

}  // namespace fedmrn::sim
