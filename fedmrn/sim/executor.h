// The line between server and clients. Across it go a round's number, client
// ids and a broadcast frame one way, and frames the other: nothing else, so
// that threads, processes and other machines can stand behind it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"
#include "fedmrn/client/client.h"
#include "fedmrn/client/states.h"
#include "fedmrn/results/results.h"
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
  // too. An error means that the executor itself failed, such as for want of
  // memory or disk, or kStopped that `stop` was set; then answers may be
  // missing.
  virtual Status Execute(const RoundOrder& order, const OnAnswer& on_answer,
                         const std::atomic<bool>& stop) = 0;

  // The round has counted the answers of these clients, so what they kept for
  // it is valid: see client::States. All others' is forgotten.
  virtual Status Commit(uint32_t round, std::span<const uint32_t> clients) = 0;
};

// Asks one client, on the thread of its bench.
using Ask = std::function<Result<client::Answer>(
    uint32_t client, const RoundOrder& order, client::States& states,
    client::Bench& bench, const std::atomic<bool>& stop)>;

// What an executor may be made of. All outlive it.
struct ExecutorParts {
  const Config& config;
  const train::Task& task;
  const Partition& partition;
  Workers& workers;
  client::States& states;
  Progress& progress;
  // What the processes of a team must agree in, beside the config.
  std::string version = {};  // of the program
  results::Inputs digests = {};
  bool mixed = false;  // they may round differently
  // Warnings.
  std::function<void(const std::string&)> log = [](const std::string&) {};
  // For measurements: what answers instead of clients, of which the server
  // itself then has none.
  Ask ask = {};
};

// The processes that carry out one command together: with most executors this
// one alone. One thread uses it.
class Team {
 public:
  // Where this process leads, the others end with it.
  virtual ~Team() = default;

  virtual uint32_t size() const = 0;
  // Whether this process is the server. One that is not only follows.
  virtual bool leads() const = 0;
  // For the server; it refuses others that would not compute the same.
  virtual Result<std::unique_ptr<Executor>> MakeExecutor(
      const ExecutorParts& parts) = 0;
  // Asks clients for the server until that ends the run.
  virtual Status Follow(const ExecutorParts& parts) = 0;
  // Instead of Follow: tells the server why this process cannot.
  virtual void Refuse(const Error& error) = 0;
};

struct ExecutorRow {
  std::string_view name;
  std::string_view summary;
  // Whether what started the program wants this one.
  bool (*wanted)();
  Result<std::unique_ptr<Team>> (*gather)();
};

// "auto" takes the first of these that is wanted; the last always is.
std::span<const ExecutorRow> Executors();

// The team of the executor of this name, or of "auto".
Result<std::unique_ptr<Team>> GatherTeam(std::string_view name);

// Rows of the table.
extern const ExecutorRow kThreadExecutor;
extern const ExecutorRow kMpiExecutor;

// Clients as threads of this process.
std::unique_ptr<Executor> MakeThreadExecutor(const ExecutorParts& parts);

}  // namespace fedmrn::sim
