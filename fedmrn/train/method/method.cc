#include "fedmrn/train/method/method.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "fedmrn/base/check.h"
#include "fedmrn/core/random.h"
#include "fedmrn/train/registry.h"

namespace fedmrn::train {
namespace {

std::vector<std::string_view> MethodNames();

constexpr Choice kNoiseKinds[] = {{"uniform", NoiseKind::kUniform},
                                  {"gaussian", NoiseKind::kGaussian},
                                  {"bernoulli", NoiseKind::kBernoulli}};
constexpr Choice kHalf[] = {{"float32", false}, {"float16", true}};
constexpr Choice kCoding[] = {{"entropy", true}, {"plain", false}};
constexpr Choice kPlainKinds[] = {{"float32", PlainKind::kFloat32},
                                  {"float16", PlainKind::kFloat16},
                                  {"delta", PlainKind::kDelta}};
constexpr Choice kAdam[] = {{"adam", true}, {"sgd", false}};

constexpr Choice kOptimizers[] = {{"sgd", LocalOptimizer::kSgd},
                                  {"adam", LocalOptimizer::kAdam},
                                  {"adamw", LocalOptimizer::kAdamW}};
constexpr Choice kLrSchedules[] = {{"constant", LrSchedule::kConstant},
                                   {"step", LrSchedule::kStep},
                                   {"cosine", LrSchedule::kCosine},
                                   {"linear", LrSchedule::kLinear}};

#define AT(member) FEDMRN_PLACE(TrainSettings, member)

constexpr Key<TrainSettings> kTrainKeys[] = {
    {"train.epochs", AT(epochs), "of a client in a round", kFromOne},
    {"train.batch", AT(batch), "examples of a local step", kFromOne},
    {"train.optimizer", AT(optimizer), "of local training", kOptimizers,
     KeyRole::kTuning},
    {"train.lr", AT(lr),
     "learning rate; default: the method's, 0.001 with adam and adamw",
     kPositive, KeyRole::kTuning},
    {"train.lr_schedule", AT(lr_schedule),
     "how the learning rate falls from round to round", kLrSchedules,
     KeyRole::kTuning},
    {"train.lr_rounds", AT(lr_rounds),
     "step: rounds between two steps; cosine, linear: rounds to the last rate; "
     "default: rounds.count",
     Range{}, KeyRole::kTuning},
    {"train.lr_factor", AT(lr_factor),
     "step: the rate is multiplied by it at each step; cosine, linear: the "
     "last rate is so much of the first",
     kShare, KeyRole::kTuning},
    {"train.momentum", AT(momentum), "of local SGD",
     Range{.high = 1, .below_high = true}, KeyRole::kTuning},
    {"train.weight_decay", AT(weight_decay),
     "of local training; adamw: apart from the gradient", Range{},
     KeyRole::kTuning},
    {"train.clip_grad", AT(clip_grad),
     "the largest norm of a gradient, over all tensors; 0: any", Range{},
     KeyRole::kTuning},
    {"train.prox_mu", AT(prox_mu),
     "FedProx's pull of the local model back to the global one", Range{},
     KeyRole::kTuning},
    {"train.drop_last", AT(drop_last),
     "leave out an epoch's last, short batch"},
};

#undef AT
#define AT(member) FEDMRN_PLACE(MethodSettings, member)

constexpr MethodKey kMethodKeys[] = {
    {"method.name", AT(name), "what clients upload", MethodNames},
    {"method.noise", AT(mask.noise), "distribution of the noise", kNoiseKinds},
    {"method.magnitude", AT(mask.magnitude),
     "of the noise, or \"auto\": each tensor has its own, which the server "
     "steers; signsgd: of the signs, 0: each tensor's largest value; default: "
     "the method's",
     Range{.high = 16, .word = "auto", .word_value = kAutoMagnitude}},
    {"method.target_ones", AT(mask.target_ones),
     "the share of ones in a mask to which magnitude \"auto\" is steered",
     Range{.high = 0.5, .above_low = true, .below_high = true}},
    {"method.stochastic", AT(mask.stochastic),
     "stochastic masks (SM); false: DM"},
    {"method.progressive", AT(mask.progressive), "progressive masking (PM)"},
    {"method.coding", AT(codec.entropy),
     "masks, signs, trits and positions travel entropy-coded, or as they are",
     kCoding},
    {"method.update", AT(half), "fedavg: the update travels as", kHalf},
    {"method.dense", AT(plain_kind), "what is not compressed travels as",
     kPlainKinds},
    {"method.keep", AT(codec.keep), "topk, fedsparsify: the share that is sent",
     kPositiveShare},
    {"method.clip", AT(codec.clip),
     "terngrad: in standard deviations; 0: no clipping"},
    {"method.bits", AT(codec.bits), "eden: of each parameter", Range{1, 4}},
    {"method.error_feedback", AT(error_feedback),
     "what compression lost goes into the client's next update"},
    {"method.decoded_statistics", AT(decoded_statistics),
     "batch-norm statistics are taken again under the decoded update"},
    {"method.local", AT(local),
     "patterns of tensors that stay on each client and are never sent, such as "
     "fc.* (a head of its own) or bn* (FedBN)"},
    {"method.optimizer", AT(adam), "fedpm: of the scores", kAdam},
    {"method.reset_every", AT(reset_every),
     "fedpm: rounds that one estimate is made of", kFromOne},
};

#undef AT

std::vector<const MethodKey*> Keys(
    std::initializer_list<std::string_view> names) {
  return KeysNamed<MethodSettings>(kMethodKeys, names);
}

// The paper gives the learning rates of FedAvg and FedMRN; those of the others
// that train as FedAvg does are FedAvg's. SignSGD's scale is not published,
// this one is tuned (docs/results.md). Signed masks span twice their noise.
Registry<Method>& Table() {
  static Registry<Method> table = {
      {.name = "fedavg",
       .summary = "full updates in float32 or float16, the baseline",
       .codec = CodecId::kFloat32,
       .lr = 0.03,
       .magnitude = 0,
       .train = TrainFedAvg,
       .direct_gradient = true,
       .compresses_after_training = true,
       .contractive = true,
       .keys = Keys({"method.update", "method.error_feedback",
                     "method.decoded_statistics"})},
      {.name = "fedpm",
       .summary = "masks of frozen random weights: the model is seed and "
                  "scores",
       .codec = CodecId::kMask,
       .lr = 0.1,
       .magnitude = 0,
       .train = TrainFedPm,
       .initialize = FedPmScores,
       .server_step = FedPmAggregate,
       .network = FedPmNetwork,
       .trains_weights = false,
       .keys = Keys({"method.stochastic", "method.coding", "method.optimizer",
                     "method.reset_every"})},
      {.name = "fedsparsify",
       .summary = "the local model, pruned while it is trained",
       .codec = CodecId::kTopK,
       .lr = 0.03,
       .magnitude = 0,
       .train = TrainFedSparsify,
       .server_step = ReplaceByMean,
       .direct_gradient = true,
       .keys = Keys({"method.coding", "method.keep"})},
      {.name = "signsgd",
       .summary = "stochastic signs of the update",
       .codec = CodecId::kSignSgd,
       .lr = 0.03,
       .magnitude = 0.005,
       .train = TrainFedAvg,
       .direct_gradient = true,
       .compresses_after_training = true,
       .keys = Keys({"method.magnitude", "method.coding",
                     "method.error_feedback", "method.decoded_statistics"})},
      {.name = "topk",
       .summary = "the update's largest values",
       .codec = CodecId::kTopK,
       .lr = 0.03,
       .magnitude = 0,
       .train = TrainFedAvg,
       .direct_gradient = true,
       .compresses_after_training = true,
       .contractive = true,
       .keys = Keys({"method.coding", "method.keep", "method.error_feedback",
                     "method.decoded_statistics"})},
      {.name = "terngrad",
       .summary = "stochastic signs and zeros of the update",
       .codec = CodecId::kTernGrad,
       .lr = 0.03,
       .magnitude = 0,
       .train = TrainFedAvg,
       .direct_gradient = true,
       .compresses_after_training = true,
       .keys = Keys({"method.clip", "method.coding", "method.error_feedback",
                     "method.decoded_statistics"})},
      {.name = "drive",
       .summary = "signs of the rotated update",
       .codec = CodecId::kDrive,
       .lr = 0.03,
       .magnitude = 0,
       .train = TrainFedAvg,
       .direct_gradient = true,
       .compresses_after_training = true,
       .contractive = true,
       .keys = Keys({"method.error_feedback", "method.decoded_statistics"})},
      {.name = "drive-biased",
       .summary = "signs of the rotated update, its scale of least error",
       .codec = CodecId::kDrive,
       .lr = 0.03,
       .magnitude = 0,
       .train = TrainFedAvg,
       .direct_gradient = true,
       .compresses_after_training = true,
       .contractive = true,
       .unbiased = false,
       .keys = Keys({"method.error_feedback", "method.decoded_statistics"})},
      {.name = "eden",
       .summary = "1 to 4 bits of each value of the rotated update",
       .codec = CodecId::kEden,
       .lr = 0.03,
       .magnitude = 0,
       .train = TrainFedAvg,
       .direct_gradient = true,
       .compresses_after_training = true,
       .contractive = true,
       .keys = Keys({"method.bits", "method.error_feedback",
                     "method.decoded_statistics"})},
      {.name = "fedmrn",
       .summary = "masked random noise, binary masks: keep the noise or not",
       .codec = CodecId::kMrnBinary,
       .lr = 0.1,
       .magnitude = 0.01,
       .train = TrainFedMrn,
       .direct_gradient = true,
       .times_usual_noise = 1,
       .keys =
           Keys({"method.noise", "method.magnitude", "method.target_ones",
                 "method.stochastic", "method.progressive", "method.coding"})},
      {.name = "fedmrns",
       .summary = "masked random noise, signed masks: keep or flip the noise",
       .codec = CodecId::kMrnSigned,
       .lr = 0.1,
       .magnitude = 0.005,
       .train = TrainFedMrnS,
       .direct_gradient = true,
       .times_usual_noise = 0.5,
       .keys =
           Keys({"method.noise", "method.magnitude", "method.target_ones",
                 "method.stochastic", "method.progressive", "method.coding"})},
      {.name = "fedavg-sm",
       .summary = "FedAvg, then FedMRN's binary masks after training",
       .codec = CodecId::kMrnBinary,
       .lr = 0.03,
       .magnitude = 0.01,
       .train = TrainFedAvg,
       .direct_gradient = true,
       .compresses_after_training = true,
       .times_usual_noise = 1,
       .keys = Keys({"method.noise", "method.magnitude", "method.target_ones",
                     "method.stochastic", "method.coding",
                     "method.error_feedback", "method.decoded_statistics"})},
      {.name = "fedavg-sms",
       .summary = "FedAvg, then FedMRN's signed masks after training",
       .codec = CodecId::kMrnSigned,
       .lr = 0.03,
       .magnitude = 0.005,
       .train = TrainFedAvg,
       .direct_gradient = true,
       .compresses_after_training = true,
       .times_usual_noise = 0.5,
       .keys = Keys({"method.noise", "method.magnitude", "method.target_ones",
                     "method.stochastic", "method.coding",
                     "method.error_feedback", "method.decoded_statistics"})},
      {.name = "fedbat",
       .summary = "signs and a scale per tensor, both learned in training",
       .codec = CodecId::kSignSgd,
       .lr = 0.1,
       .magnitude = 0,
       .train = TrainFedBat,
       .keys = Keys({"method.coding"})},
  };
  return table;
}

std::vector<std::string_view> MethodNames() { return Table().names(); }

}  // namespace

std::span<const Key<TrainSettings>> TrainKeys() { return kTrainKeys; }

std::span<const MethodKey> MethodKeys() { return kMethodKeys; }

const std::deque<Method>& Methods() { return Table().rows(); }

const Method* FindMethod(std::string_view name) { return Table().Find(name); }

void RegisterMethod(const Method& method) { Table().Add(method); }

CodecId CodecOf(const Method& method, const MethodSettings& settings) {
  return method.codec == CodecId::kFloat32 && settings.half ? CodecId::kFloat16
                                                            : method.codec;
}

float LearningRate(const TrainSettings& train, uint32_t round) {
  const double done = round - 1.0, rounds = std::max(train.lr_rounds, 1u);
  const double last = train.lr_factor;
  // Those who go on after the end keep the last rate.
  const double share = std::min(done / std::max(rounds - 1, 1.0), 1.0);
  double factor = 1;
  switch (train.lr_schedule) {
    case LrSchedule::kConstant:
      break;
    case LrSchedule::kStep:
      factor = std::pow(last, std::floor(done / rounds));
      break;
    case LrSchedule::kCosine:
      factor = last + (1 - last) * (1 + std::cos(std::numbers::pi * share)) / 2;
      break;
    case LrSchedule::kLinear:
      factor = 1 + (last - 1) * share;
      break;
  }
  return static_cast<float>(train.lr * factor);
}

size_t StepsPerEpoch(const TrainSettings& train, size_t examples) {
  const size_t full = examples / train.batch;
  const bool short_one = examples % train.batch != 0;
  return full + (short_one && (full == 0 || !train.drop_last) ? 1 : 0);
}

PhiloxStream BatchDraws(const ClientWork& work, uint32_t step) {
  return {work.draw_seed, Purpose::kAugment, step};
}

bool ForEachBatch(const ClientWork& work,
                  const std::function<void(uint32_t, uint32_t,
                                           std::span<const uint32_t>)>& step) {
  const size_t count = work.examples.size(), batch = work.train.batch;
  FEDMRN_CHECK(count > 0 && batch > 0);
  const auto per_epoch =
      static_cast<uint32_t>(StepsPerEpoch(work.train, count));
  const uint32_t total_steps = per_epoch * work.train.epochs;
  std::vector<uint32_t> order(work.examples.begin(), work.examples.end()), next;
  const auto shuffle = [&](uint32_t epoch, std::vector<uint32_t>& examples) {
    Random({work.draw_seed, Purpose::kShuffle, epoch})
        .Shuffle(std::span(examples));
  };
  const auto batch_of = [&](const std::vector<uint32_t>& from, uint32_t index) {
    const size_t first = index * batch;
    return std::span(from).subspan(first, std::min(batch, count - first));
  };
  uint32_t tau = 1;
  shuffle(0, order);
  work.learner.Prepare(batch_of(order, 0), BatchDraws(work, tau));
  for (uint32_t epoch = 0; epoch < work.train.epochs; ++epoch) {
    if (epoch + 1 < work.train.epochs) {
      next = order;
      shuffle(epoch + 1, next);
    }
    for (uint32_t i = 0; i < per_epoch; ++i, ++tau) {
      if (tau < total_steps) {
        work.learner.Prepare(
            i + 1 < per_epoch ? batch_of(order, i + 1) : batch_of(next, 0),
            BatchDraws(work, tau + 1));
      }
      const std::span<const uint32_t> examples = batch_of(order, i);
      step(tau, total_steps, examples);
      if (work.after_step && !work.after_step(examples.size())) return false;
    }
    order.swap(next);
  }
  return true;
}

}  // namespace fedmrn::train
