#include "fedmrn/sim/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/cli/watch.h"
#include "fedmrn/results/summary.h"
#include "fedmrn/sim/config.h"

namespace fedmrn::cli {
namespace {

struct RunArguments {
  std::string file;
  std::string out;
  bool resume = false;
  // In the order of the command line: the last one wins.
  std::vector<std::string> settings;
};

void PrintSummary(const sim::RunResult& result, const std::string& out) {
  const results::Summary summary = results::SummaryOf(result.rows);
  const results::RoundRow &last = summary.last, &totals = summary.totals;
  const auto score = [&](const results::RoundRow& row) {
    return fmt::format("{}{} after round {}",
                       ScoreText(result.metric, row.score), MeanIouText(row),
                       row.round);
  };
  fmt::print("{:<10} {}, best {}\n", result.metric, score(last),
             score(summary.best));
  fmt::print("upload     {} ({:.3f} bits per parameter in the last round)\n",
             report::Megabytes(totals.uplink_bytes),
             result.rows.back().uplink_bits_per_param);
  fmt::print("download   {}\n", report::Megabytes(totals.downlink_bytes));
  fmt::print("time       {}\n", report::Duration(totals.wall_s));
  fmt::print("model      sha256 {}\n", result.model_sha256);
  fmt::print("results    {}\n", out);
}

int RunVerb(const RunArguments& arguments) {
  const Result<sim::Config> config =
      ReadConfig(arguments.file, arguments.settings);
  if (!config) return Fail("", config.error());
  sim::RunOptions options;
  options.version = FEDMRN_VERSION;
  options.resume = arguments.resume;
  options.out = arguments.out;
  if (options.out.empty()) {
    options.out =
        arguments.file.empty()
            ? sim::DefaultFolder(*config)
            : "runs/" + std::filesystem::path(arguments.file).stem().string();
  }
  const sim::PartitionSettings& partition = config->partition;
  const bool natural = partition.kind == sim::PartitionKind::kNatural;
  fmt::print(
      stderr,
      "{} on {}, {}: {}{} clients a round ({}), {} rounds; results in {}\n",
      config->method.name, config->data.name, config->model.name,
      config->rounds.clients_per_round,
      natural ? "" : fmt::format(" of {}", partition.clients),
      NameOf(partition.kind, sim::kPartitionKinds), config->rounds.count,
      options.out);
  const Result<sim::RunResult> result = RunWatched(*config, options, "");
  if (!result) return Fail("fedmrn run", result.error());
  if (result->stopped) {
    fmt::print(stderr,
               "stopped in round {}; the same command with --resume goes on "
               "from the last checkpoint\n",
               result->rows.size() + 1);
    return kExitStopped;
  }
  PrintSummary(*result, options.out);
  return kExitOk;
}

}  // namespace

Result<sim::Config> ReadConfig(const std::string& file,
                               const std::vector<std::string>& settings) {
  return file.empty() ? sim::ParseConfig("", "", settings)
                      : sim::LoadConfig(file, settings);
}

void AddConfigOptions(CLI::App& verb, std::vector<std::string>& settings) {
  verb.add_option_function<std::vector<std::string>>(
          "--set",
          [&settings](const std::vector<std::string>& given) {
            settings.insert(settings.end(), given.begin(), given.end());
          },
          "Overrides one key of the config, e.g. --set train.lr=0.03")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->trigger_on_parse();
  verb.add_flag_callback(
          "--skip-bad",
          [&settings] { settings.push_back("data.skip_bad=true"); },
          "Leave out images that cannot be read")
      ->trigger_on_parse();
  for (const sim::ConfigKey& key : sim::ConfigKeys()) {
    std::string help(key.help);
    if (!key.choices.empty()) help += fmt::format(" ({})", key.choices);
    verb.add_option_function<std::string>(
            fmt::format("--{}", key.name),
            [&settings,
             name = std::string(key.name)](const std::string& value) {
              settings.push_back(name + "=" + value);
            },
            help)
        ->type_name(std::string(key.type))
        ->group("Keys of the config, as flags")
        ->trigger_on_parse();
  }
}

void AddRun(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "run", "Federated training: data, clients, rounds, results");
  verb->footer(
      "  fedmrn run configs/fmnist-noniid2-fedmrn.toml\n"
      "  fedmrn run --data.name synthetic --rounds.count 5 --train.epochs 2\n\n"
      "Writes rounds.csv, run.json, model.pt, tb/ and checkpoints/ to the\n"
      "folder of results. A run that was stopped or killed goes on, to the\n"
      "same model, with the same command and --resume.");
  auto arguments = std::make_shared<RunArguments>();
  verb->add_option("config", arguments->file,
                   "TOML file; configs/ has the paper's settings")
      ->type_name("CONFIG.toml");
  verb->add_option("--out", arguments->out,
                   "Folder of results; default runs/NAME-OF-CONFIG")
      ->type_name("DIR");
  verb->add_flag("--resume", arguments->resume,
                 "Go on from the last checkpoint in the folder");
  verb->add_option_function<std::string>(
          "--workers",
          [arguments](const std::string& count) {
            arguments->settings.push_back("run.workers=" + count);
          },
          "Clients at the same time; 0: one per core")
      ->type_name("N")
      ->trigger_on_parse();
  AddConfigOptions(*verb, arguments->settings);
  verb->callback([arguments, &exit_code] { exit_code = RunVerb(*arguments); });
}

}  // namespace fedmrn::cli
