// Methods: how a client turns the global model and its data into an update, and
// with which codec the update travels. Rows of one table; a new method is a new
// file and a new row.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/base/settings.h"
#include "fedmrn/core/codec.h"
#include "fedmrn/core/mask.h"
#include "fedmrn/core/noise.h"
#include "fedmrn/train/task.h"

namespace fedmrn::train {

enum class LocalOptimizer { kSgd, kAdam, kAdamW };

enum class LrSchedule { kConstant, kStep, kCosine, kLinear };

struct TrainSettings {
  uint32_t epochs = 10;
  uint32_t batch = 64;
  float lr = 0.1f;  // of the first round
  LrSchedule lr_schedule = LrSchedule::kConstant;
  uint32_t lr_rounds =
      0;  // step: between two steps; cosine, linear: to the end
  double lr_factor = 0.1;  // step: of each step; cosine, linear: of all of them
  LocalOptimizer optimizer = LocalOptimizer::kSgd;
  float momentum = 0;  // of SGD
  float weight_decay = 0;
  float clip_grad = 0;     // the gradient's largest norm; 0: any
  float prox_mu = 0;       // FedProx's pull back to the global model
  bool drop_last = false;  // leave out an epoch's last, short batch
};
std::span<const Key<TrainSettings>> TrainKeys();
// The learning rate of a round, from 1: a pure function of both.
float LearningRate(const TrainSettings& train, uint32_t round);
// Local steps of an epoch; at least one.
size_t StepsPerEpoch(const TrainSettings& train, size_t examples);

// In a magnitude's place: each tensor has its own, which the server steers.
inline constexpr float kAutoMagnitude = -1;

struct MaskSettings {
  NoiseKind noise = NoiseKind::kUniform;
  float magnitude = 0.01f;
  float first_magnitude = 0.01f;  // of those that are steered: the method's
  double target_ones = 0.1;       // to which share of ones they are steered
  bool stochastic = true;         // SM; false: DM
  bool progressive = true;        // PM

  bool steered() const { return magnitude == kAutoMagnitude; }
};

// What a method can be told beyond how to train; each uses its own part.
struct MethodSettings {
  std::string name = {};  // of its row
  MaskSettings mask = {};
  EncodeOptions codec = {};  // but for seeds and segments
  bool half = false;         // fedavg: float16
  PlainKind plain_kind = PlainKind::kFloat32;
  bool error_feedback = false;  // what the codec lost is added the next time
  bool decoded_statistics = false;  // batch-norm statistics of what the server
                                    // decodes, not of what was trained
  std::string local = {};    // patterns of tensors that stay on the client
  bool adam = true;          // fedpm: or SGD
  uint32_t reset_every = 1;  // fedpm: rounds that one estimate is made of
  // Numbers of methods that other programs register, by names of their own.
  std::map<std::string, double> own = {};
};
using MethodKey = Key<MethodSettings>;
// All keys of the program's own methods, in the config's order.
std::span<const MethodKey> MethodKeys();

// What a client has at hand in one round.
struct ClientWork {
  const Task& task;
  Learner& learner;
  const TrainSettings& train;
  const MethodSettings& method;
  std::span<const uint32_t> examples;
  std::span<const float> weights;  // the global model's, frozen
  uint64_t model_seed = 0;         // shared by all, for methods with a model
                                   // that follows from it
  Noise noise = {};                // goes on the wire, if the method has any
  uint64_t draw_seed = 0;          // never leaves the client
  // What the client keeps from round to round; empty at first.
  std::vector<float>& state;
  // Called after every local step with the number of its examples; false ends
  // the client's work at once.
  std::function<bool(size_t examples)> after_step;
  // The global model's, for train.prox_mu.
  std::span<const float> plain = {};
};

// Buffers that a worker keeps from client to client.
struct LocalModel {
  std::vector<float> update;  // result: what the codec encodes
  std::vector<float> scales;  // result: of each tensor, if the method has them
  std::vector<float> plain;   // in: the global model's; result: to be sent
  std::vector<float> trained;
  std::vector<float> coded_gradient, plain_gradient;
  std::vector<float> coded_velocity, plain_velocity;  // the optimizer's
};

// What the server has at hand after a round.
struct ServerWork {
  const MethodSettings& method;
  uint32_t round;               // from 1
  std::span<const float> mean;  // of the clients' decoded updates
};

struct Method {
  std::string_view name;
  std::string_view summary;
  CodecId codec;
  double lr;         // as published, for all four image sets
  double magnitude;  // of the noise or of the signs; 0: has none
  // Local training, from work.weights and local.plain to local.update and
  // local.plain. False if after_step ended it.
  bool (*train)(const ClientWork& work, LocalModel& local);

  // Null where the server's model is the network's weights and a round adds the
  // mean update to it (paper, Eq. 5): for all but the methods of other papers
  // that compress the model instead of its update.
  void (*initialize)(uint64_t model_seed, std::span<float> model) = nullptr;
  void (*server_step)(const ServerWork& work, std::span<float> model) = nullptr;
  // From the model to the network's weights, in place.
  void (*network)(const ModelLayout& layout, uint64_t model_seed,
                  uint32_t round, std::span<float> model) = nullptr;

  // Whether the learning rate is one of weights; then a network may have its
  // own. False for methods that train something else, such as scores.
  bool trains_weights = true;
  // Whether what is trained takes the network's gradient as it is, so that
  // train.optimizer, train.clip_grad and train.prox_mu mean what they say.
  bool direct_gradient = false;
  // Whether a finished update is compressed, as FedAvg has trained it; only
  // then can what is lost be fed back.
  bool compresses_after_training = false;
  // Whether compression brings every update nearer to itself than nothing would
  // (the error's norm is below the update's), without which error feedback need
  // not converge.
  bool contractive = false;
  // Whether the codec's scale, where it has a choice, leaves the update's mean
  // as it is; otherwise it makes the error least.
  bool unbiased = true;
  // What a network's usual noise is multiplied by; 0: it does not count here.
  double times_usual_noise = 0;
  // The keys that it reads, beside those of all methods. A method from outside
  // may bring its own, with a place in MethodSettings::own.
  std::vector<const MethodKey*> keys = {};
};

const std::deque<Method>& Methods();
const Method* FindMethod(std::string_view name);  // null if there is none
// Another row, before the first config is parsed.
void RegisterMethod(const Method& method);

// The codec of a round's frames.
CodecId CodecOf(const Method& method, const MethodSettings& settings);

// For methods' files: calls `step(tau, S, examples)` for every mini-batch of
// every epoch, reshuffled each epoch; tau counts from 1 to S. What the learner
// draws for it is BatchDraws(work, tau). False if after_step ended it.
bool ForEachBatch(const ClientWork& work,
                  const std::function<void(uint32_t step, uint32_t total_steps,
                                           std::span<const uint32_t>)>& step);

PhiloxStream BatchDraws(const ClientWork& work, uint32_t step);

// What train.prox_mu and train.clip_grad make of the gradients of a batch, as
// the learner has left them: first `values` are pulled back to `start` (empty:
// to 0) and plain values to the global ones, then both gradients together are
// scaled down to the largest norm. Before a direction is taken of them.
void ShapeGradients(const ClientWork& work, std::span<const float> values,
                    std::span<const float> start, LocalModel& local);

// The second half of it: the norm is that of both gradients together.
void ClipGradient(const TrainSettings& train, std::span<float> coded,
                  std::span<float> plain);

// The direction of train.optimizer, in `gradient`: values -= lr * gradient is
// its step. `velocity`, empty before the first step, is what it keeps until the
// next: SGD's momentum, Adam's moments.
void Direction(const TrainSettings& train, std::span<const float> values,
               std::vector<float>& velocity, std::span<float> gradient);
// SGD's: gradient + weight_decay * values, through the momentum
// buffer `velocity` (empty before the first step), in `gradient`.
void SgdDirection(const TrainSettings& train, std::span<const float> values,
                  std::vector<float>& velocity, std::span<float> gradient);
// values -= lr * gradient.
void SgdStep(float lr, std::span<const float> gradient,
             std::span<float> values);

// Adam's moments (Kingma and Ba, usual constants) after one more gradient.
// `state`, empty before the first, holds them and the number of steps.
struct AdamMoments {
  std::span<const float> first, second;
  float first_correction, second_correction;  // divide the moments by these
};
AdamMoments UpdateAdam(std::span<const float> gradient,
                       std::vector<float>& state);
inline constexpr float kAdamEpsilon = 1e-8f;

// One step of the plain values, for methods that train the rest otherwise.
void StepPlain(const ClientWork& work, LocalModel& local);

// Rows of the table.
bool TrainFedAvg(const ClientWork& work, LocalModel& local);
bool TrainFedMrn(const ClientWork& work, LocalModel& local);
bool TrainFedMrnS(const ClientWork& work, LocalModel& local);
bool TrainFedBat(const ClientWork& work, LocalModel& local);

bool TrainFedSparsify(const ClientWork& work, LocalModel& local);
void ReplaceByMean(const ServerWork& work, std::span<float> model);

bool TrainFedPm(const ClientWork& work, LocalModel& local);
void FedPmScores(uint64_t model_seed, std::span<float> model);
void FedPmAggregate(const ServerWork& work, std::span<float> model);
void FedPmNetwork(const ModelLayout& layout, uint64_t model_seed,
                  uint32_t round, std::span<float> model);

}  // namespace fedmrn::train
