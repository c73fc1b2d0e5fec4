#include "fedmrn/cli/watch_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "fedmrn/cli/text.h"
#include "fedmrn/results/summary.h"
#include "fedmrn/sim/workers.h"

namespace fedmrn::cli {
namespace {

using Clock = std::chrono::steady_clock;

// What a round costs, in units that runs of one grid have in common.
double WorkOfRound(const sim::Config& config) {
  return static_cast<double>(config.rounds.clients_per_round) *
         static_cast<double>(config.train.epochs);
}

// All output of the runs, from their threads and the ticker's.
class GridScreen {
 public:
  GridScreen(const sim::Grid& grid, std::span<const sim::GridOutcome> outcomes,
             std::span<const sim::Progress> progress)
      : grid_(grid),
        progress_(progress),
        live_([this](const TerminalSize& size) { return Lines(size); }) {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < grid.runs.size(); ++i) {
      View view;
      view.rounds = view.rounds_before = outcomes[i].rows.size();
      if (outcomes[i].state == sim::RunState::kFinished) {
        view.state = View::kEnded;
        ++done_;
      } else {
        name_width_ = std::max(name_width_, grid.runs[i].name.size());
      }
      runs_.push_back(view);
    }
  }

  void Started(size_t run) {
    const std::lock_guard lock(mutex_);
    runs_[run].state = View::kRunning;
    if (live_.on_terminal()) return;
    const size_t before = runs_[run].rounds_before;
    Print(run, before == 0 ? "started"
                           : fmt::format("goes on after round {}", before));
  }

  void Rounds(size_t run, std::span<const results::RoundRow> rows) {
    const std::lock_guard lock(mutex_);
    runs_[run].rounds = rows.size();
    runs_[run].summary = results::SummaryOf(rows);
  }

  void Ended(size_t run, const sim::GridOutcome& outcome) {
    const std::lock_guard lock(mutex_);
    runs_[run].state = View::kEnded;
    if (outcome.state == sim::RunState::kFinished) {
      ++done_;
      const results::Summary summary = results::SummaryOf(outcome.rows);
      const results::RoundRow& totals = summary.totals;
      std::string line =
          fmt::format("{} {}, best {}, up {}, {}", outcome.metric,
                      ScoreText(outcome.metric, summary.last.score),
                      ScoreText(outcome.metric, summary.best.score),
                      report::Megabytes(totals.uplink_bytes),
                      report::Duration(totals.wall_s));
      if (totals.dropped > 0) {
        line += fmt::format(", {} dropped", report::Grouped(totals.dropped));
      }
      if (!live_.on_terminal()) {
        line += fmt::format(" ({} of {} done)", done_, runs_.size());
      }
      Print(run, line);
    } else if (outcome.state == sim::RunState::kFailed) {
      ++failed_;
      Print(run, "failed: " + outcome.error);
    }
  }

  // The first of a run: where one client fails, a thousand may follow, and
  // the end of the run tells how many.
  void Log(size_t run, const std::string& message) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(runs_[run].logged, true)) Print(run, message);
  }

 private:
  struct View {
    enum { kWaiting, kRunning, kEnded } state = kWaiting;
    size_t rounds = 0, rounds_before = 0;  // before: of an earlier program
    results::Summary summary;
    bool logged = false;
  };

  void Print(size_t run, const std::string& message) {
    live_.Print(FitTo(STDERR_FILENO,
                      fmt::format("{}: {}", grid_.runs[run].name, message)));
  }

  // How many rounds of a run are done, counting the one at work by its share.
  double RoundsDone(size_t run) const {
    const View& view = runs_[run];
    const sim::Progress& progress = progress_[run];
    if (view.state != View::kRunning || progress.round <= view.rounds) {
      return static_cast<double>(view.rounds);
    }
    const double share = progress.phase == sim::Phase::kTraining
                             ? Share(progress.steps_done, progress.steps_total)
                             : 1;  // all but the steps takes little time
    return static_cast<double>(view.rounds) + share;
  }

  std::vector<std::string> Lines(const TerminalSize& size) {
    const std::lock_guard lock(mutex_);
    const size_t most = size.rows - 2;
    std::vector<std::string> lines;
    const auto add = [&](const std::string& line) {
      std::ranges::copy(Folded(line, size.columns), std::back_inserter(lines));
    };
    size_t running = 0;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].state != View::kRunning) continue;
      ++running;
      if (lines.size() < most) add(RunLine(i, size.columns));
    }
    add(LastLine(running));
    return lines;
  }

  // The fullest form that fits.
  std::string RunLine(size_t run, size_t columns) const {
    const sim::Config& config = grid_.runs[run].config;
    const results::Summary& summary = runs_[run].summary;
    const std::string name =
        fmt::format("{:<{}}", grid_.runs[run].name, name_width_);
    const uint32_t round = progress_[run].round;
    if (round == 0) return name + "  loading " + config.data.name;
    const std::string rounds = "  round " + Counted(round, config.rounds.count);
    const std::string bar = " " + Bar(RoundsDone(run) / config.rounds.count);
    const char* metric = progress_[run].metric;
    const std::string score =
        fmt::format("  {:>5}{}", ScoreNumber(metric, summary.last.score),
                    report::UnitOf(metric).unit);
    const std::string upload =
        fmt::format("  {:>12}", report::Megabytes(summary.totals.uplink_bytes));
    const std::array<std::string, 3> forms = {
        name + rounds + bar + score + upload, name + rounds + score + upload,
        name + rounds + score};
    return forms[FirstThatFits(forms, columns)];
  }

  std::string LastLine(size_t running) const {
    std::string line = fmt::format("{} of {} done, {} running, {} waiting",
                                   done_, runs_.size(), running,
                                   runs_.size() - done_ - failed_ - running);
    if (failed_ > 0) line += fmt::format(", {} failed", failed_);
    if (const std::optional<double> seconds = SecondsLeft()) {
      line += ", about " + AboutDuration(*seconds) + " left";
    }
    return line;
  }

  // By the pace since the program started; nothing while it is too early to
  // tell.
  std::optional<double> SecondsLeft() const {
    double done = 0, left = 0;
    for (size_t i = 0; i < runs_.size(); ++i) {
      const sim::Config& config = grid_.runs[i].config;
      const double rounds = RoundsDone(i), work = WorkOfRound(config);
      done += work * (rounds - static_cast<double>(runs_[i].rounds_before));
      if (runs_[i].state != View::kEnded) {
        left += work * (config.rounds.count - rounds);
      }
    }
    const double elapsed =
        std::chrono::duration<double>(Clock::now() - begun_).count();
    if (done <= 0 || left <= 0 || elapsed < 2) return std::nullopt;
    return elapsed / done * left;
  }

  const sim::Grid& grid_;
  const std::span<const sim::Progress> progress_;
  const Clock::time_point begun_ = Clock::now();
  std::mutex mutex_;  // of all below but live_
  std::vector<View> runs_;
  size_t name_width_ = 0;
  size_t done_ = 0, failed_ = 0;
  LiveLines live_;  // the last: it calls Lines as long as it lives
};

}  // namespace

Result<GridResult> RunGridWatched(const sim::Grid& grid, const std::string& out,
                                  uint32_t jobs, bool partial) {
  Result<std::vector<sim::GridOutcome>> found = sim::FindRuns(grid, out);
  if (!found) return found.error();
  GridResult result{*std::move(found), false};
  const auto count = [&](sim::RunState state) {
    return std::ranges::count(result.outcomes, state, &sim::GridOutcome::state);
  };
  const auto say = [](const std::string& line) {
    fmt::print(stderr, "{}\n", FitTo(STDERR_FILENO, line));
  };
  if (!grid.summary.empty()) say(grid.summary);
  say(fmt::format(
      "runs: {} finished, {} interrupted, {} new; {} at a time; results in {}",
      count(sim::RunState::kFinished), count(sim::RunState::kInterrupted),
      count(sim::RunState::kNew), jobs, out));

  std::vector<sim::Progress> progress(grid.runs.size());
  GridScreen screen(grid, result.outcomes, progress);
  sim::GridRunOptions options;
  options.out = out;
  options.jobs = jobs;
  options.partial = partial;
  options.version = FEDMRN_VERSION;
  options.progress = progress;
  options.on_start = [&](size_t run) { screen.Started(run); };
  options.on_round = [&](size_t run, std::span<const results::RoundRow> rows) {
    screen.Rounds(run, rows);
  };
  options.on_end = [&](size_t run, const sim::GridOutcome& outcome) {
    screen.Ended(run, outcome);
  };
  options.log = [&](size_t run, const std::string& message) {
    screen.Log(run, message);
  };
  const StopOnSignal stop(progress);
  const Status ran = sim::RunGrid(grid, options, result.outcomes);
  if (!ran) return ran.error();
  result.stopped = progress[0].stop;
  return result;
}

uint32_t DefaultJobs() { return sim::CoresHere(); }

bool PrintFailures(const sim::Grid& grid, const GridResult& result) {
  bool any = false;
  for (size_t i = 0; i < grid.runs.size(); ++i) {
    if (result.outcomes[i].state != sim::RunState::kFailed) continue;
    fmt::print(stderr, "{} failed: {}\n", grid.runs[i].name,
               result.outcomes[i].error);
    any = true;
  }
  return any;
}

}  // namespace fedmrn::cli
