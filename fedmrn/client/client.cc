#include "fedmrn/client/client.h"

#include <algorithm>
#include <array>
#include <utility>

#include "fedmrn/base/stopwatch.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/random.h"

namespace fedmrn::client {
namespace {

// The learner as a method sees it. Beside the method's steps it does what no
// method has to: it trains the tensors that stay on the client, and tells what
// the last steps came to.
class ClientLearner final : public train::Learner {
 public:
  // Counts from the step after `unmetered` on.
  ClientLearner(train::Learner& learner, const train::TrainSettings& train,
                uint64_t unmetered)
      : learner_(learner), train_(train), unmetered_(unmetered) {}

  void Prepare(std::span<const uint32_t> examples,
               const PhiloxStream& draws) override {
    learner_.Prepare(examples, draws);
  }

  train::BatchScore Gradient(std::span<const uint32_t> examples,
                             const PhiloxStream& draws,
                             std::span<const float> coded,
                             std::span<float> plain,
                             std::span<float> coded_gradient,
                             std::span<float> plain_gradient) override {
    const train::BatchScore score = learner_.Gradient(
        examples, draws, coded, plain, coded_gradient, plain_gradient);
    if (train::LocalTensors* const local = learner_.local()) StepLocal(*local);
    if (unmetered_ > 0) {
      --unmetered_;
      return score;
    }
    const auto count = static_cast<double>(examples.size());
    loss_ += score.loss * count;
    metric_ += score.metric * count;
    examples_ += count;
    return score;
  }

  train::Score Evaluate(uint64_t first, uint32_t count,
                        std::span<const float> coded,
                        std::span<const float> plain) override {
    return learner_.Evaluate(first, count, coded, plain);
  }

  double mean_loss() const { return loss_ / examples_; }
  double mean_metric() const { return metric_ / examples_; }

 private:
  // No global value pulls them back; clipping is of these alone.
  void StepLocal(train::LocalTensors& local) {
    const std::span values =
        std::span(local.values).first(local.gradient.size());
    train::ClipGradient(train_, local.gradient, {});
    train::Direction(train_, values, velocity_, local.gradient);
    train::SgdStep(train_.lr, local.gradient, values);
  }

  train::Learner& learner_;
  const train::TrainSettings& train_;
  std::vector<float> velocity_;  // of the tensors that stay
  uint64_t unmetered_;
  double loss_ = 0, metric_ = 0, examples_ = 0;
};

}  // namespace

Seeds SeedsOf(uint64_t seed, uint32_t round, uint32_t client) {
  std::array<uint32_t, 4> words;
  PhiloxWords({seed, Purpose::kClientSeed, round}, client, words);
  return {ClientSeed(seed, round, client), words[2] | uint64_t{words[3]} << 32};
}

std::span<const float> LocalValuesOf(const train::Task& task,
                                     std::span<const float> state) {
  return state.last(std::min<size_t>(task.model.local_values, state.size()));
}

Client::Client(const Settings& settings, const train::Task& task,
               std::span<const uint32_t> examples, States& states, Bench& bench)
    : settings_(settings),
      task_(task),
      examples_(examples),
      states_(states),
      bench_(bench) {}

Client::~Client() {
  if (train::LocalTensors* const local = bench_.learner->local()) {
    local->values.clear();
  }
}

uint64_t Client::steps() const {
  return StepsPerEpoch(settings_.train, examples_.size()) *
         settings_.train.epochs;
}

Result<Answer> Client::Answer(const Order& order, ByteView broadcast,
                              const AfterStep& after_step) {
  FEDMRN_TRY(Receive(order, broadcast));
  std::vector<float> state = FEDMRN_TRY(states_.Load(order.client));
  train::LocalTensors* const local = bench_.learner->local();
  if (local != nullptr) {
    const std::span own = LocalValuesOf(task_, state);
    local->values.assign(own.begin(), own.end());
    state.resize(state.size() - own.size());
  }

  const Stopwatch training;
  const Seeds seeds = SeedsOf(settings_.seed, order.round, order.client);
  train::TrainSettings train = settings_.train;
  train.lr = LearningRate(train, order.round);
  ClientLearner learner(*bench_.learner, train,
                        steps() - StepsPerEpoch(train, examples_.size()));
  const train::ClientWork work{.task = task_,
                               .learner = learner,
                               .train = train,
                               .method = settings_.method_settings,
                               .examples = examples_,
                               .weights = bench_.weights,
                               .model_seed = settings_.seed,
                               .noise = NoiseOf(seeds.noise),
                               .draw_seed = seeds.draw,
                               .state = state,
                               .after_step = after_step,
                               .plain = bench_.plain};
  client::Answer answer;
  if (!settings_.method->train(work, bench_.local)) {
    return Error{ErrorCode::kStopped, "stopped in its training"};
  }
  answer.train_s = training.seconds();
  answer.train_loss = learner.mean_loss();
  answer.train_score = learner.mean_metric();

  const Stopwatch encoding;
  answer.frame = FEDMRN_TRY(Encode(HeaderOf(order), state));
  answer.encode_s = encoding.seconds();
  if (local != nullptr) {
    state.insert(state.end(), local->values.begin(), local->values.end());
  }
  FEDMRN_TRY(states_.Keep(order.client, order.round, std::move(state)));
  return answer;
}

Status Client::Receive(const Order& order, ByteView broadcast) {
  const FrameView frame = FEDMRN_TRY(ParseFrame(broadcast));
  const ModelLayout& layout = task_.model.layout;
  if (!frame.broadcast || frame.run != settings_.run ||
      frame.round != order.round || frame.fingerprint != layout.Fingerprint() ||
      frame.params != layout.coded_params() ||
      frame.plain_count != layout.plain_values()) {
    return Error{ErrorCode::kForeign,
                 "the broadcast is of another model, run or round"};
  }
  const ByteView magnitudes = frame.noise.magnitudes.bytes();
  if (magnitudes.empty() == settings_.method_settings.mask.steered()) {
    return Error{ErrorCode::kForeign,
                 "the broadcast has magnitudes where the run has one for all, "
                 "or none where the server steers them"};
  }
  bench_.magnitudes.assign(magnitudes.begin(), magnitudes.end());
  bench_.weights.resize(frame.params);
  DecodeUpdate(frame, bench_.weights);
  train::LocalModel& local = bench_.local;
  local.update.resize(frame.params);
  local.coded_gradient.resize(frame.params);
  local.plain_gradient.resize(task_.model.trainable_plain);
  local.coded_velocity.clear();
  local.plain_velocity.clear();
  local.scales.clear();
  local.plain.resize(frame.plain_count);
  frame.CopyPlain(local.plain);
  bench_.plain = local.plain;
  return Ok();
}

Noise Client::NoiseOf(uint64_t seed) const {
  const train::MaskSettings& mask = settings_.method_settings.mask;
  return {mask.noise, mask.steered() ? 0 : mask.magnitude, seed,
          MagnitudesView(bench_.magnitudes)};
}

FrameHeader Client::HeaderOf(const Order& order) const {
  const train::MethodSettings& method = settings_.method_settings;
  FrameHeader header;
  header.codec = CodecOf(*settings_.method, method);
  header.plain_kind = method.plain_kind;
  header.run = settings_.run;
  header.round = order.round;
  header.client = order.client;
  header.examples = static_cast<uint32_t>(examples_.size());
  header.fingerprint = task_.model.layout.Fingerprint();
  const Codec& codec = *FindCodec(header.codec);
  const uint64_t seed = ClientSeed(settings_.seed, order.round, order.client);
  if (codec.uses_noise) {
    header.noise = NoiseOf(seed);
  } else if (codec.uses_seed) {
    header.noise.seed = seed;
  }
  return header;
}

Result<Bytes> Client::Encode(const FrameHeader& header,
                             std::vector<float>& state) const {
  const train::MethodSettings& method = settings_.method_settings;
  const Seeds seeds = SeedsOf(settings_.seed, header.round,
                              static_cast<uint32_t>(header.client));
  const std::vector<uint32_t> segments = task_.model.layout.segments();
  EncodeOptions options = method.codec;
  options.draw_seed = seeds.draw;
  options.segments = segments;
  options.scales = bench_.local.scales;
  const std::vector<uint32_t> plain_segments =
      task_.model.layout.plain_segments();
  options.plain_segments = plain_segments;
  options.plain_reference = bench_.plain;
  std::vector<float>& update = bench_.local.update;
  const std::vector<float>& plain = bench_.local.plain;
  if (method.error_feedback) {  // what the codec lost the last time is sent now
    state.resize(update.size());
    for (size_t i = 0; i < update.size(); ++i) update[i] += state[i];
  }
  Bytes frame = FEDMRN_TRY(EncodeFrame(header, options, update, plain));
  if (method.error_feedback) {
    DecodeUpdate(ParseFrame(frame).value(), state);
    for (size_t i = 0; i < update.size(); ++i) state[i] = update[i] - state[i];
  }
  if (!method.decoded_statistics) return frame;
  EstimateStatistics(seeds.draw, frame);
  return EncodeFrame(header, options, update, plain);  // the same update
}

void Client::EstimateStatistics(uint64_t draw_seed, ByteView frame) const {
  // A statistic is a running mean, a tenth of which each batch renews: so many
  // leave 4 % of those of training.
  constexpr size_t kBatches = 30;
  train::LocalModel& local = bench_.local;
  std::vector<float>& weights = local.trained;
  weights.resize(bench_.weights.size());
  DecodeUpdate(ParseFrame(frame).value(), weights);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] += bench_.weights[i];
  train::TrainSettings passes = settings_.train;
  const size_t per_pass = StepsPerEpoch(passes, examples_.size());
  passes.epochs = static_cast<uint32_t>((kBatches + per_pass - 1) / per_pass);
  std::vector<float> no_state;
  const train::ClientWork work{.task = task_,
                               .learner = *bench_.learner,
                               .train = passes,
                               .method = settings_.method_settings,
                               .examples = examples_,
                               .weights = bench_.weights,
                               .draw_seed = draw_seed,
                               .state = no_state,
                               .after_step = {}};
  train::ForEachBatch(
      work, [&](uint32_t step, uint32_t, std::span<const uint32_t> examples) {
        bench_.learner->Gradient(examples, train::BatchDraws(work, step),
                                 weights, local.plain, local.coded_gradient,
                                 local.plain_gradient);
      });
}

}  // namespace fedmrn::client
