#include "fedmrn/sim/executor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <thread>

#include "fedmrn/base/check.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/random.h"

namespace fedmrn::sim {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

enum class Fault { kNone, kDrop, kCrash, kCorrupt, kDelay };

struct Injected {
  Fault fault = Fault::kNone;
  double where = 0;  // in [0, 1): how far into the training, or the frame
};

Injected FaultOf(const Config& config, const RoundOrder& order,
                 uint32_t client) {
  std::array<uint32_t, 4> words;
  PhiloxWords({config.seed, Purpose::kFault, order.round},
              uint64_t{order.attempt} << 32 | client, words);
  const auto& faults = config.faults;
  Injected injected;
  injected.where = words[1] * 0x1p-32;
  double chance = words[0] * 0x1p-32;
  for (const auto& [fault, probability] : {std::pair{Fault::kDrop, faults.drop},
                                           {Fault::kCrash, faults.crash},
                                           {Fault::kCorrupt, faults.corrupt},
                                           {Fault::kDelay, faults.delay}}) {
    if (chance < probability) {
      injected.fault = fault;
      break;
    }
    chance -= probability;
  }
  return injected;
}

uint64_t StepsOf(const train::TrainSettings& train, size_t examples) {
  return train::StepsPerEpoch(train, examples) * train.epochs;
}

}  // namespace

ClientSeeds SeedsOf(uint64_t seed, uint32_t round, uint32_t client) {
  std::array<uint32_t, 4> words;
  PhiloxWords({seed, Purpose::kClientSeed, round}, client, words);
  return {words[0] | uint64_t{words[1]} << 32,
          words[2] | uint64_t{words[3]} << 32};
}

train::MethodSettings MethodSettingsOf(const Config& config) {
  const auto& method = config.method;
  const auto magnitude = static_cast<float>(method.magnitude);
  train::MethodSettings settings;
  settings.mask = {NoiseKind::kUniform, magnitude, method.stochastic,
                   method.progressive};
  if (method.noise == "gaussian") settings.mask.noise = NoiseKind::kGaussian;
  if (method.noise == "bernoulli") settings.mask.noise = NoiseKind::kBernoulli;
  settings.codec.stochastic = method.stochastic;
  settings.codec.scale = magnitude;
  settings.codec.keep = method.keep;
  settings.codec.clip = static_cast<float>(method.clip);
  settings.codec.unbiased = method.unbiased;
  settings.codec.bits = static_cast<int>(method.bits);
  settings.half = method.update == "float16";
  settings.error_feedback = method.error_feedback;
  settings.adam = method.optimizer == "adam";
  settings.reset_every = method.reset_every;
  return settings;
}

ThreadExecutor::ThreadExecutor(const Config& config, const train::Task& task,
                               const Partition& partition, Workers& workers,
                               client::ClientStates& states, Progress& progress)
    : config_(config),
      task_(task),
      partition_(partition),
      workers_(workers),
      states_(states),
      progress_(progress),
      method_(*train::FindMethod(config.method.name)),
      train_{config.train.epochs,
             config.train.batch,
             static_cast<float>(config.train.lr),
             static_cast<float>(config.train.momentum),
             static_cast<float>(config.train.weight_decay),
             config.train.drop_last},
      settings_(MethodSettingsOf(config)) {}

std::vector<Answer> ThreadExecutor::Execute(const RoundOrder& order) {
  // Longest first, so that no worker starts a long client when the others are
  // done. The answers do not depend on the order.
  std::vector<size_t> by_length(order.clients.size());
  std::iota(by_length.begin(), by_length.end(), size_t{0});
  std::stable_sort(by_length.begin(), by_length.end(), [&](size_t a, size_t b) {
    return partition_.of(order.clients[a]).size() >
           partition_.of(order.clients[b]).size();
  });
  uint64_t steps = 0;
  for (uint32_t client : order.clients) {
    steps += StepsOf(train_, partition_.of(client).size());
  }
  progress_.steps_done = 0;
  progress_.steps_total = steps;

  std::vector<Answer> answers(order.clients.size());
  workers_.ForEach(by_length.size(), [&](Worker& worker, size_t item) {
    const size_t at = by_length[item];
    if (progress_.stop) return;
    try {
      answers[at] = RunClient(order, order.clients[at], worker);
    } catch (const std::exception& error) {
      answers[at] = {{}, error.what()};
    }
  });
  return answers;
}

Answer ThreadExecutor::RunClient(const RoundOrder& order, uint32_t client,
                                 Worker& worker) {
  const Injected injected = FaultOf(config_, order, client);
  const std::span<const uint32_t> examples = partition_.of(client);
  const uint64_t steps = StepsOf(train_, examples.size());
  if (injected.fault == Fault::kDrop) {
    progress_.steps_done += steps;
    return {{}, "dropped (injected)"};
  }

  const Result<FrameView> broadcast = ParseFrame(order.broadcast);
  if (!broadcast) return {{}, broadcast.error().ToString()};
  if (!broadcast->broadcast || broadcast->round != order.round ||
      broadcast->fingerprint != task_.model.layout.Fingerprint() ||
      broadcast->params != task_.model.layout.coded_params() ||
      broadcast->plain_count != task_.model.layout.plain_values()) {
    return {{}, "the broadcast is of another model or round"};
  }
  worker.weights.resize(broadcast->params);
  DecodeUpdate(*broadcast, worker.weights);
  train::LocalModel& local = worker.local;
  local.update.resize(broadcast->params);
  local.coded_gradient.resize(broadcast->params);
  local.plain_gradient.resize(task_.model.trainable_plain);
  local.coded_velocity.clear();
  local.plain_velocity.clear();
  local.scales.clear();
  local.plain.resize(broadcast->plain_count);
  broadcast->CopyPlain(local.plain);

  Answer answer;
  auto start = Clock::now();
  const auto last_step =
      static_cast<uint64_t>(injected.where * static_cast<double>(steps));
  uint64_t step = 0;
  const ClientSeeds seeds = SeedsOf(config_.seed, order.round, client);
  Result<std::vector<float>> state = states_.Load(client);
  if (!state) return {{}, state.error().ToString()};
  const train::ClientWork work{
      task_,
      *worker.learner,
      train_,
      settings_,
      examples,
      worker.weights,
      config_.seed,
      seeds.noise,
      seeds.draw,
      *state,
      [&] {
        const size_t batches = train::StepsPerEpoch(train_, examples.size());
        const size_t first = step++ % batches * train_.batch;
        progress_.examples_trained +=
            std::min<size_t>(train_.batch, examples.size() - first);
        ++progress_.steps_done;
        return !progress_.stop &&
               !(injected.fault == Fault::kCrash && step > last_step);
      }};
  const bool done = method_.train(work, local);
  answer.train_s = SecondsSince(start);
  if (!done) {
    progress_.steps_done += steps - step;
    answer.failure = progress_.stop ? "stopped" : "crashed (injected)";
    return answer;
  }

  start = Clock::now();
  FrameHeader header;
  header.codec = train::CodecOf(method_, settings_);
  header.plain_half = config_.method.dense == "float16";
  header.round = order.round;
  header.client = client;
  header.examples = static_cast<uint32_t>(examples.size());
  header.fingerprint = broadcast->fingerprint;
  const Codec& codec = *FindCodec(header.codec);
  if (codec.uses_noise) {
    header.noise = {settings_.mask.noise, settings_.mask.magnitude,
                    seeds.noise};
  } else if (codec.uses_seed) {
    header.noise.seed = seeds.noise;
  }
  Result<Bytes> frame = Encode(header, seeds.draw, local, *state);
  answer.encode_s = SecondsSince(start);
  if (!frame) {
    answer.failure = frame.error().ToString();
    return answer;
  }
  if (const Status kept = states_.Save(client, order.round, *state); !kept) {
    answer.failure = kept.error().ToString();
    return answer;
  }
  answer.frame = std::move(*frame);
  if (injected.fault == Fault::kCorrupt) {
    answer.frame[static_cast<size_t>(
        injected.where * static_cast<double>(answer.frame.size()))] ^= 0x40;
  }
  if (injected.fault == Fault::kDelay) {
    start = Clock::now();
    while (!progress_.stop && SecondsSince(start) < config_.faults.delay_s) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  return answer;
}

Result<Bytes> ThreadExecutor::Encode(const FrameHeader& header,
                                     uint64_t draw_seed,
                                     train::LocalModel& local,
                                     std::vector<float>& state) const {
  const std::vector<uint32_t> segments = task_.model.layout.segments();
  EncodeOptions options = settings_.codec;
  options.draw_seed = draw_seed;
  options.segments = segments;
  options.scales = local.scales;
  std::vector<float>& update = local.update;
  if (!settings_.error_feedback) {
    return EncodeFrame(header, options, update, local.plain);
  }
  // What the codec lost the last time is sent now.
  state.resize(update.size());
  for (size_t i = 0; i < update.size(); ++i) update[i] += state[i];
  Result<Bytes> frame = EncodeFrame(header, options, update, local.plain);
  if (!frame) return frame;
  DecodeUpdate(ParseFrame(*frame).value(), state);
  for (size_t i = 0; i < update.size(); ++i) state[i] = update[i] - state[i];
  return frame;
}

}  // namespace fedmrn::sim
