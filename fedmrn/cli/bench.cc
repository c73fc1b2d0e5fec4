#include "fedmrn/cli/bench.h"

namespace fedmrn::cli {

void AddBench(Verb program) {
  const Verb bench = program.AddVerb(
      "bench", "Measure speed, each figure beside its baseline");
  bench.NeedsVerb();
  AddBenchCore(bench);
  AddBenchTrain(bench);
  AddBenchRun(bench);
  AddBenchCluster(bench);
}

}  // namespace fedmrn::cli
