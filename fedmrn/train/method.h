// Methods: how a client turns the global model and its data into an update, and
// with which codec the update travels. Rows of one table; a new method is a new
// file and a new row.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "fedmrn/core/codec.h"
#include "fedmrn/core/mask.h"
#include "fedmrn/core/noise.h"
#include "fedmrn/train/task.h"

namespace fedmrn {

struct TrainSettings {
  uint32_t epochs = 10;
  uint32_t batch = 64;
  float lr = 0.1f;
  float momentum = 0;
  float weight_decay = 0;
};

struct MaskSettings {
  NoiseKind noise = NoiseKind::kUniform;
  float magnitude = 0.01f;
  bool stochastic = true;   // SM; false: DM
  bool progressive = true;  // PM
};

// What a client has at hand in one round.
struct ClientWork {
  const Task& task;
  Learner& learner;
  const TrainSettings& train;
  const MaskSettings& mask;
  std::span<const uint32_t> examples;
  std::span<const float> weights;  // the global model's, frozen
  uint64_t noise_seed = 0;         // goes on the wire
  uint64_t draw_seed = 0;          // never leaves the client
  // Called after every local step; false ends the client's work at once.
  std::function<bool()> after_step;
};

// Buffers that a worker keeps from client to client.
struct LocalModel {
  std::vector<float> update;  // result: what the codec encodes
  std::vector<float> dense;   // in: the global model's; result: to be sent
  std::vector<float> trained;
  std::vector<float> masked_gradient, dense_gradient;
  std::vector<float> masked_velocity, dense_velocity;
};

struct Method {
  std::string_view name;
  std::string_view summary;
  CodecId codec;
  double lr;         // as published, for all four image sets
  double magnitude;  // of the noise; 0: has none
  // Local training, from work.weights and local.dense to local.update and
  // local.dense. False if after_step ended it.
  bool (*train)(const ClientWork& work, LocalModel& local);
};

std::span<const Method> Methods();
const Method* FindMethod(std::string_view name);  // null if there is none

// For methods' files: calls `step(tau, S, examples)` for every mini-batch of
// every epoch, reshuffled each epoch, the last short batch kept; tau counts
// from 1 to S. False if after_step ended it.
bool ForEachBatch(const ClientWork& work,
                  const std::function<void(uint32_t step, uint32_t total_steps,
                                           std::span<const uint32_t>)>& step);

// SGD's direction: gradient + weight_decay * values, through the momentum
// buffer `velocity` (empty before the first step), in `gradient`.
void SgdDirection(const TrainSettings& train, std::span<const float> values,
                  std::vector<float>& velocity, std::span<float> gradient);
// values -= lr * gradient.
void SgdStep(float lr, std::span<const float> gradient,
             std::span<float> values);

// Rows of the table.
bool TrainFedAvg(const ClientWork& work, LocalModel& local);
bool TrainFedMrn(const ClientWork& work, LocalModel& local);
bool TrainFedMrnS(const ClientWork& work, LocalModel& local);

}  // namespace fedmrn
