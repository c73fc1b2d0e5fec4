// fedmrn bench run: what a round of ten clients is made of. One worker, so that
// the seconds of its parts add up to those of the round.
#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fedmrn/cli/bench.h"
#include "fedmrn/sim/run.h"

namespace fedmrn::cli {
namespace {

struct BenchRunOptions {
  std::string method = "fedmrn";
  uint32_t repeats = 5;
  bool json = false;
};

Result<std::vector<BenchRow>> Measure(const BenchRunOptions& options) {
  // The paper's clients of Fashion-MNIST, for one epoch: a tenth of its
  // training, so that the rest weighs ten times as much as there.
  const sim::Config config = FEDMRN_TRY(sim::ParseConfig(
      "", "",
      std::vector<std::string>{
          "data.name=synthetic", "data.train_examples=6000",
          "data.test_examples=10000", "model.name=cnn4", "partition.kind=iid",
          "partition.clients=10", "train.epochs=1", "run.workers=1",
          "run.checkpoint_every=1", "method.name=" + options.method,
          fmt::format("rounds.count={}", options.repeats + 1)}));
  std::error_code error;
  std::string folder =
      (std::filesystem::temp_directory_path(error) / "fedmrn-bench-XXXXXX")
          .string();
  if (mkdtemp(folder.data()) == nullptr) {
    return Error{ErrorCode::kFailed,
                 fmt::format("cannot make a folder for the run, {}: {}", folder,
                             std::strerror(errno))};
  }

  // From one round's end to the next's, whatever it does meanwhile.
  std::vector<double> rounds;
  Stopwatch watch;
  sim::RunOptions run;
  run.out = folder + "/run";
  run.version = FEDMRN_VERSION;
  run.on_round = [&](std::span<const results::RoundRow> rows) {
    if (rows.empty()) return;
    fmt::print(stderr, "round {} of {} ...\n", rows.back().round,
               options.repeats + 1);
    rounds.push_back(watch.seconds());
    watch = Stopwatch();
  };
  const Result<sim::RunResult> result = sim::Run(config, run);
  std::filesystem::remove_all(folder, error);
  if (!result) return result.error();
  rounds.erase(rounds.begin());  // the first, which also reads the data

  const auto share = [&](double (*part)(const results::RoundRow&)) {
    std::vector<double> shares;
    for (size_t i = 0; i < rounds.size(); ++i) {
      shares.push_back(part(result->rows[i + 1]) / rounds[i]);
    }
    return Median(shares);
  };
  using results::RoundRow;
  const double train = share([](const RoundRow& row) { return row.train_s; });
  const double test = share([](const RoundRow& row) { return row.eval_s; });
  return std::vector<BenchRow>{
      {"round_s", Median(rounds), "reported",
       "10 clients of 600 examples, 1 epoch, CNN4, one core"},
      {"train_share", train, "reported", "local training"},
      {"evaluate_share", test, "reported", "10,000 test examples"},
      {"encode_share", share([](const RoundRow& row) { return row.encode_s; }),
       "reported", options.method + "'s frames"},
      {"aggregate_share",
       share([](const RoundRow& row) { return row.aggregate_s; }), "reported",
       "parse, check, add, new model"},
      {"other_share", 1 - train - test, "<= 0.03",
       "all but training and evaluation: frames, sum, checkpoint, results"}};
}

int BenchRun(const BenchRunOptions& options) {
  const Result<std::vector<BenchRow>> rows = Measure(options);
  if (!rows) return Fail("fedmrn bench run", rows.error());
  PrintBench(*rows, options.json, {{"method", options.method}}, options.repeats,
             "rounds");
  return kExitOk;
}

}  // namespace

void AddBenchRun(Verb bench) {
  const Verb run =
      bench.AddVerb("run", "A whole round of ten clients, part by part");
  auto options = std::make_shared<BenchRunOptions>();
  run.AddOption("--method", options->method, "What clients upload")
      .OneOf(MethodNames())
      .ShowDefault();
  run.AddOption("--repeats", options->repeats, "Rounds")
      .Between(1, 1000)
      .ShowDefault();
  run.AddFlag("--json", options->json, "Print a JSON object");
  run.Do([options] { return BenchRun(*options); });
}

}  // namespace fedmrn::cli
