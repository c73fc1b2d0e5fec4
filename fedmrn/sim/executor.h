// The line between server and clients. Across it go a round's number, client
// ids and a broadcast frame one way, and frames the other: nothing else, so
// that threads, processes and other machines can stand behind it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/client/states.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/sim/config.h"
#include "fedmrn/sim/partition.h"
#include "fedmrn/sim/progress.h"
#include "fedmrn/sim/workers.h"
#include "fedmrn/train/method/method.h"

namespace fedmrn::sim {

struct RoundOrder {
  uint32_t round = 0;
  uint32_t attempt = 0;  // counts the samples drawn for this round
  std::span<const uint32_t> clients;
  ByteView broadcast;
};

struct Answer {
  Bytes frame;          // empty: the client failed
  std::string failure;  // why, for the log
  // What the client says about itself, for the log.
  double train_s = 0;
  double encode_s = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  // One answer per client, in the order of the clients.
  virtual std::vector<Answer> Execute(const RoundOrder& order) = 0;
};

// Clients as threads of this process.
class ThreadExecutor final : public Executor {
 public:
  // All references outlive it.
  ThreadExecutor(const Config& config, const train::Task& task,
                 const Partition& partition, Workers& workers,
                 client::ClientStates& states, Progress& progress);

  std::vector<Answer> Execute(const RoundOrder& order) override;

 private:
  Answer RunClient(const RoundOrder& order, uint32_t client, Worker& worker);
  // The update that local training left in `local`, as a frame.
  Result<Bytes> Encode(const FrameHeader& header, uint64_t draw_seed,
                       train::LocalModel& local,
                       std::vector<float>& state) const;

  const Config& config_;
  const train::Task& task_;
  const Partition& partition_;
  Workers& workers_;
  client::ClientStates& states_;
  Progress& progress_;
  const train::Method& method_;
  train::TrainSettings train_;
  train::MethodSettings settings_;
};

// Of one client in one round.
struct ClientSeeds {
  uint64_t noise;  // goes on the wire
  uint64_t draw;   // never leaves the client
};
ClientSeeds SeedsOf(uint64_t seed, uint32_t round, uint32_t client);

// The [method] section as the method and its codec take it.
train::MethodSettings MethodSettingsOf(const Config& config);

}  // namespace fedmrn::sim
