// fedmrn demo: FedAvg and FedMRN side by side on real data, in a few minutes.
#include <fmt/core.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/cli/watch.h"
#include "fedmrn/sim/config.h"

namespace fedmrn::cli {
namespace {

// FedAvg first: the others' upload is compared with its.
constexpr std::array<const char*, 2> kMethods = {"fedavg", "fedmrn"};

struct DemoArguments {
  uint32_t rounds = 10;
  uint32_t epochs = 3;
  uint64_t seed = 1;
  std::string data = "fmnist";
  std::string out;
};

// The same for all methods; the learning rate is each method's published one.
Result<sim::Config> ConfigOf(const DemoArguments& arguments,
                             const char* method) {
  return sim::ParseConfig(
      "", "",
      std::vector<std::string>{fmt::format("method.name={}", method),
                               fmt::format("data.name={}", arguments.data),
                               "partition.kind=iid", "partition.clients=100",
                               "rounds.clients_per_round=10",
                               fmt::format("rounds.count={}", arguments.rounds),
                               fmt::format("train.epochs={}", arguments.epochs),
                               fmt::format("seed={}", arguments.seed)});
}

struct Outcome {
  double accuracy = 0;
  double uplink_bytes = 0;
  double bits_per_param = 0;
  double seconds = 0;
};

Outcome OutcomeOf(const sim::RunResult& result) {
  Outcome outcome;
  for (const results::RoundRow& row : result.rows) {
    outcome.uplink_bytes += static_cast<double>(row.uplink_bytes);
    outcome.seconds += row.wall_s;
  }
  outcome.accuracy = result.rows.back().accuracy;
  outcome.bits_per_param = result.rows.back().uplink_bits_per_param;
  return outcome;
}

int Fail(const std::string& message) {
  std::fflush(stdout);
  fmt::print(stderr, "fedmrn demo: {}\n", message);
  return kExitBadInput;
}

int Demo(const DemoArguments& arguments) {
  namespace fs = std::filesystem;
  std::vector<sim::Config> configs;
  for (const char* method : kMethods) {
    Result<sim::Config> config = ConfigOf(arguments, method);
    if (!config) return Fail(config.error().ToString());
    configs.push_back(*std::move(config));
    // Before minutes of work, and Run would advise to --resume.
    if (!arguments.out.empty() &&
        fs::exists(fs::path(arguments.out) / method)) {
      return Fail((fs::path(arguments.out) / method).string() +
                  " is there already; --out another folder");
    }
  }

  fmt::print(
      "FedAvg and FedMRN on {}: {} clients, {} a round; {} rounds, {} epochs.\n"
      "Learning rates as in the paper: {} for FedAvg, {} for FedMRN.\n\n",
      arguments.data, configs[0].partition.clients,
      configs[0].rounds.clients_per_round, arguments.rounds, arguments.epochs,
      configs[0].train.lr, configs[1].train.lr);
  std::fflush(stdout);

  std::vector<Outcome> outcomes;
  for (const sim::Config& config : configs) {
    sim::RunOptions options;
    options.version = FEDMRN_VERSION;
    if (!arguments.out.empty()) {
      options.out = (fs::path(arguments.out) / config.method.name).string();
    }
    const Result<sim::RunResult> result =
        RunWatched(config, options, config.method.name + "  ");
    if (!result) {
      return Fail(result.error().ToString() +
                  (result.error().code == ErrorCode::kUnavailable &&
                           arguments.data != "synthetic"
                       ? "\nWithout any data: fedmrn demo --data synthetic"
                       : ""));
    }
    if (result->stopped) {
      fmt::print(stderr, "stopped\n");
      return kExitStopped;
    }
    outcomes.push_back(OutcomeOf(*result));
  }

  fmt::print("\n{:<8} {:>10} {:>12} {:>11} {:>12} {:>8}\n", "method",
             "accuracy", "uploaded MB", "bits/param", "compression", "seconds");
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    fmt::print("{:<8} {:>8.2f} % {:>12.2f} {:>11.3f} {:>11.1f}x {:>8.0f}\n",
               kMethods[i], 100 * outcome.accuracy, outcome.uplink_bytes / 1e6,
               outcome.bits_per_param,
               outcomes[0].uplink_bytes / outcome.uplink_bytes,
               outcome.seconds);
  }
  if (!arguments.out.empty()) fmt::print("\nResults: {}\n", arguments.out);
  fmt::print(
      "\nThe paper's setting, {} rounds: "
      "fedmrn run configs/fmnist-noniid2-fedmrn.toml\n",
      sim::Config{}.rounds.count);
  return kExitOk;
}

}  // namespace

void AddDemo(CLI::App& app, int& exit_code) {
  CLI::App* demo = app.add_subcommand(
      "demo", "FedAvg and FedMRN side by side, in a few minutes");
  auto arguments = std::make_shared<DemoArguments>();
  demo->add_option("--rounds", arguments->rounds, "Rounds of each method")
      ->option_text(fmt::format("N={}", arguments->rounds));
  demo->add_option("--epochs", arguments->epochs,
                   "Local epochs of a client in a round")
      ->option_text(fmt::format("N={}", arguments->epochs));
  demo->add_option("--seed", arguments->seed, "Of everything random")
      ->option_text(fmt::format("N={}", arguments->seed));
  demo->add_option("--data", arguments->data,
                   "Data set; synthetic needs no download")
      ->option_text("NAME=" + arguments->data);
  demo->add_option("--out", arguments->out,
                   "Keep the results, in DIR/fedavg and DIR/fedmrn")
      ->option_text("DIR");
  demo->footer(
      "100 clients with equal shares of the data, 10 of them in each round.\n"
      "All settings are the same for both methods except the learning rate,\n"
      "which is each method's own in the paper. The upload is the sum of the\n"
      "lengths of all frames; compression is FedAvg's over this one's.");
  demo->callback([arguments, &exit_code] { exit_code = Demo(*arguments); });
}

}  // namespace fedmrn::cli
