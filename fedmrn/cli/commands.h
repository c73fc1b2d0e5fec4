// The verbs of the fedmrn program: one file each. A verb adds its subcommand
// and sets `exit_code` when it has run.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/cli/exit.h"
#include "fedmrn/sim/config.h"

namespace fedmrn::cli {

void AddBench(CLI::App& app, int& exit_code);
void AddCodecs(CLI::App& app, int& exit_code);
void AddCompare(CLI::App& app, int& exit_code);
void AddData(CLI::App& app, int& exit_code);
void AddDemo(CLI::App& app, int& exit_code);
void AddInspect(CLI::App& app, int& exit_code);
void AddPartition(CLI::App& app, int& exit_code);
void AddReport(CLI::App& app, int& exit_code);
void AddRun(CLI::App& app, int& exit_code);
void AddTheory(CLI::App& app, int& exit_code);
void AddTune(CLI::App& app, int& exit_code);

// For verbs that take a config: --set, and a flag for each key. What is given
// goes to `settings` as "key=value", in the order of the command line.
void AddConfigOptions(CLI::App& verb, std::vector<std::string>& settings);

// The config in a file, or without one (an empty name) the defaults, with the
// settings over it.
Result<sim::Config> ReadConfig(const std::string& file,
                               const std::vector<std::string>& settings);

// For verbs that run a grid: --out and --jobs.
void AddGridRunOptions(CLI::App& verb, std::string& out,
                       const std::string& default_out, uint32_t& jobs);

}  // namespace fedmrn::cli
