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
#include "fedmrn/client/fault_settings.h"

namespace fedmrn::sim {

struct Config {
  uint64_t seed = 1;
  struct {
    std::string name = "fmnist";
    std::string dir;
    std::string path, test_path;  // the user's own data
    uint64_t train_examples = 0;
    uint64_t test_examples = 0;
    double fraction = 0.2;
    uint32_t image_size = 0;
    uint32_t crop = 480;
    bool erase = true;
    bool skip_bad = false;
  } data;
  struct {
    std::string kind = "iid";  // iid | dirichlet | labels | natural
    uint32_t clients = 100;
    uint32_t labels_per_client = 3;
    std::string labels_assignment = "random";  // random | cyclic
    double alpha = 0.3;
    uint32_t min_examples = 10;  // dirichlet
  } partition;
  struct {
    std::string name = "cnn4";  // default: the data set's
    std::string torchscript;
    std::string masked;
    std::string loss = "auto";
    std::string backbone;
    double head_lr = 10;
  } model;
  struct {
    std::string name = "fedmrn";
    std::string noise = "uniform";   // uniform | gaussian | bernoulli
    double magnitude = 0;            // default: the method's
    bool stochastic = true;          // SM; false: DM
    bool progressive = true;         // PM
    std::string update = "float32";  // float32 | float16: of fedavg
    std::string dense = "float32";   // float32 | float16: what is not masked
    double keep = 0.03;
    double clip = 2.5;
    bool unbiased = false;
    uint32_t bits = 1;
    bool error_feedback = false;
    std::string optimizer = "adam";  // adam | sgd: of fedpm's scores
    uint32_t reset_every = 1;
  } method;
  struct {
    uint32_t epochs = 10;
    uint32_t batch = 64;
    double lr = 0;  // default: the method's
    double momentum = 0;
    double weight_decay = 0;
    bool drop_last = false;
  } train;
  struct {
    uint32_t count = 100;
    uint32_t clients_per_round = 10;
    uint32_t min_clients = 1;
    std::string weight = "examples";  // examples | batches | equal
    double deadline_s = 0;            // 0: never
  } rounds;
  client::FaultSettings faults;  // injected
  struct {
    uint32_t workers = 0;  // 0: one per core
    uint32_t checkpoint_every = 1;
    uint32_t eval_every = 1;
    bool tensorboard = true;
  } run;
};

// One row per key: the table behind parsing, flags, help and run.json.
struct ConfigKey {
  std::string_view name;  // "train.lr"
  std::string_view type;  // "integer", "number", "true/false", "text"
  std::string_view help;
  std::string_view choices;  // "iid|dirichlet|labels|natural", or empty
  bool changes_results;      // false: may differ when a run is resumed
};
std::span<const ConfigKey> ConfigKeys();

// A key with its value, from elsewhere than a config's own text.
struct ConfigSetting {
  std::string key;    // "train.lr"
  std::string value;  // as TOML writes it
  std::string place;  // for messages: "--set train.lr=0.1", "grid.toml:7"
};
// From "key=value"; text needs no quotes.
Result<ConfigSetting> ParseSetting(std::string_view text, std::string place);

// `text` is TOML (may be empty), `file` its name for messages; `settings` are
// "key=value" and win over the text, in their order. The error has one line per
// mistake: "FILE:LINE: train.lrr: unknown key, did you mean train.lr?", or
// "--set train.lrr=1: train.lrr: ...". Text in settings needs no quotes.
// What only the data can tell is not checked: whether a partition is possible
// and how many clients a natural one has.
Result<Config> ParseConfig(std::string_view text, std::string_view file,
                           std::span<const std::string> settings);
Result<Config> LoadConfig(const std::string& path,
                          std::span<const std::string> settings);
// The same from settings alone.
Result<Config> MakeConfig(std::span<const ConfigSetting> settings);

// Every key with its value, in the table's order, values as TOML would write
// them: {"train.lr", "0.1"}.
std::vector<std::pair<std::string, std::string>> ConfigValues(
    const Config& config);
// As a TOML document that ParseConfig reads back to the same Config.
std::string ConfigToml(const Config& config);

}  // namespace fedmrn::sim
