#include "fedmrn/cli/watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/cli/live.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/results/summary.h"
#include "fedmrn/sim/ending.h"

namespace fedmrn::cli {
namespace {

using Clock = std::chrono::steady_clock;

// The fullest form of a line that fits the terminal, or the shortest on several
// lines. Once a shorter one was needed it stays, so that the line does not
// change its shape as digits come and go.
class FittingLine {
 public:
  std::vector<std::string> Of(std::span<const std::string> forms,
                              size_t columns) {
    if (columns != columns_) form_ = 0;
    columns_ = columns;
    form_ = std::max(form_, FirstThatFits(forms, columns));
    const std::string& line = forms[std::min(form_, forms.size() - 1)];
    if (Characters(line) < columns) return {line};
    return Folded(line, columns);
  }

 private:
  size_t columns_ = 0, form_ = 0;
};

// All output of a run, from its own thread and the watcher's.
class Screen {
 public:
  Screen(const sim::Config& config, const sim::Progress& progress,
         std::string label)
      : config_(config),
        progress_(progress),
        label_(std::move(label)),
        live_([this](const TerminalSize& size) { return Lines(size); }) {}

  void Log(const std::string& message) { live_.Print(label_ + message); }

  // Jobs of many ranks have no terminal.
  void KeepInLogs() { live_.KeepInLogs(); }

  // The rounds so far; at first those of a resumed run.
  void Rounds(std::span<const results::RoundRow> rows) {
    const std::lock_guard lock(mutex_);
    summary_ = results::SummaryOf(rows);
    rounds_ = rows.size();
    if (!begun_) {
      begun_ = rate_since_ = Clock::now();
      rounds_before_ = rounds_;
      if (const auto ending = sim::EndingOf(config_.rounds, rows)) {
        live_.Print(label_ + "has ended already: " + ending->why);
      } else if (!rows.empty()) {
        live_.Print(
            fmt::format("{}goes on after round {}", label_, rows.back().round));
      }
      return;
    }
    const results::RoundRow& row = rows.back();
    std::string score, loss;
    const char* metric = progress_.metric;
    if (!std::isnan(row.score)) {
      score = fmt::format("{:>5}{}{}", ScoreNumber(metric, row.score),
                          report::UnitOf(metric).unit, MeanIouText(row));
      loss = fmt::format("  loss {:.4f}", row.loss);
      if (!std::isnan(row.client_score)) {
        loss += fmt::format("  clients {}, personal {}",
                            ScoreText(metric, row.client_score),
                            ScoreText(metric, row.personal_score));
      }
    }
    const std::string uploaded =
        fmt::format("  up {}", report::Megabytes(summary_.totals.uplink_bytes));
    const std::string short_head =
        Head(row.round) + (score.empty() ? "" : "  " + score) + loss + uploaded;
    const std::string head =
        Head(row.round) +
        (score.empty() ? "" : fmt::format("  {} {}", metric, score)) + loss +
        uploaded;
    std::string tail = fmt::format("  {} s", report::Decimals(row.wall_s, 1));
    if (const uint32_t ranks = progress_.ranks) {
      const uint64_t examples = progress_.examples_trained;
      tail += fmt::format("  {} ranks  {} samples/s", ranks,
                          report::Grouped(static_cast<uint64_t>(
                              static_cast<double>(examples - row_examples_) /
                              (row.wall_s - row.eval_s))));
      row_examples_ = examples;
    }
    if (row.dropped > 0) tail += fmt::format("  {} dropped", row.dropped);
    std::string left;
    if (const auto seconds = SecondsLeft(0);
        seconds && row.round < config_.rounds.count) {
      left = "  left " + report::Duration(*seconds);
    }
    const std::array<std::string, 4> forms = {
        head + fmt::format(" ({:.3f} bits/param)", row.uplink_bits_per_param) +
            tail + left,
        head + tail + left, head + tail, short_head + tail};
    const std::optional<TerminalSize> size = TerminalOf(STDERR_FILENO);
    live_.Print(
        size ? fmt::format(
                   "{}", fmt::join(round_line_.Of(forms, size->columns), "\n"))
             : forms[0]);
  }

 private:
  std::vector<std::string> Lines(const TerminalSize& size) {
    const std::lock_guard lock(mutex_);
    return live_line_.Of(LiveForms(), size.columns);
  }

  std::string Head(uint32_t round) const {
    return label_ + "round " + Counted(round, config_.rounds.count);
  }

  std::vector<std::string> LiveForms() {
    const sim::Phase phase = progress_.phase;
    const uint32_t round = progress_.round;
    if (round == 0 || phase == sim::Phase::kLoading) {
      return {fmt::format("{}loading {}", label_, config_.data.name)};
    }
    if (round <= rounds_) return {label_ + "saving the results"};
    double share = 1;  // of the round; all but the steps takes little time
    std::string work = "adding up", short_work = work, bar;
    if (phase == sim::Phase::kTraining) {
      const uint64_t done = progress_.steps_done, all = progress_.steps_total;
      share = Share(done, all);
      short_work = Counted(done, all);
      work = "step " + short_work;
      bar = " " + Bar(share);
      if (const uint32_t ranks = progress_.ranks) {
        work = fmt::format("{} ranks, {} clients under way, {}", ranks,
                           progress_.clients_under_way.load(), work);
      }
    } else if (phase == sim::Phase::kEvaluating) {
      const uint64_t done = progress_.tests_done, all = progress_.tests_total;
      short_work = fmt::format("test {:2.0f} %", 100 * Share(done, all));
      work = "test " + Counted(done, all);
      bar = " " + Bar(Share(done, all));
    }
    const results::RoundRow& latest = summary_.last;
    const char* metric = progress_.metric;
    const std::string score = ScoreText(metric, latest.score);
    const auto loss = [&](int digits) {
      return summary_.tested() ? fmt::format("{:.{}f}", latest.loss, digits)
                               : "-";
    };
    const uint64_t uplink = summary_.totals.uplink_bytes;
    const std::string head = Head(round);
    // Nothing while none were trained yet.
    const uint64_t samples = SamplesPerSecond();
    const auto rate = [&](const char* unit) {
      return samples == 0 ? "" : "  " + report::Grouped(samples) + unit;
    };
    const std::optional<double> left = SecondsLeft(share);
    const std::string tail =
        fmt::format("  {} {}  loss {}  up {}{}  left {}", metric, score,
                    loss(4), report::Megabytes(uplink), rate(" samples/s"),
                    left ? report::Duration(*left) : "?");
    return {head + "  " + work + bar + tail, head + "  " + work + tail,
            fmt::format("{} {}  {}  loss {}  up {} MB{}  left {}", head,
                        short_work, score, loss(2),
                        report::Decimals(static_cast<double>(uplink) / 1e6, 1),
                        rate("/s"), left ? ClockTime(*left) : "?")};
  }

  double Elapsed() const {
    return begun_
               ? std::chrono::duration<double>(Clock::now() - *begun_).count()
               : 0;
  }

  // Counts training alone, over a few seconds: a mean since the start hides
  // what happens now.
  uint64_t SamplesPerSecond() {
    const auto now = Clock::now();
    const uint64_t examples = progress_.examples_trained;
    if (progress_.phase != sim::Phase::kTraining) {
      rate_since_ = now;
      rate_examples_ = examples;
      // What it was in training, which may have been too short for a mean.
      return rate_ > 0 ? static_cast<uint64_t>(rate_) : first_rate_;
    }
    const double seconds =
        std::chrono::duration<double>(now - rate_since_).count();
    if (seconds > 0 && (rate_ == 0 || seconds > 2)) {
      const double rate =
          static_cast<double>(examples - rate_examples_) / seconds;
      if (seconds > 2) {
        rate_ = rate;
        rate_since_ = now;
        rate_examples_ = examples;
      }
      return first_rate_ = static_cast<uint64_t>(rate);
    }
    return static_cast<uint64_t>(rate_);
  }

  // By the pace since the program started; the round at work counts by its
  // share. Nothing while it is too early to tell.
  std::optional<double> SecondsLeft(double share) const {
    const double done = static_cast<double>(rounds_ - rounds_before_) + share;
    if (done <= 0 || Elapsed() < 1) return std::nullopt;
    const double left =
        static_cast<double>(config_.rounds.count - rounds_) - share;
    return std::max(0.0, Elapsed() / done * left);
  }

  // "3:20", "1:05:00": shorter than Duration.
  static std::string ClockTime(double seconds) {
    const auto s = static_cast<uint64_t>(seconds + 0.5);
    if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
    return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  }

  const sim::Config& config_;
  const sim::Progress& progress_;
  const std::string label_;
  std::mutex mutex_;  // of all below but live_
  FittingLine live_line_, round_line_;
  std::optional<Clock::time_point> begun_;
  size_t rounds_ = 0, rounds_before_ = 0;
  results::Summary summary_;
  Clock::time_point rate_since_ = Clock::now();
  uint64_t rate_examples_ = 0, row_examples_ = 0;
  double rate_ = 0;
  uint64_t first_rate_ = 0;  // of less than two seconds
  LiveLines live_;           // the last: it calls Lines as long as it lives
};

}  // namespace

std::string MeanIouText(const results::RoundRow& row) {
  if (std::isnan(row.mean_iou)) return "";
  return fmt::format("  mean IoU {:.2f} %", 100 * row.mean_iou);
}

Result<sim::RunResult> RunWatched(const sim::Config& config,
                                  sim::RunOptions options,
                                  const std::string& label) {
  sim::Progress progress;
  Screen screen(config, progress, label);
  options.progress = &progress;
  options.on_round = [&](std::span<const results::RoundRow> rows) {
    screen.Rounds(rows);
  };
  options.log = [&](const std::string& message) { screen.Log(message); };

  if (options.team != nullptr && options.team->size() > 1) screen.KeepInLogs();

  const StopOnSignal stop({&progress, 1});
  return sim::Run(config, options);
}

}  // namespace fedmrn::cli
