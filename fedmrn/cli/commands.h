// The verbs of the fedmrn program: one file each. A verb adds its subcommand
// and sets `exit_code` when it has run.
#pragma once

#include <CLI/CLI.hpp>

namespace fedmrn::cli {

// Of every verb: done, or the input was wrong (after a message on stderr).
inline constexpr int kExitOk = 0, kExitBadInput = 2;

void AddBench(CLI::App& app, int& exit_code);
void AddDemo(CLI::App& app, int& exit_code);
void AddInspect(CLI::App& app, int& exit_code);

}  // namespace fedmrn::cli
