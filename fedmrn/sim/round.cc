#include "fedmrn/sim/round.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "fedmrn/base/files.h"
#include "fedmrn/base/stopwatch.h"
#include "fedmrn/sim/evaluate.h"
#include "fedmrn/sim/round_book.h"

namespace fedmrn::sim {
namespace {

// Samples of clients that are tried before a round is given up.
constexpr uint32_t kMaxAttempts = 20;
// Below this a thread takes longer to start than its part of a sum.
constexpr size_t kParamsWorthThreads = size_t{1} << 20;

std::vector<uint32_t> ChooseClients(const RoundContext& context, uint32_t round,
                                    uint32_t attempt) {
  const uint64_t seed = context.config.seed;
  const RoundsSettings& rounds = context.config.rounds;
  const auto clients = static_cast<uint32_t>(context.examples.size());
  switch (rounds.sampling) {
    case Sampling::kWeighted:
      return SampleByExamples(seed, round, attempt, context.examples,
                              rounds.clients_per_round);
    case Sampling::kAll:
      return AllClients(clients);
    case Sampling::kUniform:
      break;
  }
  return SampleClients(seed, round, attempt, clients, rounds.clients_per_round);
}

// Eq. 5, unless the method or the server has a step of its own.
Status ServerStep(const RoundContext& context, uint32_t round,
                  const Aggregator& sum, int threads, GlobalModel& model) {
  const Config& config = context.config;
  const train::Method& method = *train::FindMethod(config.method.name);
  const bool steps =
      FindServerOptimizer(config.server.optimizer)->step != nullptr;
  if (method.server_step == nullptr && !steps) {
    return sum.Finish(model.weights, model.plain, threads);
  }
  std::vector<float> mean(model.weights.size()), plain(model.plain.size());
  FEDMRN_TRY(sum.Finish(mean, plain, threads));
  if (steps) {
    StepModel(config.server, mean, plain, context.task.model.trainable_plain,
              model);
  } else {
    method.server_step({config.method, round, mean}, model.weights);
    model.plain = std::move(plain);
  }
  return Ok();
}

// What a round was made of, for people who want to check it.
Status SaveFrames(const RoundContext& context, uint32_t round,
                  const Bytes& broadcast,
                  const std::map<uint32_t, Bytes>& counted,
                  const GlobalModel& after) {
  char name[20];
  std::snprintf(name, sizeof name, "/round-%06u/", round);
  const std::string folder = context.save_frames + name;
  FEDMRN_TRY(MakeFolder(folder));
  FEDMRN_TRY(WriteFileAtomically(folder + "before.frame", broadcast));
  for (const auto& [client, frame] : counted) {
    FEDMRN_TRY(WriteFileAtomically(
        folder + "client-" + std::to_string(client) + ".frame", frame));
  }
  return WriteFileAtomically(
      folder + "after.frame",
      FEDMRN_TRY(
          EncodeModel(context.config, context.fingerprint, round + 1, after)));
}

// What the server knows of these clients beyond their own words.
void AddRecords(const RoundContext& context, std::span<const uint32_t> clients,
                RoundSpec& spec) {
  uint64_t weight = 0;
  for (const uint32_t client : clients) {
    const uint32_t examples = context.examples[client];
    spec.examples[client] = examples;
    weight += (uint64_t{examples} + spec.examples_per_weight - 1) /
              spec.examples_per_weight;
  }
  const double share = context.config.rounds.max_weight_share;
  if (share < 1) {
    spec.max_weight = std::max<uint64_t>(
        1, static_cast<uint64_t>(share * static_cast<double>(weight)));
  }
}

using Answers = std::map<uint32_t, Result<client::Answer>>;

// How far one of these may move the model.
Norms LimitOf(double clip_norm, const Answers& answers, Aggregator& sum) {
  std::vector<Norms> norms;
  for (const auto& [client, answer] : answers) {
    if (!answer) continue;
    const Result<FrameView> frame = sum.Parse(answer->frame);
    if (!frame) continue;
    if (const Result<Norms> its = sum.NormsOf(*frame)) norms.push_back(*its);
  }
  return fedmrn::LimitOf(clip_norm, std::move(norms));
}

// A round of Algorithm 1 with one sample of clients. False if too few of them
// answered; then the model is as it was.
Result<bool> TrainModel(const RoundContext& context, uint32_t round,
                        uint32_t attempt, GlobalModel& model, RoundBook& book) {
  const Config& config = context.config;
  const int threads = model.weights.size() < kParamsWorthThreads
                          ? 1
                          : static_cast<int>(context.workers.count());
  // Lines 2-4: choose clients and send them the global model.
  const std::vector<uint32_t> clients = ChooseClients(context, round, attempt);
  const Bytes broadcast =
      FEDMRN_TRY(EncodeModel(config, context.fingerprint, round, model));
  book.Send(clients.size(), broadcast.size());

  // Lines 5-8: each client trains and answers with a frame, which is checked
  // and added to the sum as it arrives. The sum is of integers, so the order
  // does not matter.
  RoundSpec spec = RoundSpecOf(config, context.task.model.layout, round, model,
                               std::ranges::max(context.examples));
  AddRecords(context, clients, spec);
  Aggregator sum = FEDMRN_TRY(Aggregator::Create(spec));
  std::vector<uint32_t> counted;
  std::map<uint32_t, Bytes> frames;  // only if they are to be saved
  const auto count = [&](uint32_t client, const Result<client::Answer>& answer,
                         const Norms& most) {
    if (book.Receive(client, answer, sum, threads, most)) {
      counted.push_back(client);
      if (!context.save_frames.empty()) frames[client] = answer->frame;
    }
  };
  const double clip_norm = config.rounds.clip_norm;
  Answers waiting;  // for each other, if they are clipped by their median
  FEDMRN_TRY(context.executor.Execute(
      {round, attempt, clients, broadcast},
      [&](uint32_t client, Result<client::Answer> answer) {
        if (clip_norm > 0) {
          waiting.emplace(client, std::move(answer));
        } else {
          count(client, answer, {});
        }
      },
      context.progress.stop));
  if (!waiting.empty()) {
    const Norms most = LimitOf(clip_norm, waiting, sum);
    for (const auto& [client, answer] : waiting) count(client, answer, most);
  }
  if (book.diverged()) {
    return Error{ErrorCode::kFailed,
                 "training diverged in round " + std::to_string(round) +
                     ": no client's update is finite; lower train.lr"};
  }
  if (counted.size() < config.rounds.min_clients) return false;

  // Line 9, Eq. 5: the mean of the updates moves the model, and what the
  // counted clients have kept for the next time becomes valid.
  const Stopwatch step;
  FEDMRN_TRY(ServerStep(context, round, sum, threads, model));
  FEDMRN_TRY(context.executor.Commit(round, counted));
  const MagnitudesView magnitudes(model.magnitudes);
  book.Step(sum, magnitudes, step.seconds());
  if (!magnitudes.empty()) {
    model.magnitudes = SteerMagnitudes(magnitudes, sum.beyond(), sum.clients(),
                                       config.method.mask.target_ones);
  }
  if (!context.save_frames.empty()) {
    FEDMRN_TRY(SaveFrames(context, round, broadcast, frames, model));
  }
  return true;
}

// Whether the model is tested after this round.
bool IsTested(const Config& config, uint32_t round) {
  return round % config.run.eval_every == 0 || round == config.rounds.count;
}

Status Test(const RoundContext& context, uint32_t round,
            const GlobalModel& model, RoundResult& result) {
  const Stopwatch evaluation;
  results::RoundRow& row = result.row;
  train::Score score = Evaluate(
      context.task, NetworkOf(context.config, context.task, round, model),
      context.workers, context.progress);
  if (context.progress.stop) return Error{ErrorCode::kStopped, "stopped"};
  row.score = score.metric / static_cast<double>(score.count);
  if (context.task.data->target == train::Target::kPixelClasses) {
    row.mean_iou = train::MeanIou(score.confusion);
  }
  row.loss = score.loss / static_cast<double>(score.count);
  row.eval_s = evaluation.seconds();
  result.confusion = std::move(score.confusion);
  return Ok();
}

}  // namespace

Result<RoundResult> RunRound(const RoundContext& context, uint32_t round,
                             GlobalModel& model) {
  const Stopwatch wall;
  context.progress.phase = Phase::kTraining;
  RoundBook book(round, context.log);
  bool trained = false;
  for (uint32_t attempt = 0; attempt < kMaxAttempts && !trained; ++attempt) {
    trained = FEDMRN_TRY(TrainModel(context, round, attempt, model, book));
  }
  if (!trained) {
    return Error{ErrorCode::kFailed,
                 "round " + std::to_string(round) + ": fewer than " +
                     std::to_string(context.config.rounds.min_clients) +
                     " clients answered in each of " +
                     std::to_string(kMaxAttempts) +
                     " samples; the last failure: " + book.last_failure()};
  }
  RoundResult result{book.Row(model.weights.size())};
  if (IsTested(context.config, round)) {
    FEDMRN_TRY(Test(context, round, model, result));
  }
  result.row.wall_s = wall.seconds();
  return result;
}

GlobalModel NetworkOf(const Config& config, const train::Task& task,
                      uint32_t round, const GlobalModel& model) {
  GlobalModel network = {model.weights, model.plain};
  const train::Method& method = *train::FindMethod(config.method.name);
  if (method.network != nullptr) {
    method.network(task.model.layout, config.seed, round, network.weights);
  }
  return network;
}

RoundSpec RoundSpecOf(const Config& config, const ModelLayout& layout,
                      uint32_t round, const GlobalModel& model,
                      uint32_t most_examples) {
  RoundSpec spec;
  spec.max_examples = std::max(spec.max_examples, most_examples);
  spec.run = RunId(config);
  spec.run_seed = config.seed;
  spec.round = round;
  spec.fingerprint = layout.Fingerprint();
  spec.params = model.weights.size();
  spec.plain_count = static_cast<uint32_t>(model.plain.size());
  spec.plain_reference = model.plain;
  spec.variances = layout.variances();
  const train::MethodSettings& settings = config.method;
  spec.codec = train::CodecOf(*train::FindMethod(config.method.name), settings);
  if (FindCodec(spec.codec)->uses_noise) {
    spec.noise = settings.mask.noise;
    spec.magnitude = settings.mask.steered() ? 0 : settings.mask.magnitude;
    spec.magnitudes = model.magnitudes;
  }
  if (config.rounds.weight == ClientWeight::kBatches) {
    spec.examples_per_weight = config.train.batch;
  } else if (config.rounds.weight == ClientWeight::kEqual) {
    spec.examples_per_weight = spec.max_examples;
  }
  return spec;
}

Result<Bytes> EncodeModel(const Config& config, uint64_t fingerprint,
                          uint32_t round, const GlobalModel& model) {
  FrameHeader header;
  header.codec = CodecId::kFloat32;
  header.broadcast = true;
  header.run = RunId(config);
  header.round = round;
  header.fingerprint = fingerprint;
  header.noise.magnitudes = MagnitudesView(model.magnitudes);
  return EncodeFrame(header, {}, model.weights, model.plain);
}

}  // namespace fedmrn::sim
