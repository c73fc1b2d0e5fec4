// A run's configuration: TOML, key=value settings and flags end in one checked
// struct. Everything downstream may rely on Config being possible.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/base/settings.h"
#include "fedmrn/client/fault_settings.h"
#include "fedmrn/sim/partition.h"
#include "fedmrn/sim/sampling.h"
#include "fedmrn/sim/server_optimizer.h"
#include "fedmrn/train/data/dataset.h"
#include "fedmrn/train/method/method.h"
#include "fedmrn/train/model/model.h"

namespace fedmrn::sim {

// What a client's update is weighted by in a round's mean.
enum class ClientWeight { kExamples, kBatches, kEqual };

struct RoundsSettings {
  uint32_t count = 100;
  double target_accuracy = 0;  // a run that reaches it ends; 0: none does
  uint32_t patience = 0;  // as does one without a new best for so many rounds
  uint32_t clients_per_round = 10;  // all: as many as there are
  Sampling sampling = Sampling::kUniform;
  uint32_t min_clients = 1;
  ClientWeight weight = ClientWeight::kExamples;
  double deadline_s = 0;  // who has not answered by then is dropped; 0: never
  double max_weight_share = 1;  // of one client, of all that were asked
  double clip_norm = 0;  // longer updates than so many medians are cut; 0: none
};

struct RunSettings {
  uint32_t workers = 0;  // 0: as many as use all cores
  uint32_t threads_per_client = 1;
  uint32_t checkpoint_every = 1;
  uint32_t eval_every = 1;
  uint32_t eval_clients = 0;  // see client_tests.h
  bool tensorboard = true;
};

// The settings of each part of the program, as it takes them. What follows from
// others (the partition's seed in data, what the codec is told of the mask)
// is filled in by the parser.
struct Config {
  uint64_t seed = 1;
  train::DataSettings data = {.name = "fmnist"};
  PartitionSettings partition;                    // default: the data set's
  train::ModelSettings model = {.name = "cnn4"};  // default: the data set's
  train::MethodSettings method = {.name = "fedmrn"};
  train::TrainSettings train;  // default: the method's learning rate
  ServerSettings server;       // default: the optimizer's learning rate
  RoundsSettings rounds;
  client::FaultSettings faults;  // injected
  RunSettings run;
};

// What there is to know about a key: the table behind parsing, flags, help,
// run.json and whoever compares runs.
struct ConfigKey {
  std::string_view name;        // "train.lr"
  std::string_view short_name;  // "lr"
  std::string_view type;        // "integer", "number", "true/false", "text"
  std::string_view help;
  std::string_view choices;  // "iid|dirichlet|labels|natural", or empty
  KeyRole role;
  bool changes_results;  // false: may differ when a run is resumed
  // The names of the rows that read it (methods, data sets, networks, kinds of
  // partition); empty: all do.
  std::span<const std::string_view> owners;
};
// The keys of each part of the program, then those of its rows that were
// registered, when this is first called or a config is first parsed.
std::span<const ConfigKey> ConfigKeys();
// The key of this name. Of one that this program does not know, as runs of
// other versions have, it tells what is the same for all of its section.
ConfigKey DescribeKey(std::string_view name);

inline constexpr std::string_view kSeedKey = "seed";
// Whether runs that differ in this key alone are repeats of one experiment: the
// seed of the partition makes no other partition to compare with.
constexpr bool RepeatsRuns(std::string_view key) {
  return key == kSeedKey || key == "partition.seed";
}

// A key with its value, from elsewhere than a config's own text.
struct ConfigSetting {
  std::string key;    // "train.lr"
  std::string value;  // as TOML writes it
  std::string place;  // for messages: "--set train.lr=0.1", "grid.toml:7"
};
// Reads "key=value"; text needs no quotes.
Result<ConfigSetting> ParseSetting(std::string_view text, std::string place);
// The same from a command line, whose place is what was typed: "key=value" as
// of --set, or "--key=value" as of a flag.
Result<ConfigSetting> ParseSetting(std::string_view text);

// `text` is TOML (may be empty), `file` its name for messages; `settings` are
// "key=value" or "--key=value" and win over the text, in their order. The error
// has one line per mistake: "FILE:LINE: train.lrr: unknown key, did you mean
// train.lr?", or
// "--set train.lrr=1: train.lrr: ...". Text in settings needs no quotes.
// What only the data can tell is not checked: whether a partition is possible
// and how many clients a natural one has.
Result<Config> ParseConfig(std::string_view text, std::string_view file,
                           std::span<const std::string> settings);
Result<Config> LoadConfig(const std::string& path,
                          std::span<const std::string> settings);
// Makes one from settings alone.
Result<Config> MakeConfig(std::span<const ConfigSetting> settings);

// Every key with its value, in the table's order, values as TOML would write
// them: {"train.lr", "0.1"}.
std::vector<std::pair<std::string, std::string>> ConfigValues(
    const Config& config);
// Writes a TOML document that ParseConfig reads back to the same Config.
std::string ConfigToml(const Config& config);
// The same with what each key means, and only the keys that its rows read.
std::string ExplainedConfigToml(const Config& config);
// All keys as a table of Markdown: docs/keys.md.
std::string KeysMarkdown();

// Whether its default follows from others', as that of train.lr does from the
// method.
bool HasFixedDefault(const ConfigKey& key);

// In all frames of the run: a hash of all settings that are part of it, but
// not of what befalls it (faults, a deadline) nor of how long it is.
uint64_t RunId(const Config& config);

}  // namespace fedmrn::sim
