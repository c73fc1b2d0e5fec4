// fedmrn compare: all runs of a grid, and a table of what came out.
#include "fedmrn/sim/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/base/files.h"
#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/live.h"
#include "fedmrn/cli/table.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/cli/watch_grid.h"
#include "fedmrn/sim/grid.h"

namespace fedmrn::cli {
namespace {

struct CompareArguments {
  std::string file;
  std::string out;
  sim::GridOptions grid;
  std::string part;
  uint32_t jobs = DefaultJobs();
  double target = std::nan("");  // the accuracy that the columns tell about
  bool dry_run = false;
};

// "3/8": of every eight runs the third, so that eight processes, wherever they
// are, have all runs between them. Empty: all.
Status KeepPart(const std::string& part, sim::Grid& grid) {
  if (part.empty()) return Ok();
  uint32_t mine = 0, parts = 0;
  char end = 0;
  if (std::sscanf(part.c_str(), "%u/%u%c", &mine, &parts, &end) != 2 ||
      mine < 1 || mine > parts) {
    return Error{ErrorCode::kBadValue,
                 "--part must be I/N with I from 1 to N, not " + part};
  }
  std::vector<sim::GridRun> kept;
  for (size_t i = mine - 1; i < grid.runs.size(); i += parts) {
    kept.push_back(std::move(grid.runs[i]));
  }
  grid.runs = std::move(kept);
  return Ok();
}

std::string StateText(sim::RunState state) {
  switch (state) {
    case sim::RunState::kNew:
      return "new";
    case sim::RunState::kInterrupted:
      return "interrupted";
    case sim::RunState::kFinished:
      return "finished";
    case sim::RunState::kFailed:
      return "failed";
  }
  return "";
}

int ListRuns(const sim::Grid& grid, const std::string& out) {
  const Result<std::vector<sim::GridOutcome>> found = sim::FindRuns(grid, out);
  if (!found) return Fail("", found.error());
  Table table("llr");
  table.Add({"run", "state", "rounds"});
  for (size_t i = 0; i < grid.runs.size(); ++i) {
    table.Add({grid.runs[i].name, StateText((*found)[i].state),
               fmt::format("{}/{}", (*found)[i].rows.size(),
                           grid.runs[i].config.rounds.count)});
  }
  table.Print();
  return kExitOk;
}

// "88.12 ± 0.10"; of one run alone "88.12".
std::string WithDeviation(const std::string& metric,
                          const results::Spread& spread) {
  return ScoreNumber(metric, spread.mean) +
         (std::isnan(spread.std) ? ""
                                 : " ± " + ScoreNumber(metric, spread.std));
}

void PrintSummary(const sim::Grid& grid,
                  const std::vector<sim::SummaryRow>& rows) {
  // Where all scores are percent, the header says so once.
  const bool shares = std::ranges::all_of(
      rows, results::IsShare, [](const auto& row) { return row.metric; });
  const auto score = [&](const std::string& metric,
                         const results::Spread& spread) {
    return WithDeviation(metric, spread) +
           (shares ? "" : report::UnitOf(metric).unit);
  };
  size_t fewest = results::kLastRounds, most = 0;
  // Whose rounds were tested least, if not all.
  const results::SeedsSummary* sparse = nullptr;
  for (const sim::SummaryRow& row : rows) {
    const results::SeedsSummary& its = row.summary;
    if (its.seeds == 0) continue;
    fewest = std::min(fewest, its.last_rounds);
    most = std::max(most, its.last_rounds);
    if (its.last_tests < its.last_rounds &&
        (sparse == nullptr || its.last_tests < sparse->last_tests)) {
      sparse = &its;
    }
  }
  std::vector<std::string> columns = grid.axes;
  std::erase_if(columns, sim::RepeatsRuns);
  const double target = rows.front().target;
  const bool to_target = !std::isnan(target);
  Table table(std::string(columns.size(), 'l') + "rrrrrr" +
              (to_target ? "rr" : ""));
  const std::string percent = shares ? " %" : "";
  // Runs that are shorter than ten rounds have no last ten.
  const std::string last = fewest < most ? fmt::format("{}-{}", fewest, most)
                                         : std::to_string(fewest);
  columns.insert(columns.end(), {"best" + percent, "last " + last + percent,
                                 "swing", "upload MB", "bits/param", "seeds"});
  if (to_target) {
    const std::string to = fmt::format(" to {:g}", target);
    columns.insert(columns.end(), {"rounds" + to, "MB" + to});
  }
  table.Add(columns);
  for (const sim::SummaryRow& row : rows) {
    std::vector<std::string> cells = row.labels;
    const auto number = [](double value, int digits) {
      return std::isnan(value) ? "-" : report::Decimals(value, digits);
    };
    const results::SeedsSummary& summary = row.summary;
    cells.insert(cells.end(), {score(row.metric, summary.best),
                               score(row.metric, summary.last_ten),
                               ScoreNumber(row.metric, summary.swing),
                               number(summary.uplink_bytes.mean / 1e6, 2),
                               number(summary.uplink_bits_per_param.mean, 3),
                               std::to_string(summary.seeds)});
    if (to_target) {
      const results::ToTarget& reached = row.to_target;
      // Where not all seeds reached it, the mean is that of the luckier ones.
      const auto seeds = static_cast<double>(summary.seeds);
      const std::string some =
          reached.reached > 0 && reached.reached < seeds
              ? fmt::format(" ({} of {})", reached.reached, seeds)
              : "";
      cells.push_back(number(reached.rounds.mean, 1) + some);
      cells.push_back(number(reached.uplink_bytes.mean / 1e6, 2));
    }
    table.Add(std::move(cells));
  }
  table.Print();
  if (sparse != nullptr) {
    fmt::print("of the last {} rounds {} tested\n", sparse->last_rounds,
               sparse->last_tests == 1
                   ? "1 was"
                   : fmt::format("{} were", sparse->last_tests));
  }
  const auto held_out = [](const sim::GridRun& run) {
    return run.config.data.validation > 0;
  };
  if (std::ranges::all_of(grid.runs, held_out)) {
    fmt::print("on held-out training examples, not on the test set\n");
  } else if (std::ranges::any_of(grid.runs, held_out)) {
    fmt::print(
        "on held-out training examples where data.validation is above 0, else "
        "on the test set\n");
  }
}

int Compare(const CompareArguments& arguments) {
  Result<sim::Grid> grid = sim::LoadGrid(arguments.file, arguments.grid);
  if (!grid) return Fail("", grid.error());
  const Status part = KeepPart(arguments.part, *grid);
  if (!part) return Fail("fedmrn compare", part.error());
  std::string out = arguments.out;
  if (out.empty()) {
    out = "runs/" + std::filesystem::path(arguments.file).stem().string() +
          (grid->profile.empty() ? "" : "-" + grid->profile);
  }
  if (arguments.dry_run) return ListRuns(*grid, out);
  if (grid->runs.empty()) {
    fmt::print(stderr, "no run is left for part {}\n", arguments.part);
    return kExitOk;
  }

  const Result<GridResult> result =
      RunGridWatched(*grid, out, arguments.jobs, !arguments.part.empty());
  if (!result) return Fail("", result.error());
  if (result->stopped) {
    fmt::print(stderr, "stopped; the same command goes on\n");
    return StoppedExitCode();
  }
  const std::vector<sim::SummaryRow> rows = sim::Summarise(
      *grid, result->outcomes,
      std::isnan(arguments.target) ? sim::TargetOf(*grid) : arguments.target);
  PrintSummary(*grid, rows);
  if (!arguments.part.empty()) {
    fmt::print("\nresults    {}; without --part: the table of all\n", out);
  } else {
    const std::string csv = out + "/summary.csv";
    const Status written =
        WriteFileAtomically(csv, AsBytes(sim::SummaryCsv(*grid, rows)));
    if (!written) return Fail("", written.error());
    fmt::print("\nresults    {}, this table in {}\n", out, csv);
  }
  std::fflush(stdout);
  return PrintFailures(*grid, *result) ? kExitFailed : kExitOk;
}

}  // namespace

void AddGridRunOptions(Verb verb, std::string& out,
                       const std::string& default_out, uint32_t& jobs) {
  verb.AddOption("--out", out, "Folder of all results; default " + default_out)
      .Type("DIR");
  verb.AddOption("--jobs", jobs,
                 "Runs at the same time; each has its share of the cores")
      .Text(fmt::format("N={}", jobs))
      .Positive();
}

void AddCompare(Verb program) {
  const Verb verb = program.AddVerb(
      "compare", "Many runs side by side: methods, settings, seeds");
  verb.Footer(
      "  fedmrn compare grid.toml --dry-run\n"
      "  fedmrn compare grid.toml --profile paper --only method=fedavg,fedmrn\n"
      "  fedmrn compare grid.toml --set rounds.count=5 --out runs/short\n\n"
      "A grid is a config in which any value may be a list. Each list is an\n"
      "axis, and all combinations are run. Bundles of keys make an axis of\n"
      "names, and profiles choose between a quick look and the whole:\n\n"
      "  summary = \"Two methods, two learning rates\"\n"
      "  data.name = \"fmnist\"\n"
      "  train.lr = [0.1, 0.3]\n"
      "  [variants.method.fedavg]\n"
      "  method.name = \"fedavg\"\n"
      "  [variants.method.fedmrn]\n"
      "  method.name = \"fedmrn\"\n"
      "  [profiles.quick]                # the first is the default\n"
      "  rounds.count = 10\n"
      "  only.method = [\"fedmrn\"]\n"
      "  [profiles.paper]\n"
      "  seed = [1, 2, 3]\n\n"
      "Variants win over the keys of the file, the profile over variants, and\n"
      "--set over all. Each run goes to DIR/NAME, as of fedmrn run. The same\n"
      "command again runs what is missing: finished runs are kept, "
      "interrupted\n"
      "ones go on.\n\n"
      "The table, in DIR/summary.csv as well: the accuracy of the best round,\n"
      "the mean of the last ten, and how these swing in a run (their standard\n"
      "deviation); means of the seeds ± their deviation, where values of\n"
      "partition.seed are seeds as well. With --target, or a\n"
      "rounds.target_accuracy that all runs share, also the rounds and the\n"
      "upload until the first test that reached it.");
  auto arguments = std::make_shared<CompareArguments>();
  verb.AddOption("grid", arguments->file, "TOML file, see below")
      .Type("GRID.toml")
      .Required();
  verb.AddOption("--profile", arguments->grid.profile,
                 "Of the grid; default: its first")
      .Type("NAME");
  verb.AddOption("--only", arguments->grid.only,
                 "Narrows an axis, e.g. --only method=fedavg,fedmrn")
      .Type("AXIS=VALUE,...")
      .OneEach();
  verb.AddOption("--part", arguments->part,
                 "Only every Nth run, from the Ith: for N processes that share "
                 "the folder, as an array job has them")
      .Type("I/N");
  AddGridRunOptions(verb, arguments->out, "runs/GRID-PROFILE", arguments->jobs);
  verb.AddOption("--target", arguments->target,
                 "An accuracy, such as 0.8: rounds and upload until it is "
                 "reached; default: rounds.target_accuracy")
      .Type("SHARE");
  verb.AddFlag("--dry-run", arguments->dry_run,
               "List the runs and how far they are, and run nothing");
  AddConfigOptions(verb, arguments->grid.settings);
  verb.Do([arguments] { return Compare(*arguments); });
}

}  // namespace fedmrn::cli
