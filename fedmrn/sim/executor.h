// The line between server and clients. Across it go a round's number, client
// ids and a broadcast frame one way, and frames the other: nothing else, so
// that threads, processes and other machines can stand behind it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"
#include "fedmrn/client/client.h"
#include "fedmrn/client/states.h"
#include "fedmrn/sim/config.h"
#include "fedmrn/sim/partition.h"
#include "fedmrn/sim/progress.h"
#include "fedmrn/sim/workers.h"

namespace fedmrn::sim {

struct RoundOrder {
  uint32_t round = 0;
  uint32_t attempt = 0;  // counts the samples drawn for this round
  std::span<const uint32_t> clients;
  ByteView broadcast;
};

// An answer of a client, or why there is none.
using OnAnswer =
    std::function<void(uint32_t client, Result<client::Answer> answer)>;

class Executor {
 public:
  virtual ~Executor() = default;

  // Asks each client once and hands its answer on as it arrives, in any order,
  // by one thread at a time; so the server holds one frame, not a round's. A
  // client that fails or does not answer within rounds.deadline_s is an answer
  // too. An error means that the executor itself failed, or kStopped that
  // `stop` was set; then answers may be missing.
  virtual Status Execute(const RoundOrder& order, const OnAnswer& on_answer,
                         const std::atomic<bool>& stop) = 0;

  // The round has counted the answers of these clients, so what they kept for
  // it is valid: see client::States. All others' is forgotten.
  virtual Status Commit(uint32_t round, std::span<const uint32_t> clients) = 0;
};

// What an executor may be made of. All outlive it.
struct ExecutorParts {
  const Config& config;
  const train::Task& task;
  const Partition& partition;
  Workers& workers;
  client::States& states;
  Progress& progress;
};

struct ExecutorRow {
  std::string_view name;
  std::unique_ptr<Executor> (*make)(const ExecutorParts& parts);
};

// The first is the default.
std::span<const ExecutorRow> Executors();

// What the run's clients are told.
client::Settings ClientSettingsOf(const Config& config);

// Rows of the table.
std::unique_ptr<Executor> MakeThreadExecutor(const ExecutorParts& parts);

}  // namespace fedmrn::sim
