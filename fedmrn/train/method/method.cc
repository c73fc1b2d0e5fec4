#include "fedmrn/train/method/method.h"

#include <numeric>

#include "fedmrn/base/check.h"
#include "fedmrn/core/random.h"

namespace fedmrn::train {
namespace {

// The paper gives the learning rates of FedAvg and FedMRN; those of the others
// that train as FedAvg does are FedAvg's. SignSGD's scale is not published,
// this one is tuned (docs/results.md).
constexpr Method kMethods[] = {
    {"fedavg", "full updates in float32 or float16, the baseline",
     CodecId::kFloat32, 0.03, 0, TrainFedAvg},
    {"fedpm", "masks of frozen random weights: the model is seed and scores",
     CodecId::kMask, 0.1, 0, TrainFedPm, FedPmScores, FedPmAggregate,
     FedPmNetwork},
    {"fedsparsify", "the local model, pruned while it is trained",
     CodecId::kTopK, 0.03, 0, TrainFedSparsify, nullptr, ReplaceByMean},
    {"signsgd", "stochastic signs of the update", CodecId::kSignSgd, 0.03,
     0.005, TrainFedAvg},
    {"topk", "the update's largest values", CodecId::kTopK, 0.03, 0,
     TrainFedAvg},
    {"terngrad", "stochastic signs and zeros of the update", CodecId::kTernGrad,
     0.03, 0, TrainFedAvg},
    {"drive", "signs of the rotated update", CodecId::kDrive, 0.03, 0,
     TrainFedAvg},
    {"eden", "1 to 4 bits of each value of the rotated update", CodecId::kEden,
     0.03, 0, TrainFedAvg},
    {"fedmrn", "masked random noise, binary masks: keep the noise or not",
     CodecId::kMrnBinary, 0.1, 0.01, TrainFedMrn},
    {"fedmrns", "masked random noise, signed masks: keep or flip the noise",
     CodecId::kMrnSigned, 0.1, 0.005, TrainFedMrnS},
    {"fedavg-sm", "FedAvg, then FedMRN's binary masks after training",
     CodecId::kMrnBinary, 0.03, 0.01, TrainFedAvg},
    {"fedavg-sms", "FedAvg, then FedMRN's signed masks after training",
     CodecId::kMrnSigned, 0.03, 0.005, TrainFedAvg},
    {"fedbat", "signs and a scale per tensor, both learned in training",
     CodecId::kSignSgd, 0.1, 0, TrainFedBat},
};

}  // namespace

std::span<const Method> Methods() { return kMethods; }

const Method* FindMethod(std::string_view name) {
  for (const Method& method : kMethods) {
    if (method.name == name) return &method;
  }
  return nullptr;
}

CodecId CodecOf(const Method& method, const MethodSettings& settings) {
  return method.codec == CodecId::kFloat32 && settings.half ? CodecId::kFloat16
                                                            : method.codec;
}

bool CompressesAfterTraining(const Method& method) {
  return method.train == TrainFedAvg;
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

void SgdDirection(const TrainSettings& train, std::span<const float> values,
                  std::vector<float>& velocity, std::span<float> gradient) {
  if (train.weight_decay != 0) {
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] += train.weight_decay * values[i];
    }
  }
  if (train.momentum == 0) return;
  if (velocity.empty()) {  // PyTorch's first step: the gradient itself
    velocity.assign(gradient.begin(), gradient.end());
    return;
  }
  for (size_t i = 0; i < gradient.size(); ++i) {
    velocity[i] = train.momentum * velocity[i] + gradient[i];
    gradient[i] = velocity[i];
  }
}

void SgdStep(float lr, std::span<const float> gradient,
             std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) values[i] -= lr * gradient[i];
}

void StepPlain(const ClientWork& work, LocalModel& local) {
  const std::span plain =
      std::span(local.plain).first(work.task.model.trainable_plain);
  SgdDirection(work.train, plain, local.plain_velocity, local.plain_gradient);
  SgdStep(work.train.lr, local.plain_gradient, plain);
}

}  // namespace fedmrn::train
