#include "fedmrn/cli/main.h"

#include <filesystem>
#include <string>

#include "fedmrn/cli/commands.h"

namespace fedmrn::cli {

int Main(int argc, char** argv) {
  const std::string name =
      argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  Program program(
      name.empty() ? "fedmrn" : name, FEDMRN_VERSION,
      "FedMRN: federated learning that uploads one bit per parameter.\n"
      "Every figure about upload is a sum of real frame lengths.");
  const Verb verb = program.verb();
  verb.Footer(
      "Exit codes: 0 done, 1 the work failed (a full disk, a lost connection, "
      "no\ngnuplot), 2 wrong arguments, files or data, 130 stopped by Ctrl-C.");
  AddRun(verb);
  AddCompare(verb);
  AddReport(verb);
  AddTune(verb);
  AddTheory(verb);
  AddDemo(verb);
  AddData(verb);
  AddPartition(verb);
  AddCodecs(verb);
  AddInspect(verb);
  AddAggregate(verb);
  AddBench(verb);
  return program.Run(argc, argv);
}

}  // namespace fedmrn::cli
