#include <fmt/core.h>

#include <exception>

#include "fedmrn/cli/commands.h"

int main(int argc, char** argv) {
  using namespace fedmrn::cli;
  CLI::App app{
      "FedMRN: federated learning that uploads one bit per parameter.\n"
      "Every figure about upload is a sum of real frame lengths.",
      "fedmrn"};
  app.footer(
      "Exit codes: 0 done, 1 the work failed (a full disk, a lost connection, "
      "no\ngnuplot), 2 wrong arguments, files or data, 130 stopped by Ctrl-C.");
  app.set_version_flag("--version", "fedmrn " FEDMRN_VERSION);
  app.require_subcommand(0, 1);  // none: says so below, naming stray words
  app.failure_message(CLI::FailureMessage::help);
  int exit_code = kExitOk;
  AddRun(app, exit_code);
  AddCompare(app, exit_code);
  AddReport(app, exit_code);
  AddTune(app, exit_code);
  AddTheory(app, exit_code);
  AddDemo(app, exit_code);
  AddData(app, exit_code);
  AddPartition(app, exit_code);
  AddCodecs(app, exit_code);
  AddInspect(app, exit_code);
  AddBench(app, exit_code);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) {
      fmt::print(stderr, "fedmrn: say what to do\n{}", app.help());
      return kExitBadInput;
    }
  } catch (const CLI::ParseError& error) {
    // 0 for --help and --version.
    return app.exit(error) == 0 ? kExitOk : kExitBadInput;
  } catch (const std::exception& error) {
    fmt::print(stderr, "fedmrn: {}\n", error.what());
    return kExitFailed;
  }
  return exit_code;
}
