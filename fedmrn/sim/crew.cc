#include "fedmrn/sim/crew.h"

#include <exception>
#include <utility>

#include "fedmrn/base/failure.h"

namespace fedmrn::sim {

Crew::Crew(Workers& workers)
    : thread_([this, &workers] {
        try {
          workers.ForEach(
              workers.count(),
              [this](client::Bench& bench, size_t) { WorkUntilEnded(bench); });
        } catch (const std::exception& error) {
          const std::lock_guard lock(mutex_);
          failure_ = ErrorOf(error, ErrorCode::kFailed).message;
        }
      }) {}

Crew::~Crew() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Crew::Give(Job job) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(job));
  }
  changed_.notify_one();
}

std::optional<Crew::Done> Crew::Take() {
  const std::lock_guard lock(mutex_);
  if (done_.empty()) return std::nullopt;
  Done done = std::move(done_.front());
  done_.pop_front();
  return done;
}

std::string Crew::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Crew::WorkUntilEnded(client::Bench& bench) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
    if (ended_) return;
    const Job job = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::optional<Done> done;
    std::string failure;
    try {
      done = job(bench);
    } catch (const std::exception& error) {  // memory, above all
      failure = ErrorOf(error, ErrorCode::kFailed).message;
    }
    lock.lock();
    if (done) {
      done_.push_back(*std::move(done));
    } else {
      failure_ = failure;
    }
  }
}

}  // namespace fedmrn::sim
