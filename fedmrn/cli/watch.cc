#include "fedmrn/cli/watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include "fedmrn/cli/text.h"

namespace fedmrn::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Where Ctrl-C leaves its word; a second one ends the program at once.
std::atomic<Progress*> watched = nullptr;

void StopWatched(int signal) {
  if (Progress* progress = watched) progress->stop = true;
  std::signal(signal, SIG_DFL);
}

// All output of a run, from its own thread and the watcher's.
class Screen {
 public:
  Screen(const Config& config, const Progress& progress, std::string label)
      : config_(config), progress_(progress), label_(std::move(label)) {}

  bool live() const { return live_; }

  void Log(const std::string& message) {
    const std::lock_guard lock(mutex_);
    Clear();
    fmt::print(stderr, "{}{}\n", label_, message);
  }

  // The rounds so far; at first those of a resumed run.
  void Rounds(std::span<const RoundRow> rows) {
    const std::lock_guard lock(mutex_);
    Clear();
    const bool first = !begun_;
    if (first) {
      begun_ = Clock::now();
      rounds_before_ = rows.size();
    }
    uplink_ = 0;
    for (const RoundRow& row : rows) uplink_ += row.uplink_bytes;
    rounds_ = rows.size();
    for (const RoundRow& row : rows) {
      if (!std::isnan(row.accuracy)) latest_ = row;
    }
    if (first) {
      if (!rows.empty()) {
        fmt::print(stderr, "{}goes on after round {}\n", label_,
                   rows.back().round);
      }
      return;
    }
    const RoundRow& row = rows.back();
    std::string line = fmt::format("{}round {:>{}}/{}", label_, row.round,
                                   Digits(), config_.rounds.count);
    if (!std::isnan(row.accuracy)) {
      line += fmt::format("  accuracy {:.2f} %  loss {:.4f}",
                          100 * row.accuracy, row.loss);
    }
    line +=
        fmt::format("  up {} ({:.3f} bits/param)  {:.1f} s", Megabytes(uplink_),
                    row.uplink_bits_per_param, row.wall_s);
    if (row.dropped > 0) line += fmt::format("  {} dropped", row.dropped);
    if (row.round < config_.rounds.count) line += "  left " + TimeLeft(0);
    fmt::print(stderr, "{}\n", line);
  }

  void Draw() {
    const std::lock_guard lock(mutex_);
    const uint32_t round = progress_.round;
    if (round == 0) return;
    std::string line = fmt::format("{}round {:>{}}/{}  ", label_, round,
                                   Digits(), config_.rounds.count);
    double share = 1;
    switch (progress_.phase.load()) {
      case Phase::kLoading:
        line += "loading";
        break;
      case Phase::kTraining:
        share = Share(progress_.steps_done, progress_.steps_total);
        line += fmt::format("step {}/{} {}", progress_.steps_done.load(),
                            progress_.steps_total.load(), Bar(share));
        break;
      case Phase::kAggregating:
        line += "aggregating";
        break;
      case Phase::kEvaluating:
        line += fmt::format("testing {}", Bar(Share(progress_.tests_done,
                                                    progress_.tests_total)));
        break;
    }
    if (!std::isnan(latest_.accuracy)) {
      line += fmt::format("  accuracy {:.2f} %  loss {:.4f}",
                          100 * latest_.accuracy, latest_.loss);
    }
    line += fmt::format("  up {}  {} samples/s  left {}", Megabytes(uplink_),
                        Grouped(SamplesPerSecond()), TimeLeft(share));
    fmt::print(stderr, "\r\x1b[K{}", Shortened(line));
    std::fflush(stderr);
    drawn_ = true;
  }

  void Clear() {
    if (!drawn_) return;
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
    drawn_ = false;
  }

 private:
  static double Share(uint64_t done, uint64_t total) {
    return total == 0 ? 0
                      : static_cast<double>(done) / static_cast<double>(total);
  }

  static std::string Bar(double share) {
    constexpr int kCells = 12;
    const int full = static_cast<int>(share * kCells + 0.5);
    std::string bar = "[";
    for (int i = 0; i < kCells; ++i) bar += i < full ? '#' : '.';
    return bar + "]";
  }

  size_t Digits() const { return std::to_string(config_.rounds.count).size(); }

  // As wide as the terminal: a longer line would scroll.
  static std::string Shortened(std::string line) {
    const size_t width = TerminalWidth();
    if (line.size() >= width) line.resize(width - 1);
    return line;
  }

  double Elapsed() const {
    return begun_
               ? std::chrono::duration<double>(Clock::now() - *begun_).count()
               : 0;
  }

  uint64_t SamplesPerSecond() {
    // Over a few seconds: the mean since the start hides what happens now.
    const auto now = Clock::now();
    const uint64_t examples = progress_.examples_trained;
    const double seconds =
        std::chrono::duration<double>(now - rate_since_).count();
    if (progress_.phase == Phase::kTraining && seconds > 2) {
      if (examples > rate_examples_) {
        rate_ = static_cast<double>(examples - rate_examples_) / seconds;
      }
      rate_since_ = now;
      rate_examples_ = examples;
    }
    if (rate_ == 0 && Elapsed() > 0) {
      return static_cast<uint64_t>(static_cast<double>(examples) / Elapsed());
    }
    return static_cast<uint64_t>(rate_);
  }

  std::string TimeLeft(double share) const {
    const double done = static_cast<double>(rounds_ - rounds_before_) + share;
    if (done <= 0.02) return "?";
    const double left =
        static_cast<double>(config_.rounds.count - rounds_) - share;
    return Duration(std::max(0.0, Elapsed() / done * left));
  }

  const Config& config_;
  const Progress& progress_;
  const std::string label_;
  const bool live_ = isatty(STDERR_FILENO) != 0;
  std::mutex mutex_;
  bool drawn_ = false;
  std::optional<Clock::time_point> begun_;
  size_t rounds_ = 0, rounds_before_ = 0;
  uint64_t uplink_ = 0;
  RoundRow latest_;
  Clock::time_point rate_since_ = Clock::now();
  uint64_t rate_examples_ = 0;
  double rate_ = 0;
};

}  // namespace

Result<RunResult> RunWatched(const Config& config, RunOptions options,
                             const std::string& label) {
  Progress progress;
  Screen screen(config, progress, label);
  options.progress = &progress;
  options.on_round = [&](std::span<const RoundRow> rows) {
    screen.Rounds(rows);
  };
  options.log = [&](const std::string& message) { screen.Log(message); };

  watched = &progress;
  const auto old_int = std::signal(SIGINT, StopWatched);
  const auto old_term = std::signal(SIGTERM, StopWatched);
  std::mutex mutex;
  std::condition_variable finished_changed;
  bool finished = false;
  std::thread watcher;
  if (screen.live()) {
    watcher = std::thread([&] {
      std::unique_lock lock(mutex);
      while (!finished_changed.wait_for(lock, std::chrono::milliseconds(200),
                                        [&] { return finished; })) {
        screen.Draw();
      }
    });
  }
  const auto end = [&] {
    {
      const std::lock_guard lock(mutex);
      finished = true;
    }
    finished_changed.notify_one();
    if (watcher.joinable()) watcher.join();
    watched = nullptr;
    std::signal(SIGINT, old_int);
    std::signal(SIGTERM, old_term);
    screen.Clear();
  };
  try {
    Result<RunResult> result = Run(config, options);
    end();
    return result;
  } catch (...) {
    end();
    throw;
  }
}

}  // namespace fedmrn::cli
