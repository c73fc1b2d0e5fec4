// What people see of work that goes on, and how they stop it.
#pragma once

#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fedmrn/cli/text.h"
#include "fedmrn/sim/progress.h"

namespace fedmrn::cli {

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

// The exit code of a verb that was stopped so: kExitStopped after Ctrl-C, 3
// after SIGTERM, such as at the end of a job's time.
int StoppedExitCode();

// Text on stderr: lines that stay and, on a terminal, live ones below them that
// are drawn anew five times a second while it lives. Thread-safe. One at a
// time.
class LiveLines {
 public:
  // Gives the live lines, if there is something to say; called by a thread of
  // its own. What does not fit the terminal is cut off.
  using Lines = std::function<std::vector<std::string>(const TerminalSize&)>;

  explicit LiveLines(Lines lines);
  ~LiveLines();  // nothing stays of the live lines
  LiveLines(const LiveLines&) = delete;
  LiveLines& operator=(const LiveLines&) = delete;

  bool on_terminal() const { return on_terminal_; }

  // Also where there is no terminal: a live line stays now and then when
  // nothing else was printed, as in the log of a job. To be called once.
  void KeepInLogs();

  // A line that stays.
  void Print(std::string_view line);

 private:
  void DrawUntilEnded();
  void KeepUntilEnded();
  void Draw(const std::vector<std::string>& lines, size_t columns);
  void Erase();

  const Lines lines_;
  const bool on_terminal_;
  std::mutex mutex_;
  size_t drawn_ = 0;  // lines; the cursor is at the end of the last
  bool ended_ = false, printed_ = false;
  std::condition_variable ended_changed_;
  std::thread thread_;  // on a terminal, or in logs
};

// The first form from `from` on, as they get shorter, that leaves the last of
// `columns` free, which a terminal may need for itself; else the last form.
size_t FirstThatFits(std::span<const std::string> forms, size_t columns,
                     size_t from = 0);

// A line whose pieces stand two spaces apart, as lines that leave the last of
// `columns` free: nothing of it is lost as long as each piece fits.
std::vector<std::string> Folded(std::string_view line, size_t columns);

// 0 if there is nothing to do, at most 1 whatever other threads do meanwhile.
double Share(uint64_t done, uint64_t all);

// " 7/300", as wide from the first to the last.
std::string Counted(uint64_t done, uint64_t all);

// "[####........]".
std::string Bar(double share);

}  // namespace fedmrn::cli
