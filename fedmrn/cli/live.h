// What the live views of one run and of many have in common.
#pragma once

#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "fedmrn/sim/progress.h"

namespace fedmrn::cli {

// The exit code after a stop by Ctrl-C, as shells have it.
inline constexpr int kExitStopped = 130;

// While it lives, Ctrl-C (or SIGTERM) sets `stop` in all of `runs`; a second
// one ends the program at once. One at a time.
class StopOnSignal {
 public:
  explicit StopOnSignal(std::span<sim::Progress> runs);
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  using Handler = void (*)(int);
  std::span<sim::Progress> runs_;
  Handler old_int_, old_term_;
};

// Calls `draw` five times a second, from a thread of its own, while it lives.
class Ticker {
 public:
  explicit Ticker(std::function<void()> draw);
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
  std::thread thread_;
};

// 0 if there is nothing to do.
double Share(uint64_t done, uint64_t all);

// " 7/300", as wide from the first to the last.
std::string Counted(uint64_t done, uint64_t all);

// "[####........]".
std::string Bar(double share);

}  // namespace fedmrn::cli
