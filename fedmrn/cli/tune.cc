// fedmrn tune: short runs over a grid of values, to choose the best of them.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "fedmrn/base/files.h"
#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/live.h"
#include "fedmrn/cli/table.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/cli/watch_grid.h"
#include "fedmrn/sim/compare.h"
#include "fedmrn/sim/grid.h"

namespace fedmrn::cli {
namespace {

constexpr uint32_t kRounds = 5;

struct TuneArguments {
  std::string file;
  std::string out;
  std::vector<std::string> settings, lists;
  uint32_t rounds = 0;  // 0: kRounds, or as many as the config has
  uint32_t jobs = DefaultJobs();
};

struct Candidate {
  const sim::GridRun* run;
  const sim::GridOutcome* outcome;
  results::Summary summary;
  // Over the later half of the rounds: one round's score swings, most of all
  // where clients have few labels.
  results::Spread later;

  bool failed() const { return outcome->state == sim::RunState::kFailed; }
  // A loss or a score beyond all numbers is no success, in whichever of the
  // later rounds; all of them are tested.
  bool sound() const {
    return !failed() && std::isfinite(outcome->rows.back().loss) &&
           std::isfinite(later.mean);
  }
};

uint32_t LaterRounds(uint32_t rounds) { return (rounds + 1) / 2; }

// "lr 0.3, magnitude 0.01".
std::string ValuesOf(const sim::GridRun& run) {
  std::string text;
  for (const auto& [axis, label] : run.labels) {
    if (axis == "seed") continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", axis, label);
  }
  return text;
}

std::optional<double> NumberOf(const std::string& label) {
  double value = 0;
  const char* end = label.data() + label.size();
  const auto [at, failure] = std::from_chars(label.data(), end, value);
  if (failure != std::errc() || at != end) return std::nullopt;
  return value;
}

// The best value may lie beyond the last one that was tried.
void PrintEdges(const sim::Grid& grid, const sim::GridRun& winner) {
  for (size_t axis = 0; axis < winner.labels.size(); ++axis) {
    const auto& [name, label] = winner.labels[axis];
    const std::optional<double> chosen = NumberOf(label);
    if (!chosen || name == "seed") continue;
    bool smaller = false, larger = false;
    for (const sim::GridRun& run : grid.runs) {
      const std::optional<double> other = NumberOf(run.labels[axis].second);
      smaller = smaller || (other && *other < *chosen);
      larger = larger || (other && *other > *chosen);
    }
    if (smaller != larger) {
      fmt::print("{} {} is the {} that was tried: try {} ones\n", name, label,
                 larger ? "smallest" : "largest",
                 larger ? "smaller" : "larger");
    }
  }
}

void PrintCandidates(const sim::Grid& grid,
                     const std::vector<Candidate>& candidates) {
  std::vector<std::string> columns = grid.axes;
  columns.pop_back();  // the seed
  const size_t labels = columns.size();
  // Values differ, but all have the same data and model, and so the metric.
  const std::string& metric = candidates.front().outcome->metric;
  const char* unit = report::UnitOf(metric).unit;
  columns.insert(columns.end(), {fmt::format("mean{}", unit), "+-",
                                 fmt::format("best{}", unit), "loss"});
  Table table(std::string(labels, 'l') + "rrrr");
  table.Add(columns);
  for (const Candidate& candidate : candidates) {
    std::vector<std::string> cells;
    for (size_t i = 0; i < labels; ++i) {
      cells.push_back(candidate.run->labels[i].second);
    }
    const results::Summary& summary = candidate.summary;
    cells.insert(cells.end(),
                 {ScoreNumber(metric, candidate.later.mean),
                  std::isnan(candidate.later.std)
                      ? ""
                      : ScoreNumber(metric, candidate.later.std),
                  ScoreNumber(metric, summary.best.score),
                  candidate.sound() ? fmt::format("{:.4f}", summary.last.loss)
                  : candidate.failed() ? "failed"
                                       : "diverged"});
    table.Add(std::move(cells));
  }
  table.Print();
}

bool Lists(const TuneArguments& arguments, std::string_view name) {
  return std::ranges::any_of(arguments.lists, [&](std::string_view list) {
    const std::string_view key = list.substr(0, list.find('='));
    return key.substr(key.rfind('.') + 1) == name;
  });
}

// What is the same in all runs of tune, or they could not be compared.
Status CheckLists(const TuneArguments& arguments) {
  for (const char* own :
       {"count", "target_accuracy", "patience", "eval_every", "validation"}) {
    if (!Lists(arguments, own)) continue;
    return Error{ErrorCode::kBadValue,
                 fmt::format("--grid {}: fedmrn tune sets this itself, to one "
                             "value for all runs",
                             own)};
  }
  if (Lists(arguments, "seed")) {
    return Error{ErrorCode::kBadValue,
                 "--grid seed: fedmrn tune chooses by one seed; fedmrn compare "
                 "takes several, with --set data.validation=0.1"};
  }
  return Ok();
}

// What makes short runs of this config the first rounds of long ones, all of
// the same length, that never see the test set.
std::vector<std::string> ShortRuns(const TuneArguments& arguments,
                                   const sim::Config& config) {
  std::vector<std::string> settings = {
      fmt::format("rounds.count={}", arguments.rounds)};
  if (config.rounds.target_accuracy > 0) {
    settings.push_back("rounds.target_accuracy=0");
  }
  if (config.rounds.patience > 0) settings.push_back("rounds.patience=0");
  if (config.run.eval_every > 1) settings.push_back("run.eval_every=1");
  if (config.data.validation == 0) settings.push_back("data.validation=0.1");
  const bool falls = config.train.lr_schedule != train::LrSchedule::kConstant ||
                     Lists(arguments, "lr_schedule");
  if (falls && !Lists(arguments, "lr_rounds")) {
    settings.push_back(
        fmt::format("train.lr_rounds={}", config.train.lr_rounds > 0
                                              ? config.train.lr_rounds
                                              : config.rounds.count));
  }
  return settings;
}

int Tune(TuneArguments arguments) {
  // First as a config, which a grid is not.
  const Result<sim::Config> config =
      sim::LoadConfig(arguments.file, arguments.settings);
  if (!config) return Fail("", config.error());
  if (const Status lists = CheckLists(arguments); !lists) {
    return Fail("", lists.error());
  }
  if (arguments.rounds == 0) {
    arguments.rounds = std::min(kRounds, config->rounds.count);
  }
  if (arguments.rounds > config->rounds.count) {
    return Fail("", Error{ErrorCode::kBadValue,
                          fmt::format("--rounds {}: these are the first rounds "
                                      "of a run that has {}: try --set "
                                      "rounds.count={}",
                                      arguments.rounds, config->rounds.count,
                                      arguments.rounds)});
  }
  sim::GridOptions options;
  options.settings = arguments.settings;
  std::ranges::move(ShortRuns(arguments, *config),
                    std::back_inserter(options.settings));
  options.lists = arguments.lists;
  const Result<sim::Grid> grid = sim::LoadGrid(arguments.file, options);
  if (!grid) return Fail("", grid.error());
  const std::string out =
      arguments.out.empty()
          ? "runs/tune-" + std::filesystem::path(arguments.file).stem().string()
          : arguments.out;

  const Result<GridResult> result = RunGridWatched(*grid, out, arguments.jobs);
  if (!result) return Fail("", result.error());
  if (result->stopped) {
    fmt::print(stderr, "stopped; the same command goes on\n");
    return StoppedExitCode();
  }
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < grid->runs.size(); ++i) {
    const sim::GridOutcome& outcome = result->outcomes[i];
    candidates.push_back(
        {&grid->runs[i], &outcome, results::SummaryOf(outcome.rows),
         results::LastScores(outcome.rows, LaterRounds(arguments.rounds))});
  }
  std::ranges::stable_sort(candidates, std::greater(), [](const Candidate& c) {
    // NaN has no place in an order. Among equals, such as those that have
    // learned nothing yet, the lower loss is better.
    return c.sound() ? std::tuple(true, c.later.mean, -c.summary.last.loss)
                     : std::tuple(false, 0.0, 0.0);
  });
  PrintCandidates(*grid, candidates);
  std::fflush(stdout);
  PrintFailures(*grid, *result);
  const Candidate& best = candidates.front();
  if (!best.sound()) {
    fmt::print(stderr, "no run has come through: try other values\n");
    return kExitFailed;
  }
  const std::string chosen = fmt::format(
      "{}: {} on validation examples, mean of the last {} of {}",
      ValuesOf(*best.run), ScoreText(best.outcome->metric, best.later.mean),
      LaterRounds(arguments.rounds),
      report::Counted(arguments.rounds, "round"));
  sim::Config tuned = best.run->config;
  tuned.rounds.count = config->rounds.count;
  tuned.rounds.target_accuracy = config->rounds.target_accuracy;
  tuned.rounds.patience = config->rounds.patience;
  tuned.run.eval_every = config->run.eval_every;
  tuned.data.validation = config->data.validation;
  const std::string path = out + "/tuned.toml";
  const Status written =
      WriteFileAtomically(path, AsBytes("# Chosen by fedmrn tune: " + chosen +
                                        "\n" + sim::ConfigToml(tuned)));
  if (!written) return Fail("", written.error());
  fmt::print("\nbest: {}\n", chosen);
  PrintEdges(*grid, *best.run);
  fmt::print("fedmrn run {}\n", path);
  return kExitOk;
}

}  // namespace

void AddTune(Verb program) {
  const Verb verb = program.AddVerb(
      "tune", "Short runs over a few values, to choose the best");
  verb.Footer(
      "  fedmrn tune configs/fmnist-iid-fedmrn.toml --grid lr=1,0.3,0.1,0.03\n"
      "  fedmrn tune my.toml --grid lr=0.3,0.1 --grid magnitude=0.01,0.005\n\n"
      "Runs the first rounds of all combinations, in folders DIR/NAME: a rate\n"
      "that falls does so as in the whole run, and none ends early. Then it\n"
      "sorts them by their mean accuracy over the later half of these rounds,\n"
      "on a tenth of each client's examples that nobody trains on\n"
      "(data.validation); the test set is not looked at. The config with the\n"
      "best values goes to DIR/tuned.toml. The same command again runs only\n"
      "what is missing.");
  auto arguments = std::make_shared<TuneArguments>();
  verb.AddOption("config", arguments->file, "TOML file, as of fedmrn run")
      .Type("CONFIG.toml")
      .Required();
  verb.AddOption("--grid", arguments->lists,
                 "Values to try; lr is short for train.lr")
      .Type("KEY=VALUE,...")
      .OneEach()
      .Required();
  verb.AddOption("--rounds", arguments->rounds, "Rounds of each run")
      .Text(fmt::format("N={}", kRounds))
      .Positive();
  AddGridRunOptions(verb, arguments->out, "runs/tune-CONFIG", arguments->jobs);
  AddConfigOptions(verb, arguments->settings);
  verb.Do([arguments] { return Tune(*arguments); });
}

}  // namespace fedmrn::cli
