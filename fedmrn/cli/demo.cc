// fedmrn demo: FedAvg and FedMRN side by side on real data, in a few minutes.
#include <fmt/core.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/live.h"
#include "fedmrn/cli/table.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/cli/watch.h"
#include "fedmrn/results/summary.h"
#include "fedmrn/sim/config.h"

namespace fedmrn::cli {
namespace {

constexpr char kWho[] = "fedmrn demo";

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

int Demo(const DemoArguments& arguments) {
  namespace fs = std::filesystem;
  std::vector<sim::Config> configs;
  for (const char* method : kMethods) {
    Result<sim::Config> config = ConfigOf(arguments, method);
    if (!config) return Fail(kWho, config.error());
    configs.push_back(*std::move(config));
    // Before minutes of work, and Run would advise to --resume.
    if (!arguments.out.empty() &&
        fs::exists(fs::path(arguments.out) / method)) {
      return Fail(kWho, {ErrorCode::kDuplicate,
                         (fs::path(arguments.out) / method).string() +
                             " is there already; --out another folder"});
    }
  }

  fmt::print(
      "FedAvg and FedMRN on {}: {} clients, {} a round; {} rounds, {} epochs.\n"
      "Learning rates as in the paper: {} for FedAvg, {} for FedMRN.\n\n",
      arguments.data, configs[0].partition.clients,
      configs[0].rounds.clients_per_round, arguments.rounds, arguments.epochs,
      configs[0].train.lr, configs[1].train.lr);
  std::fflush(stdout);

  std::vector<sim::RunResult> runs;
  for (const sim::Config& config : configs) {
    sim::RunOptions options;
    options.version = FEDMRN_VERSION;
    if (!arguments.out.empty()) {
      options.out = (fs::path(arguments.out) / config.method.name).string();
    }
    Result<sim::RunResult> result =
        RunWatched(config, options, config.method.name + "  ");
    if (!result) {
      Error error = result.error();
      if (error.code == ErrorCode::kUnavailable &&
          arguments.data != "synthetic") {
        error.message += "\nWithout any data: fedmrn demo --data synthetic";
      }
      return Fail(kWho, error);
    }
    if (result->stopped) {
      fmt::print(stderr, "stopped\n");
      return StoppedExitCode();
    }
    runs.push_back(*std::move(result));
  }

  Table table("lrrrrr");
  table.Add({"method", runs[0].metric, "uploaded MB", "bits/param",
             "compression", "seconds"});
  const auto uploaded = [](const results::Summary& run) {
    return static_cast<double>(run.totals.uplink_bytes);
  };
  const results::Summary first = results::SummaryOf(runs[0].rows);
  for (size_t i = 0; i < runs.size(); ++i) {
    const results::Summary run = results::SummaryOf(runs[i].rows);
    table.Add({kMethods[i], ScoreText(runs[i].metric, run.last.score),
               fmt::format("{:.2f}", uploaded(run) / 1e6),
               fmt::format("{:.3f}", run.last.uplink_bits_per_param),
               fmt::format("{:.1f}x", uploaded(first) / uploaded(run)),
               fmt::format("{:.0f}", run.totals.wall_s)});
  }
  fmt::print("\n");
  table.Print();
  if (!arguments.out.empty()) fmt::print("\nResults: {}\n", arguments.out);
  fmt::print(
      "\nThe paper's setting, {} rounds: "
      "fedmrn run configs/fmnist-noniid2-fedmrn.toml\n",
      sim::Config{}.rounds.count);
  return kExitOk;
}

}  // namespace

void AddDemo(Verb program) {
  const Verb demo = program.AddVerb(
      "demo", "FedAvg and FedMRN side by side, in a few minutes");
  auto arguments = std::make_shared<DemoArguments>();
  demo.AddOption("--rounds", arguments->rounds, "Rounds of each method")
      .Text(fmt::format("N={}", arguments->rounds));
  demo.AddOption("--epochs", arguments->epochs,
                 "Local epochs of a client in a round")
      .Text(fmt::format("N={}", arguments->epochs));
  demo.AddOption("--seed", arguments->seed, "Of everything random")
      .Text(fmt::format("N={}", arguments->seed));
  demo.AddOption("--data", arguments->data,
                 "Data set; synthetic needs no download")
      .Text("NAME=" + arguments->data);
  demo.AddOption("--out", arguments->out,
                 "Keep the results, in DIR/fedavg and DIR/fedmrn")
      .Text("DIR");
  demo.Footer(
      "100 clients with equal shares of the data, 10 of them in each round.\n"
      "All settings are the same for both methods except the learning rate,\n"
      "which is each method's own in the paper. The upload is the sum of the\n"
      "lengths of all frames; compression is FedAvg's over this one's.");
  demo.Do([arguments] { return Demo(*arguments); });
}

}  // namespace fedmrn::cli
