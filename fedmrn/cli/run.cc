#include "fedmrn/sim/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/live.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/cli/watch.h"
#include "fedmrn/results/summary.h"
#include "fedmrn/sim/config.h"

namespace fedmrn::cli {
namespace {

struct RunArguments {
  std::string file;
  std::string out, save_frames;
  std::string executor = "auto";
  bool mixed = false;
  bool resume = false, overwrite = false;
  bool print_config = false, print_keys = false;
  // In the order of the command line: the last one wins.
  std::vector<std::string> settings;
};

void PrintSummary(const sim::RunResult& result, const sim::Config& config,
                  const std::string& out) {
  const results::Summary summary = results::SummaryOf(result.rows);
  const results::RoundRow &last = summary.last, &totals = summary.totals;
  const auto score = [&](const results::RoundRow& row) {
    return fmt::format("{}{} after round {}",
                       ScoreText(result.metric, row.score), MeanIouText(row),
                       row.round);
  };
  fmt::print(
      "{:<10} {}, best {}{}\n", result.metric, score(last), score(summary.best),
      config.data.validation > 0 ? " (on held-out training examples)" : "");
  if (!std::isnan(last.client_score)) {
    const auto of = [&](double value) {
      return ScoreText(result.metric, value);
    };
    fmt::print(
        "clients    {} on their own examples (worst {}), {} after a local "
        "round (worst {})\n",
        of(last.client_score), of(last.client_score_worst),
        of(last.personal_score), of(last.personal_score_worst));
  }
  fmt::print("upload     {} ({:.3f} bits per parameter in the last round)\n",
             report::Megabytes(totals.uplink_bytes),
             result.rows.back().uplink_bits_per_param);
  fmt::print("download   {}\n", report::Megabytes(totals.downlink_bytes));
  fmt::print("time       {}\n", report::Duration(totals.wall_s));
  if (result.ended_by != "rounds.count") {
    fmt::print("ended      early: {}\n", result.why_ended);
  }
  fmt::print("model      sha256 {}\n", result.model_sha256);
  fmt::print("results    {}\n", out);
}

// The config that the arguments name. A run that goes on needs no more than its
// folder.
Result<sim::Config> ConfigOf(const RunArguments& arguments) {
  const bool by_folder =
      arguments.resume && arguments.file.empty() && !arguments.out.empty();
  const std::string file = arguments.out + "/config.toml";
  const bool of_folder = by_folder && std::filesystem::exists(file);
  if (by_folder && !of_folder && arguments.settings.empty()) {
    return Error{ErrorCode::kUnavailable, "fedmrn run: " + arguments.out +
                                              " holds no run to go on with"};
  }
  return ReadConfig(of_folder ? file : arguments.file, arguments.settings);
}

// A process of many that does not lead: what there is to say the leader says.
int FollowVerb(const Result<sim::Config>& config, sim::RunOptions options) {
  sim::Progress progress;
  options.progress = &progress;
  const StopOnSignal stop({&progress, 1});
  const Status followed = sim::Follow(config, options);
  return followed ? kExitOk : Fail("fedmrn run", followed.error());
}

int RunVerb(const RunArguments& arguments) {
  if (arguments.print_keys) {
    fmt::print("{}", sim::KeysMarkdown());
    return kExitOk;
  }
  if (arguments.print_config) {
    const Result<sim::Config> config = ConfigOf(arguments);
    if (!config) return Fail("", config.error());
    fmt::print("{}", sim::ExplainedConfigToml(*config));
    return kExitOk;
  }
  const Result<std::unique_ptr<sim::Team>> team =
      sim::GatherTeam(arguments.executor);
  if (!team) return Fail("fedmrn run", team.error());
  const Result<sim::Config> config = ConfigOf(arguments);
  sim::RunOptions options;
  options.version = FEDMRN_VERSION;
  options.team = team->get();
  options.mixed = arguments.mixed;
  if (!(*team)->leads()) return FollowVerb(config, options);
  if (!config) return Fail("", config.error());
  options.save_frames = arguments.save_frames;
  options.resume = arguments.resume;
  options.overwrite = arguments.overwrite;
  options.out =
      arguments.out.empty()
          ? sim::DefaultFolder(*config, arguments.file, arguments.settings)
          : arguments.out;
  const sim::PartitionSettings& partition = config->partition;
  const bool natural = partition.kind == sim::PartitionKind::kNatural;
  fmt::print(
      stderr, "{}\n",
      FitTo(STDERR_FILENO,
            fmt::format(
                "{} on {}, {}: {}{} clients a round ({}), {}; results in {}",
                config->method.name, config->data.name, config->model.name,
                config->rounds.clients_per_round,
                natural ? "" : fmt::format(" of {}", partition.clients),
                NameOf(partition.kind, sim::kPartitionKinds),
                report::Counted(config->rounds.count, "round"), options.out)));
  const Result<sim::RunResult> result = RunWatched(*config, options, "");
  if (!result) return Fail("fedmrn run", result.error());
  if (result->stopped) {
    fmt::print(stderr,
               "stopped in round {}; the same command with --resume goes on "
               "from the last checkpoint\n",
               result->rows.size() + 1);
    return StoppedExitCode();
  }
  PrintSummary(*result, *config, options.out);
  return kExitOk;
}

// The rows of a table, a line each, as the help shows them.
template <typename Rows>
std::string Listed(const char* heading, const Rows& rows) {
  std::string text = fmt::format("\n\n{}:", heading);
  for (const auto& row : rows) {
    text += fmt::format("\n  {:<13} {}", row.name, row.summary);
  }
  return text;
}

}  // namespace

Result<sim::Config> ReadConfig(const std::string& file,
                               const std::vector<std::string>& settings) {
  return file.empty() ? sim::ParseConfig("", "", settings)
                      : sim::LoadConfig(file, settings);
}

void AddConfigOptions(Verb verb, std::vector<std::string>& settings,
                      ConfigHelp help) {
  verb.OnOption(
          "--set",
          [&settings](const std::string& given) { settings.push_back(given); },
          help == ConfigHelp::kLists
              ? "Overrides one key of the config, e.g. --set train.lr=0.03"
              : "Overrides one key of the config, e.g. --set train.lr=0.03; so "
                "does --train.lr 0.03 (docs/keys.md and fedmrn run --help list "
                "the keys)")
      .Type("KEY=VALUE ...");
  verb.OnFlag(
      "--skip-bad", [&settings] { settings.push_back("data.skip_bad=true"); },
      "Leave out images that cannot be read");
  const auto defaults = sim::ConfigValues(sim::Config{});
  for (size_t i = 0; i < defaults.size(); ++i) {
    const sim::ConfigKey& key = sim::ConfigKeys()[i];
    std::string text(key.help);
    if (!key.choices.empty()) text += fmt::format(" ({})", key.choices);
    verb.OnOption(
            fmt::format("--{}", key.name),
            [&settings,
             name = std::string(key.name)](const std::string& value) {
              settings.push_back("--" + name + "=" + value);
            },
            text)
        .Type(sim::HasFixedDefault(key)
                  ? fmt::format("{}={}", key.type, defaults[i].second)
                  : std::string(key.type))
        // A group without a name is not listed.
        .Group(help == ConfigHelp::kLists ? "Keys of the config, as flags"
                                          : "");
  }
}

void AddRun(Verb program) {
  const Verb verb = program.AddVerb(
      "run", "Federated training: data, clients, rounds, results");
  verb.Footer(
      "  fedmrn run configs/fmnist-noniid2-fedmrn.toml\n"
      "  fedmrn run --data.name synthetic --partition.clients 10 \\\n"
      "      --rounds.clients_per_round 5 --rounds.count 5\n\n"
      "Writes rounds.csv, run.json, model.pt, model-best.pt, tb/ and\n"
      "checkpoints/ to the folder of results. A run that was stopped or\n"
      "killed goes on, to the same model, with fedmrn run --resume --out DIR;\n"
      "with a larger --rounds.count (or --rounds.target_accuracy or patience,\n"
      "if that ended it early) also one that has ended." +
      Listed("Methods, --method.name", train::Methods()) +
      Listed("Networks, --model.name", train::Models()) +
      Listed("Data sets, --data.name", train::DataSets()));
  auto arguments = std::make_shared<RunArguments>();
  verb.AddOption("config", arguments->file,
                 "TOML file; configs/ has the paper's settings")
      .Type("CONFIG.toml");
  verb.AddOption("--out", arguments->out,
                 "Folder of results; default runs/NAME-OF-CONFIG")
      .Type("DIR");
  verb.AddOption("--save-frames", arguments->save_frames,
                 "Keep all rounds' frames, for fedmrn aggregate")
      .Type("DIR");
  std::vector<std::string> executors = {"auto"};
  std::string says = "Where the clients run: auto chooses";
  for (const sim::ExecutorRow& row : sim::Executors()) {
    executors.emplace_back(row.name);
    says += fmt::format("; {}: {}", row.name, row.summary);
  }
  verb.AddOption("--executor", arguments->executor, says)
      .OneOf(executors)
      .ShowDefault();
  verb.AddFlag("--mixed", arguments->mixed,
               "Ranks may have CPUs that round differently: the model is then "
               "not the same to the bit");
  verb.AddFlag("--resume", arguments->resume,
               "Go on from the last checkpoint in the folder, with its config");
  verb.AddFlag("--overwrite", arguments->overwrite,
               "Begin anew where a run is already");
  verb.AddFlag("--print-config", arguments->print_config,
               "Print the config that would run, each key explained");
  verb.AddFlag("--print-keys", arguments->print_keys,
               "Print all keys as a table of Markdown, as docs/keys.md");
  verb.OnOption(
          "--workers",
          [arguments](const std::string& count) {
            arguments->settings.push_back("--run.workers=" + count);
          },
          "Clients at the same time, of each rank; 0: one per core")
      .Type("N=0")
      .Check([](const std::string& count) -> std::string {
        const bool number = !count.empty() &&
                            count.find_first_not_of("0123456789") == count.npos;
        return number ? "" : "must be an integer of at least 0, not " + count;
      });
  AddConfigOptions(verb, arguments->settings, ConfigHelp::kLists);
  verb.Do([arguments] { return RunVerb(*arguments); });
}

}  // namespace fedmrn::cli
