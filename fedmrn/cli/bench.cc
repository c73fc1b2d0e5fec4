#include "fedmrn/cli/bench.h"

namespace fedmrn::cli {

void AddBench(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Measure speed, each figure beside its baseline");
  bench->require_subcommand(1);
  AddBenchCore(*bench, exit_code);
  AddBenchTrain(*bench, exit_code);
}

}  // namespace fedmrn::cli
