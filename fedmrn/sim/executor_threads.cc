// Clients as threads of this process.
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "fedmrn/base/failure.h"
#include "fedmrn/sim/ask.h"
#include "fedmrn/sim/executor.h"

namespace fedmrn::sim {
namespace {

class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(const ExecutorParts& parts)
      : parts_(parts), ask_(AskOf(parts)) {}

  Status Execute(const RoundOrder& order, const OnAnswer& on_answer,
                 const std::atomic<bool>& stop) override {
    const std::vector<uint32_t> clients = LongestFirst(parts_, order);
    std::mutex one_answer_at_a_time;
    Status machine = Ok();
    std::atomic<bool> failed = false;
    try {
      parts_.workers.ForEach(
          clients.size(), [&](client::Bench& bench, size_t item) {
            if (stop || failed) return;
            Result<client::Answer> answer =
                ask_(clients[item], order, parts_.states, bench, stop);
            const std::lock_guard lock(one_answer_at_a_time);
            if (stop || failed) return;
            machine = CheckMachine(order, clients[item], answer);
            failed = !machine;
            if (machine) on_answer(clients[item], std::move(answer));
          });
    } catch (const std::exception& error) {
      return Error{
          ErrorCode::kFailed,
          "the threads failed: " + ErrorOf(error, ErrorCode::kFailed).message};
    }
    if (failed) return machine;
    if (stop) return Error{ErrorCode::kStopped, "stopped"};
    return Ok();
  }

  Status Commit(uint32_t round, std::span<const uint32_t> clients) override {
    parts_.states.Commit(round, clients);
    return Ok();
  }

 private:
  const ExecutorParts parts_;
  const Ask ask_;
};

class OneProcess final : public Team {
 public:
  uint32_t size() const override { return 1; }
  bool leads() const override { return true; }
  Result<std::unique_ptr<Executor>> MakeExecutor(
      const ExecutorParts& parts) override {
    return MakeThreadExecutor(parts);
  }
  // There is nobody to follow.
  Status Follow(const ExecutorParts&) override { return Ok(); }
  void Refuse(const Error&) override {}
};

}  // namespace

std::unique_ptr<Executor> MakeThreadExecutor(const ExecutorParts& parts) {
  return std::make_unique<ThreadExecutor>(parts);
}

const ExecutorRow kThreadExecutor = {
    "threads", "the cores of this machine", [] { return true; },
    []() -> Result<std::unique_ptr<Team>> {
      return std::unique_ptr<Team>(std::make_unique<OneProcess>());
    }};

}  // namespace fedmrn::sim
