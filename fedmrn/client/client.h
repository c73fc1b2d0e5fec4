// One client of a round, as a device would run it: a broadcast frame in, a
// frame out. It knows its own examples, the settings that the run's clients
// share and what it has kept from earlier rounds; nothing of other clients,
// threads, partitions or the server.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"
#include "fedmrn/client/states.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/train/method/method.h"
#include "fedmrn/train/task.h"

namespace fedmrn::client {

// What all clients of a run are told before its first round.
struct Settings {
  uint64_t run = 0;   // its id, in all its frames
  uint64_t seed = 1;  // of the run; all that a client draws follows from it
  const train::Method* method = nullptr;
  train::MethodSettings method_settings;
  train::TrainSettings train;
};

// What the server asks of one client.
struct Order {
  uint32_t round = 0;
  uint32_t attempt = 0;  // counts the samples drawn for this round
  uint32_t client = 0;
};

struct Answer {
  Bytes frame;
  // What the client says about itself, for the log.
  double train_s = 0;
  double encode_s = 0;
  // Means over the examples of its last local epoch, each batch's before its
  // step: the loss that it trained with, and the model's metric.
  double train_loss = std::nan("");
  double train_score = std::nan("");
};

// Called after every local step with the number of its examples; false ends
// the client's work at once.
using AfterStep = std::function<bool(size_t examples)>;

// A network and the buffers around it, which whoever runs clients one after the
// other keeps from one to the next: memory grows with the benches, never with
// the clients.
struct Bench {
  std::unique_ptr<train::Learner> learner;
  train::LocalModel local;
  // The broadcast that came last held these.
  std::vector<float> weights, plain;
  Bytes magnitudes;
};

// Not thread-safe; several may share settings, task and states.
class Client {
 public:
  // All references outlive it. `examples` are its own, of the task's data.
  Client(const Settings& settings, const train::Task& task,
         std::span<const uint32_t> examples, States& states, Bench& bench);
  // Takes its own tensors off the bench.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Trains from the broadcast model and answers with a frame. What it keeps for
  // later rounds waits in its states until the server has counted the frame:
  // see States::Commit. Fails with kStopped if `after_step` ended the work.
  Result<client::Answer> Answer(const Order& order, ByteView broadcast,
                                const AfterStep& after_step);

  // Local steps of one order.
  uint64_t steps() const;

  // For wrappers that answer otherwise: the header of the answer to an order,
  // what training has left on the bench, and both as a frame.
  FrameHeader HeaderOf(const Order& order) const;
  train::LocalModel& trained() { return bench_.local; }
  const train::Task& task() const { return task_; }
  Result<Bytes> Encode(const FrameHeader& header,
                       std::vector<float>& state) const;

 private:
  // Puts the broadcast model onto the bench.
  Status Receive(const Order& order, ByteView broadcast);
  // What the client's masks are of, with the magnitudes that the server sent,
  // if it sends any.
  Noise NoiseOf(uint64_t seed) const;
  // Takes the batch-norm statistics on the bench again, under the update that
  // the server will decode: those of training belong to weights that it never
  // sees.
  void EstimateStatistics(uint64_t draw_seed, ByteView frame) const;

  const Settings& settings_;
  const train::Task& task_;
  std::span<const uint32_t> examples_;
  States& states_;
  Bench& bench_;
};

// The tensors that stay with a client (train::LocalTensors), which are the end
// of its state; empty if it has trained none yet.
std::span<const float> LocalValuesOf(const train::Task& task,
                                     std::span<const float> state);

// What one client draws from in one round.
struct Seeds {
  uint64_t noise;  // goes on the wire
  uint64_t draw;   // never leaves the client
};
Seeds SeedsOf(uint64_t seed, uint32_t round, uint32_t client);

}  // namespace fedmrn::client
