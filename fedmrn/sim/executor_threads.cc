// Clients as threads of this process.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "fedmrn/base/stopwatch.h"
#include "fedmrn/client/faults.h"
#include "fedmrn/sim/executor.h"

namespace fedmrn::sim {
namespace {

class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(const ExecutorParts& parts)
      : parts_(parts), settings_(ClientSettingsOf(parts.config)) {}

  Status Execute(const RoundOrder& order, const OnAnswer& on_answer,
                 const std::atomic<bool>& stop) override {
    // Longest first, so that no worker starts a long client when the others are
    // done.
    std::vector<uint32_t> clients(order.clients.begin(), order.clients.end());
    const auto examples = [&](uint32_t client) {
      return parts_.partition.of(client).size();
    };
    std::ranges::stable_sort(clients, std::greater(), examples);
    parts_.progress.steps_done = 0;
    parts_.progress.steps_total = std::transform_reduce(
        clients.begin(), clients.end(), uint64_t{0}, std::plus(),
        [&](uint32_t client) {
          return StepsPerEpoch(settings_.train, examples(client)) *
                 settings_.train.epochs;
        });

    std::mutex one_answer_at_a_time;
    try {
      parts_.workers.ForEach(clients.size(), [&](client::Bench& bench,
                                                 size_t item) {
        if (stop) return;
        Result<client::Answer> answer = Ask(clients[item], order, bench, stop);
        const std::lock_guard lock(one_answer_at_a_time);
        if (!stop) on_answer(clients[item], std::move(answer));
      });
    } catch (const std::exception& error) {
      return Error{ErrorCode::kUnavailable,
                   std::string("the threads failed: ") + error.what()};
    }
    if (stop) return Error{ErrorCode::kStopped, "stopped"};
    return Ok();
  }

  Status Commit(uint32_t round, std::span<const uint32_t> clients) override {
    parts_.states.Commit(round, clients);
    return Ok();
  }

 private:
  // Runs on a worker's thread. What a client throws costs nobody but itself.
  Result<client::Answer> Ask(uint32_t id, const RoundOrder& order,
                             client::Bench& bench,
                             const std::atomic<bool>& stop) {
    client::Client client(settings_, parts_.task, parts_.partition.of(id),
                          parts_.states, bench);
    Progress& progress = parts_.progress;
    const double deadline_s = parts_.config.rounds.deadline_s;
    const Stopwatch since_asked;
    const auto late = [&] {
      return deadline_s > 0 && since_asked.seconds() > deadline_s;
    };
    uint64_t steps_left = client.steps();
    const auto after_step = [&](size_t examples) {
      progress.examples_trained += examples;
      ++progress.steps_done;
      --steps_left;
      return !stop && !late();
    };
    const auto sleep = [&](double seconds) {
      for (const Stopwatch slept;
           !stop && !late() && slept.seconds() < seconds;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    };
    client::FaultyClient faulty(parts_.config.faults, settings_.seed, client,
                                sleep);
    const auto answer = [&]() -> Result<client::Answer> {
      try {
        return faulty.Answer({order.round, order.attempt, id}, order.broadcast,
                             after_step);
      } catch (const std::exception& error) {
        return Error{ErrorCode::kUnavailable, error.what()};
      }
    };
    Result<client::Answer> result = answer();
    progress.steps_done += steps_left;
    if (late()) {
      return Error{ErrorCode::kUnavailable, "has not answered in time"};
    }
    return result;
  }

  const ExecutorParts parts_;
  const client::Settings settings_;
};

}  // namespace

std::unique_ptr<Executor> MakeThreadExecutor(const ExecutorParts& parts) {
  return std::make_unique<ThreadExecutor>(parts);
}

}  // namespace fedmrn::sim
