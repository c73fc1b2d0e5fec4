#include "fedmrn/sim/ask.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include "fedmrn/base/failure.h"
#include "fedmrn/base/stopwatch.h"
#include "fedmrn/client/faults.h"

namespace fedmrn::sim {
namespace {

Result<client::Answer> AskClient(const ExecutorParts& parts,
                                 const client::Settings& settings, uint32_t id,
                                 const RoundOrder& order,
                                 client::States& states, client::Bench& bench,
                                 const std::atomic<bool>& stop) {
  client::Client client(settings, parts.task, parts.partition.of(id), states,
                        bench);
  Progress& progress = parts.progress;
  const double deadline_s = parts.config.rounds.deadline_s;
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
  client::FaultyClient faulty(parts.config.faults, settings.seed, client,
                              sleep);
  const auto answer = [&]() -> Result<client::Answer> {
    try {
      return faulty.Answer({order.round, order.attempt, id}, order.broadcast,
                           after_step);
    } catch (const std::exception& error) {
      return ErrorOf(error, ErrorCode::kUnavailable);
    }
  };
  Result<client::Answer> result = answer();
  progress.steps_done += steps_left;
  if (late() && (result || result.error().code != ErrorCode::kFailed)) {
    return Error{ErrorCode::kUnavailable, "has not answered in time"};
  }
  return result;
}

}  // namespace

Ask AskOf(const ExecutorParts& parts) {
  if (parts.ask) return parts.ask;
  const Config& config = parts.config;
  const client::Settings settings = {RunId(config), config.seed,
                                     train::FindMethod(config.method.name),
                                     config.method, config.train};
  return [parts, settings](uint32_t client, const RoundOrder& order,
                           client::States& states, client::Bench& bench,
                           const std::atomic<bool>& stop) {
    return AskClient(parts, settings, client, order, states, bench, stop);
  };
}

Status CheckMachine(const RoundOrder& order, uint32_t client,
                    const Result<client::Answer>& answer) {
  if (answer || answer.error().code != ErrorCode::kFailed) return Ok();
  return Error{ErrorCode::kFailed, "round " + std::to_string(order.round) +
                                       ", client " + std::to_string(client) +
                                       ": " + answer.error().ToString()};
}

std::vector<uint32_t> LongestFirst(const ExecutorParts& parts,
                                   const RoundOrder& order) {
  std::vector<uint32_t> clients(order.clients.begin(), order.clients.end());
  const auto examples = [&](uint32_t client) {
    return parts.partition.of(client).size();
  };
  std::ranges::stable_sort(clients, std::greater(), examples);
  const train::TrainSettings& train = parts.config.train;
  parts.progress.steps_done = 0;
  parts.progress.steps_total = std::transform_reduce(
      clients.begin(), clients.end(), uint64_t{0}, std::plus(),
      [&](uint32_t client) {
        return StepsPerEpoch(train, examples(client)) * train.epochs;
      });
  return clients;
}

}  // namespace fedmrn::sim
