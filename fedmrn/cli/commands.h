// The verbs of the fedmrn program: one file each. A verb adds itself to the
// program, with its arguments and its work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/cli/arguments.h"
#include "fedmrn/cli/exit.h"
#include "fedmrn/sim/config.h"

namespace fedmrn::cli {

void AddAggregate(Verb program);
void AddBench(Verb program);
void AddCodecs(Verb program);
void AddCompare(Verb program);
void AddData(Verb program);
void AddDemo(Verb program);
void AddInspect(Verb program);
void AddPartition(Verb program);
void AddReport(Verb program);
void AddRun(Verb program);
void AddTheory(Verb program);
void AddTune(Verb program);

// For verbs that take a config: --set, and a flag for each key. What is given
// goes to `settings` as ParseSetting takes it, in the order of the command
// line. One verb lists the keys in its help; the others say which does.
enum class ConfigHelp { kLists, kRefers };
void AddConfigOptions(Verb verb, std::vector<std::string>& settings,
                      ConfigHelp help = ConfigHelp::kRefers);

// The config in a file, or without one (an empty name) the defaults, with the
// settings over it.
Result<sim::Config> ReadConfig(const std::string& file,
                               const std::vector<std::string>& settings);

// For verbs that run a grid: --out and --jobs.
void AddGridRunOptions(Verb verb, std::string& out,
                       const std::string& default_out, uint32_t& jobs);

}  // namespace fedmrn::cli
