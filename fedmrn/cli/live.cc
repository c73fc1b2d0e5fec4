#include "fedmrn/cli/live.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <utility>

namespace fedmrn::cli {
namespace {

// Where Ctrl-C leaves its word.
std::atomic<const std::span<sim::Progress>*> watched = nullptr;

void StopWatched(int signal) {
  if (const std::span<sim::Progress>* runs = watched) {
    for (sim::Progress& progress : *runs) progress.stop = true;
  }
  std::signal(signal, SIG_DFL);
}

}  // namespace

StopOnSignal::StopOnSignal(std::span<sim::Progress> runs) : runs_(runs) {
  watched = &runs_;
  old_int_ = std::signal(SIGINT, StopWatched);
  old_term_ = std::signal(SIGTERM, StopWatched);
}

StopOnSignal::~StopOnSignal() {
  std::signal(SIGINT, old_int_);
  std::signal(SIGTERM, old_term_);
  watched = nullptr;
}

Ticker::Ticker(std::function<void()> draw)
    : thread_([this, draw = std::move(draw)] {
        std::unique_lock lock(mutex_);
        while (!ended_changed_.wait_for(lock, std::chrono::milliseconds(200),
                                        [this] { return ended_; })) {
          draw();
        }
      }) {}

Ticker::~Ticker() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_one();
  thread_.join();
}

double Share(uint64_t done, uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(done) / static_cast<double>(all);
}

std::string Counted(uint64_t done, uint64_t all) {
  const std::string total = std::to_string(all);
  return fmt::format("{:>{}}/{}", done, total.size(), total);
}

std::string Bar(double share) {
  constexpr size_t kCells = 12;
  const auto full = static_cast<size_t>(share * kCells + 0.5);
  return "[" + std::string(full, '#') + std::string(kCells - full, '.') + "]";
}

}  // namespace fedmrn::cli
