#include "fedmrn/cli/live.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "fedmrn/cli/exit.h"

namespace fedmrn::cli {
namespace {

// Where Ctrl-C leaves its word.
std::atomic<const std::span<sim::Progress>*> watched = nullptr;
std::atomic<int> last_signal = 0;

// SIGTERM stopped the verb, such as at the end of a job's time.
constexpr int kExitTerminated = 3;

// Without a terminal: longer than most rounds, so that logs stay short.
constexpr auto kBetweenKept = std::chrono::seconds(20);

// Only what a signal's handler may do.
void StopWatched(int signal) {
  if (last_signal.exchange(signal) == signal) {
    constexpr std::string_view kWord =
        "\nended at once; what was saved before is whole\n";
    (void)!write(STDERR_FILENO, kWord.data(), kWord.size());
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  if (const std::span<sim::Progress>* runs = watched) {
    for (sim::Progress& progress : *runs) progress.stop = true;
  }
}

}  // namespace

StopOnSignal::StopOnSignal(std::span<sim::Progress> runs) : runs_(runs) {
  last_signal = 0;
  watched = &runs_;
  old_int_ = std::signal(SIGINT, StopWatched);
  old_term_ = std::signal(SIGTERM, StopWatched);
}

StopOnSignal::~StopOnSignal() {
  std::signal(SIGINT, old_int_);
  std::signal(SIGTERM, old_term_);
  watched = nullptr;
}

int StoppedExitCode() {
  return last_signal == SIGINT ? kExitStopped : kExitTerminated;
}

LiveLines::LiveLines(Lines lines)
    : lines_(std::move(lines)),
      on_terminal_(TerminalOf(STDERR_FILENO).has_value()) {
  if (on_terminal_) thread_ = std::thread([this] { DrawUntilEnded(); });
}

LiveLines::~LiveLines() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  Erase();
}

void LiveLines::Print(std::string_view line) {
  const std::lock_guard lock(mutex_);
  Erase();
  fmt::print(stderr, "{}\n", line);
  printed_ = true;
}

void LiveLines::KeepInLogs() {
  if (!on_terminal_) thread_ = std::thread([this] { KeepUntilEnded(); });
}

void LiveLines::KeepUntilEnded() {
  std::unique_lock lock(mutex_);
  while (
      !ended_changed_.wait_for(lock, kBetweenKept, [this] { return ended_; })) {
    if (std::exchange(printed_, false)) continue;
    lock.unlock();  // as in DrawUntilEnded
    TerminalSize wide;
    wide.columns = 1000;  // nothing needs to be left out
    for (const std::string& line : lines_(wide))
      fmt::print(stderr, "{}\n", line);
    lock.lock();
  }
}

void LiveLines::DrawUntilEnded() {
  std::unique_lock lock(mutex_);
  while (!ended_changed_.wait_for(lock, std::chrono::milliseconds(200),
                                  [this] { return ended_; })) {
    // Without the lock: those who tell what there is to draw may be waiting to
    // print.
    lock.unlock();
    const TerminalSize size =
        TerminalOf(STDERR_FILENO).value_or(TerminalSize());
    const std::vector<std::string> lines = lines_(size);
    lock.lock();
    if (!ended_) Draw(lines, size.columns);
  }
}

void LiveLines::Draw(const std::vector<std::string>& lines, size_t columns) {
  if (lines.empty()) return Erase();
  // In one write, and erasing only what the new lines leave over: otherwise it
  // would flicker. The last column stays free: a full line would wrap.
  std::string text = drawn_ > 1 ? fmt::format("\x1b[{}A", drawn_ - 1) : "";
  for (const std::string& line : lines) {
    text += (&line == &lines.front() ? "\r" : "\n") + CutTo(line, columns - 1) +
            "\x1b[K";
  }
  if (lines.size() < drawn_) text += "\x1b[J";
  fmt::print(stderr, "{}", text);
  drawn_ = lines.size();
}

void LiveLines::Erase() {
  if (drawn_ > 1) fmt::print(stderr, "\x1b[{}A", drawn_ - 1);
  if (drawn_ > 0) fmt::print(stderr, "\r\x1b[J");
  drawn_ = 0;
}

size_t FirstThatFits(std::span<const std::string> forms, size_t columns,
                     size_t from) {
  size_t form = from;
  while (form + 1 < forms.size() && Characters(forms[form]) >= columns) ++form;
  return std::min(form, forms.size() - 1);
}

std::vector<std::string> Folded(std::string_view line, size_t columns) {
  std::vector<std::string> lines;
  while (!line.empty()) {
    const size_t end = std::min(line.find("  "), line.size());
    const std::string_view piece = line.substr(0, end);
    line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
    if (lines.empty()) {
      lines.emplace_back(piece);
    } else if (Characters(lines.back()) + 2 + Characters(piece) < columns) {
      (lines.back() += "  ").append(piece);
    } else {
      lines.push_back("  " + std::string(piece));
    }
  }
  return lines;
}

double Share(uint64_t done, uint64_t all) {
  return all == 0
             ? 0
             : std::min(static_cast<double>(done) / static_cast<double>(all),
                        1.0);
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
