// The verbs of the fedmrn program: one file each. A verb adds its subcommand
// and sets `exit_code` when it has run.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace fedmrn::cli {

// Of every verb: done, or the input was wrong (after a message on stderr).
inline constexpr int kExitOk = 0, kExitBadInput = 2;

void AddBench(CLI::App& app, int& exit_code);
void AddCodecs(CLI::App& app, int& exit_code);
void AddData(CLI::App& app, int& exit_code);
void AddDemo(CLI::App& app, int& exit_code);
void AddInspect(CLI::App& app, int& exit_code);
void AddPartition(CLI::App& app, int& exit_code);
void AddReport(CLI::App& app, int& exit_code);
void AddRun(CLI::App& app, int& exit_code);
void AddTheory(CLI::App& app, int& exit_code);

// For verbs that take a config: --set, and a flag for each key. What is given
// goes to `settings` as "key=value", in the order of the command line.
void AddConfigOptions(CLI::App& verb, std::vector<std::string>& settings);

}  // namespace fedmrn::cli
