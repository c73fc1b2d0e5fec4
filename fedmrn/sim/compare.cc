#include "fedmrn/sim/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "fedmrn/base/failure.h"
#include "fedmrn/base/files.h"
#include "fedmrn/base/parallel.h"
#include "fedmrn/results/checkpoint.h"
#include "fedmrn/results/grid_place.h"
#include "fedmrn/sim/ending.h"
#include "fedmrn/sim/inputs.h"
#include "fedmrn/sim/run.h"
#include "fedmrn/sim/workers.h"

namespace fedmrn::sim {
namespace {

std::string FolderOf(const std::string& out, const GridRun& run) {
  return out + "/" + run.name;
}

Result<GridOutcome> FindRun(const std::string& folder, const Config& config,
                            DigestReader& digests) {
  const std::string json_path = folder + "/run.json";
  const auto damaged = [&](const std::string& what) {
    return Error{ErrorCode::kBadFormat,
                 what + "; to run it anew, remove " + folder};
  };
  if (std::filesystem::exists(json_path)) {
    const Result<Bytes> json = ReadFile(json_path);
    if (!json) return json.error();
    const Result<results::RunFacts> facts =
        results::ParseRunJson(AsText(*json));
    if (!facts) return damaged(json_path + " " + facts.error().message);
    if (facts->finished) {
      const Result<Bytes> toml = ReadFile(folder + "/config.toml");
      if (!toml) return damaged(toml.error().message);
      FEDMRN_TRY(CheckSameConfig(config, std::string(AsText(*toml)), folder));
      const Result<Config> then = ParseConfig(AsText(*toml), folder, {});
      if (!then) return then.error();
      // A file may have been written anew since then. Where it is not here, as
      // with results that were copied, it is at least named as it was.
      const Result<results::Inputs> inputs = digests.Of(config);
      if (inputs) {
        FEDMRN_TRY(CheckSameInputs(*inputs, facts->inputs, folder));
      } else if (inputs.error().code != ErrorCode::kUnavailable ||
                 config.data != then->data || config.model != then->model) {
        return Error{inputs.error().code,
                     folder + ": " + inputs.error().message};
      }
      const std::string csv_path = folder + "/rounds.csv";
      const Result<Bytes> csv = ReadFile(csv_path);
      if (!csv) return damaged(csv.error().message);
      Result<std::vector<results::RoundRow>> rows =
          results::ParseRoundsCsv(AsText(*csv));
      if (!rows) return damaged(csv_path + ": " + rows.error().message);
      if (!EndingOf(then->rounds, *rows)) {
        return damaged(fmt::format("{} has {} of {} rounds", csv_path,
                                   rows->size(), then->rounds.count));
      }
      if (!EndingOf(config.rounds, *rows)) {  // it was given more
        return GridOutcome{RunState::kInterrupted, *std::move(rows)};
      }
      return GridOutcome{RunState::kFinished, *std::move(rows), "",
                         facts->metric};
    }
  }
  Result<std::optional<results::Checkpoint>> checkpoint =
      results::LoadCheckpoint(folder + "/checkpoints",
                              [](const std::string&) {});
  if (!checkpoint) return damaged(checkpoint.error().message);
  if (!checkpoint->has_value()) {
    if (!std::filesystem::exists(json_path)) return GridOutcome{};
    return damaged(folder + " holds results, but no checkpoint to go on from");
  }
  const Status same = CheckSameConfig(config, (*checkpoint)->config, folder);
  if (!same) return same.error();
  return GridOutcome{RunState::kInterrupted, std::move((*checkpoint)->rows)};
}

}  // namespace

Result<std::vector<GridOutcome>> FindRuns(const Grid& grid,
                                          const std::string& out) {
  std::vector<GridOutcome> outcomes;
  DigestReader digests;
  for (const GridRun& run : grid.runs) {
    Result<GridOutcome> found =
        FindRun(FolderOf(out, run), run.config, digests);
    if (!found) return found.error();
    outcomes.push_back(*std::move(found));
  }
  return outcomes;
}

Status RunGrid(const Grid& grid, const GridRunOptions& options,
               std::span<GridOutcome> outcomes) {
  FEDMRN_CHECK(outcomes.size() == grid.runs.size() &&
               options.progress.size() == grid.runs.size());
  std::optional<FolderLock> lock;  // each run has its own as well
  if (!options.partial) lock = FEDMRN_TRY(FolderLock::Take(options.out));
  std::vector<size_t> waiting;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].state != RunState::kFinished) waiting.push_back(i);
  }
  const auto jobs = static_cast<uint32_t>(
      std::min<size_t>(std::max(options.jobs, 1u), waiting.size()));
  const uint32_t cores = CoresHere();

  std::mutex mutex;  // of all calls
  const auto run_one = [&](size_t i) {
    const GridRun& run = grid.runs[i];
    GridOutcome& outcome = outcomes[i];
    const auto call = [&](const auto& function, const auto&... arguments) {
      const std::lock_guard guard(mutex);
      if (function) function(i, arguments...);
    };
    Config config = run.config;
    if (config.run.workers == 0) {
      config.run.workers =
          std::max(1u, cores / jobs / config.run.threads_per_client);
    }
    RunOptions run_options;
    run_options.out = FolderOf(options.out, run);
    run_options.resume = true;
    run_options.version = options.version;
    run_options.progress = &options.progress[i];
    run_options.on_round = [&](std::span<const results::RoundRow> rows) {
      outcome.rows.assign(rows.begin(), rows.end());
      call(options.on_round, rows);
    };
    run_options.log = [&](const std::string& message) {
      call(options.log, message);
    };
    call(options.on_start);
    const auto failed = [&](const std::string& why) {
      outcome.state = RunState::kFailed;
      outcome.error = why;
    };
    try {
      const Result<RunResult> result = Run(config, run_options);
      if (!result) {
        failed(result.error().ToString());
      } else {
        outcome.state =
            result->stopped ? RunState::kInterrupted : RunState::kFinished;
        outcome.metric = result->metric;
      }
    } catch (const std::exception& error) {  // memory, above all
      failed(ErrorOf(error, ErrorCode::kFailed).message);
    }
    call(options.on_end, outcome);
  };
  ParallelFor(waiting.size(), jobs, [&](size_t, size_t at) {
    if (!options.progress[waiting[at]].stop) run_one(waiting[at]);
  });
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].state != RunState::kFinished) continue;
    FEDMRN_TRY(results::WriteGridPlace(FolderOf(options.out, grid.runs[i]),
                                       {grid.summary, grid.runs[i].labels}));
  }
  return Ok();
}

double TargetOf(const Grid& grid) {
  const double target = grid.runs.front().config.rounds.target_accuracy;
  const bool same = std::ranges::all_of(grid.runs, [&](const GridRun& run) {
    return run.config.rounds.target_accuracy == target;
  });
  return same && target > 0 ? target : std::nan("");
}

std::vector<SummaryRow> Summarise(const Grid& grid,
                                  std::span<const GridOutcome> outcomes,
                                  double target) {
  std::vector<SummaryRow> rows;
  std::vector<std::vector<results::Summary>> finished;  // of each row
  std::vector<std::vector<std::span<const results::RoundRow>>> rounds;
  std::map<std::vector<std::string>, size_t> row_of;
  for (size_t i = 0; i < grid.runs.size(); ++i) {
    std::vector<std::string> labels;
    for (const auto& [axis, label] : grid.runs[i].labels) {
      if (!RepeatsRuns(axis)) labels.push_back(label);
    }
    const auto [row, added] = row_of.emplace(labels, rows.size());
    if (added) {
      rows.emplace_back().labels = std::move(labels);
      finished.emplace_back();
      rounds.emplace_back();
    }
    if (outcomes[i].state == RunState::kFinished) {
      rows[row->second].metric = outcomes[i].metric;
      finished[row->second].push_back(results::SummaryOf(outcomes[i].rows));
      rounds[row->second].push_back(outcomes[i].rows);
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].summary = results::SummaryOfSeeds(finished[i]);
    rows[i].target = target;
    rows[i].to_target = results::ToTargetOf(rounds[i], target);
  }
  return rows;
}

std::string SummaryCsv(const Grid& grid, std::span<const SummaryRow> rows) {
  std::string csv;
  for (const std::string& axis : grid.axes) {
    if (!RepeatsRuns(axis)) csv += axis + ',';
  }
  csv +=
      "seeds,best_accuracy,best_accuracy_std,last_accuracy,last_accuracy_std,"
      "last_ten_accuracy,last_ten_accuracy_std,last_ten_swing,last_ten_tests,"
      "uplink_bytes,uplink_bits_per_param,target_accuracy,reached_seeds,"
      "rounds_to_target,uplink_bytes_to_target\n";
  for (const SummaryRow& row : rows) {
    for (const std::string& label : row.labels) csv += label + ',';
    const results::SeedsSummary& summary = row.summary;
    csv += std::to_string(summary.seeds);
    for (const double value :
         {summary.best.mean, summary.best.std, summary.last.mean,
          summary.last.std, summary.last_ten.mean, summary.last_ten.std,
          summary.swing, static_cast<double>(summary.last_tests),
          summary.uplink_bytes.mean, summary.uplink_bits_per_param.mean,
          row.target, row.to_target.reached, row.to_target.rounds.mean,
          row.to_target.uplink_bytes.mean}) {
      csv += std::isnan(value) ? "," : fmt::format(",{}", value);
    }
    csv += '\n';
  }
  return csv;
}

}  // namespace fedmrn::sim
