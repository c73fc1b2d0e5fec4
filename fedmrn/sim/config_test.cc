// What configs are read as and written as; config_mistakes_test.cc has those
// that are refused.
#include "fedmrn/sim/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/files.h"
#include "fedmrn/results/results.h"

namespace fedmrn::sim {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

// The config of the README.
constexpr char kExample[] = R"(seed = 1
[data]
name = "fmnist"             # fmnist | svhn | cifar10 | cifar100 | synthetic
[partition]
kind = "labels"             # iid | dirichlet | labels | natural
clients = 100
labels_per_client = 3       # labels
alpha = 0.3                 # dirichlet
[model]
name = "cnn4"
[method]
name = "fedmrn"             # fedavg | fedmrn | fedmrns | ...
noise = "uniform"           # uniform | gaussian | bernoulli
magnitude = 0.01            # 0.005 for fedmrns
stochastic = true           # SM (false: DM)
progressive = true          # PM
[train]
epochs = 10
batch = 64
lr = 0.1                    # 0.03 for fedavg
momentum = 0.0
weight_decay = 0.0
[rounds]
count = 100
clients_per_round = 10
min_clients = 1
[run]
workers = 0                 # 0: one per core
checkpoint_every = 1
eval_every = 1
)";

Config MustParse(std::string_view text,
                 const std::vector<std::string>& settings = {}) {
  Result<Config> config = ParseConfig(text, "a.toml", settings);
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config.ok() ? *config : Config{};
}

TEST(ConfigTest, Example) {
  const Values expected = {
      {"seed", "1"},
      {"data.name", "\"fmnist\""},
      {"data.dir", "\"\""},
      {"data.path", "\"\""},
      {"data.test_path", "\"\""},
      {"data.train_examples", "0"},
      {"data.test_examples", "0"},
      {"data.validation", "0.0"},
      {"data.fraction", "0.2"},
      {"data.image_size", "0"},
      {"data.crop", "480"},
      {"data.erase", "true"},
      {"data.skip_bad", "false"},
      {"partition.kind", "\"labels\""},
      {"partition.clients", "100"},
      {"partition.labels_per_client", "3"},
      {"partition.labels_assignment", "\"random\""},
      {"partition.alpha", "0.3"},
      {"partition.min_examples", "10"},
      {"partition.seed", "1"},
      {"model.name", "\"cnn4\""},
      {"model.torchscript", "\"\""},
      {"model.masked", "\"\""},
      {"model.loss", "\"auto\""},
      {"model.init", "\"\""},
      {"model.norm", "\"batch\""},
      {"model.backbone", "\"\""},
      {"model.head_lr", "10.0"},
      {"method.name", "\"fedmrn\""},
      {"method.noise", "\"uniform\""},
      {"method.magnitude", "0.01"},
      {"method.target_ones", "0.1"},
      {"method.stochastic", "true"},
      {"method.progressive", "true"},
      {"method.coding", "\"entropy\""},
      {"method.update", "\"float32\""},
      {"method.dense", "\"float32\""},
      {"method.keep", "0.03"},
      {"method.clip", "2.5"},
      {"method.bits", "1"},
      {"method.error_feedback", "false"},
      {"method.decoded_statistics", "false"},
      {"method.local", "\"\""},
      {"method.optimizer", "\"adam\""},
      {"method.reset_every", "1"},
      {"train.epochs", "10"},
      {"train.batch", "64"},
      {"train.optimizer", "\"sgd\""},
      {"train.lr", "0.1"},
      {"train.lr_schedule", "\"constant\""},
      {"train.lr_rounds", "0"},
      {"train.lr_factor", "0.1"},
      {"train.momentum", "0.0"},
      {"train.weight_decay", "0.0"},
      {"train.clip_grad", "0.0"},
      {"train.prox_mu", "0.0"},
      {"train.drop_last", "false"},
      {"server.optimizer", "\"none\""},
      {"server.lr", "1.0"},
      {"server.beta1", "0.9"},
      {"server.beta2", "0.99"},
      {"server.tau", "0.001"},
      {"rounds.count", "100"},
      {"rounds.target_accuracy", "0.0"},
      {"rounds.patience", "0"},
      {"rounds.clients_per_round", "10"},
      {"rounds.sampling", "\"uniform\""},
      {"rounds.min_clients", "1"},
      {"rounds.weight", "\"examples\""},
      {"rounds.deadline_s", "0.0"},
      {"rounds.max_weight_share", "1.0"},
      {"rounds.clip_norm", "0.0"},
      {"faults.drop", "0.0"},
      {"faults.crash", "0.0"},
      {"faults.corrupt", "0.0"},
      {"faults.delay", "0.0"},
      {"faults.delay_s", "1.0"},
      {"faults.hostile", "0.0"},
      {"faults.attack", "\"flip\""},
      {"run.workers", "0"},
      {"run.threads_per_client", "1"},
      {"run.checkpoint_every", "1"},
      {"run.eval_every", "1"},
      {"run.eval_clients", "0"},
      {"run.tensorboard", "true"},
  };
  EXPECT_EQ(ConfigValues(MustParse(kExample)), expected);
}

TEST(ConfigTest, DefaultsAreTheMethods) {
  struct Case {
    std::string method;
    float lr, magnitude;
  };
  for (const Case& c :
       {Case{"fedavg", 0.03f, 0}, Case{"fedmrn", 0.1f, 0.01f},
        Case{"fedmrns", 0.1f, 0.005f}, Case{"fedpm", 0.1f, 0},
        Case{"eden", 0.03f, 0}, Case{"fedavg-sm", 0.03f, 0.01f}}) {
    const Config config = MustParse("", {"method.name=" + c.method});
    EXPECT_EQ(config.train.lr, c.lr);
    EXPECT_EQ(config.method.mask.magnitude, c.magnitude);
    const Config given = MustParse(
        "train.lr = 1", {"method.name=" + c.method, "method.magnitude=0.5"});
    EXPECT_EQ(given.train.lr, 1);
    EXPECT_EQ(given.method.mask.magnitude, 0.5);
    EXPECT_EQ(given.method.codec.scale, 0.5);
  }
}

TEST(ConfigTest, AdamHasARateOfItsOwn) {
  EXPECT_EQ(MustParse("", {"train.optimizer=adam"}).train.lr, 0.001f);
  EXPECT_EQ(MustParse("", {"train.optimizer=adamw", "train.lr=0.5"}).train.lr,
            0.5f);
}

TEST(ConfigTest, DefaultsAreTheDataSets) {
  EXPECT_EQ(MustParse("", {"data.name=cifar10"}).partition.kind,
            PartitionKind::kIid);
  EXPECT_EQ(MustParse("", {"data.name=cifar10"}).model.name, "cnn8");
  const Config roles = MustParse("data.name = 'shakespeare'");
  EXPECT_EQ(roles.partition.kind, PartitionKind::kNatural);
  EXPECT_EQ(roles.model.name, "charlstm");
  EXPECT_EQ(MustParse("partition.kind = 'iid'", {"data.name=shakespeare"})
                .partition.kind,
            PartitionKind::kIid);
}

TEST(ConfigTest, SettingsWinInTheirOrder) {
  const Config config =
      MustParse("seed = 2\ntrain.lr = 0.5",
                {"train.lr=0.25", "train.lr=1e-3", "data.name=svhn",
                 "data.dir=/a b/=\"c\"", "method.stochastic=false",
                 "partition.kind=\"iid\"", "train.momentum=0"});
  EXPECT_EQ(config.seed, 2u);
  EXPECT_EQ(config.train.lr, 0.001f);
  EXPECT_EQ(config.data.name, "svhn");
  EXPECT_EQ(config.data.dir, "/a b/=\"c\"");
  EXPECT_FALSE(config.method.mask.stochastic);
  EXPECT_FALSE(config.method.codec.stochastic);
  EXPECT_EQ(config.partition.kind, PartitionKind::kIid);
  // Who has which examples does not follow from the seed.
  EXPECT_EQ(config.data.seed, 1u);
  EXPECT_EQ(config.partition.seed, 1u);
  EXPECT_EQ(MustParse("", {"partition.seed=5"}).data.seed, 5u);
  // Text may look like anything else.
  EXPECT_EQ(MustParse("", {"data.dir=2024"}).data.dir, "2024");
  EXPECT_EQ(MustParse("", {"data.dir="}).data.dir, "");
  EXPECT_EQ(MustParse("", {"data.dir=\"a\\tb\""}).data.dir, "a\tb");
  EXPECT_EQ(MustParse("", {"data.dir=#1"}).data.dir, "#1");
}

TEST(ConfigTest, NumbersMayBeIntegers) {
  EXPECT_EQ(MustParse("train.lr = 1").train.lr, 1.0);
  EXPECT_EQ(MustParse("seed = 9223372036854775807").seed, 0x7FFFFFFFFFFFFFFFu);
  EXPECT_EQ(MustParse("rounds.count = 4294967295").rounds.count, 4294967295u);
}

TEST(ConfigTest, MagnitudesThatTheServerSteers) {
  for (const char* setting :
       {"method.magnitude=auto", "--method.magnitude=\"auto\""}) {
    const Config config = MustParse("", {setting, "method.name=fedmrns"});
    EXPECT_TRUE(config.method.mask.steered());
    EXPECT_EQ(config.method.mask.first_magnitude, 0.005f);
    EXPECT_EQ(config.method.mask.target_ones, 0.1);
    const std::string text = ConfigToml(config);
    EXPECT_NE(text.find("magnitude = \"auto\"\n"), std::string::npos);
    EXPECT_EQ(ConfigToml(MustParse(text)), text);
  }
  EXPECT_FALSE(MustParse("").method.mask.steered());
}

TEST(ConfigTest, WhatIsPossibleAfterAll) {
  MustParse("", {"method.name=fedavg", "method.magnitude=0"});
  MustParse("", {"method.magnitude=16"});
  MustParse("", {"method.name=signsgd", "method.magnitude=0"});
  MustParse("", {"method.name=topk", "method.error_feedback=true"});
  // The number of natural clients is the data's.
  MustParse("[partition]\nkind = \"natural\"\nclients = 1");
  MustParse("[faults]\ndrop = 0.1\ncrash = 0.2\ncorrupt = 0.3\ndelay = 0.4");
}

TEST(ConfigTest, RoundTrip) {
  Config config;
  config.seed = 0x7FFFFFFFFFFFFFFF;
  config.data.dir = "a \"b\"\\\n\t\x7f \xc3\xa9";
  config.partition.clients = 0xFFFFFFFF;
  config.partition.alpha = std::numeric_limits<double>::denorm_min();
  config.method.name = "fedavg";
  config.method.mask.progressive = false;
  config.train.lr = 1.0f / 3;
  config.train.weight_decay = 123456789012345678901.0f;
  config.train.momentum = 0.1f + 0.2f;
  config.faults.delay_s = 1e300;
  config.faults.drop = 1;
  config.run.tensorboard = false;
  for (const Config& c : {config, MustParse(kExample), MustParse("")}) {
    const std::string text = ConfigToml(c);
    EXPECT_EQ(ConfigValues(MustParse(text)), ConfigValues(c)) << text;
    // The values are settings, too.
    std::vector<std::string> settings;
    for (const auto& [name, value] : ConfigValues(c)) {
      settings.push_back(name + "=" + value);
    }
    EXPECT_EQ(ConfigValues(MustParse("", settings)), ConfigValues(c));
  }
  const Config again = MustParse(ConfigToml(config));
  EXPECT_EQ(again.train.lr, config.train.lr);
  EXPECT_EQ(again.train.weight_decay, config.train.weight_decay);
  EXPECT_EQ(again.partition.alpha, config.partition.alpha);
  EXPECT_EQ(again.data.dir, config.data.dir);
}

TEST(ConfigTest, Keys) {
  const Values values = ConfigValues(Config{});
  ASSERT_EQ(ConfigKeys().size(), values.size());
  std::set<std::string_view> names;
  for (size_t i = 0; i < values.size(); ++i) {
    const ConfigKey& key = ConfigKeys()[i];
    EXPECT_EQ(key.name, values[i].first);
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_FALSE(key.help.empty()) << key.name;
    const bool place = key.name == "data.dir" || key.name == "data.path" ||
                       key.name == "data.test_path" ||
                       key.name == "model.torchscript" ||
                       key.name == "model.init" || key.name == "model.backbone";
    const bool program =
        key.name.starts_with("run.") && key.name != "run.threads_per_client";
    EXPECT_EQ(key.changes_results, !place && !program) << key.name;
  }
  EXPECT_EQ(ConfigKeys()[0].type, "integer");
}

TEST(ConfigTest, SchedulesEndWithTheRun) {
  EXPECT_EQ(MustParse("", {"rounds.count=7"}).train.lr_rounds, 0u);
  const std::vector<std::string> cosine = {"train.lr_schedule=cosine",
                                           "rounds.count=7"};
  EXPECT_EQ(MustParse("", cosine).train.lr_rounds, 7u);
  EXPECT_EQ(MustParse("", {"train.lr_schedule=step", "train.lr_rounds=3"})
                .train.lr_rounds,
            3u);
}

TEST(ConfigTest, DocsHaveAllKeys) {
  const Result<Bytes> doc = ReadFile(FEDMRN_SOURCE_DIR "/docs/keys.md");
  ASSERT_TRUE(doc);
  EXPECT_EQ(AsText(*doc), KeysMarkdown())
      << "fedmrn run --print-keys > docs/keys.md";
}

TEST(ConfigTest, ExplainedTomlIsTheSameConfig) {
  const Config config =
      MustParse("", {"method.name=topk", "method.keep=0.5", "seed=7"});
  const std::string text = ExplainedConfigToml(config);
  EXPECT_EQ(ConfigToml(MustParse(text)), ConfigToml(config));
  EXPECT_NE(
      text.find("# topk, fedsparsify: the share that is sent\nkeep = 0.5"),
      std::string::npos);
  EXPECT_EQ(text.find("magnitude"), std::string::npos) << "topk reads none";
}

TEST(ConfigTest, DescribesKeys) {
  const ConfigKey lr = DescribeKey("train.lr");
  EXPECT_EQ(lr.short_name, "lr");
  EXPECT_EQ(lr.role, KeyRole::kTuning);
  EXPECT_EQ(DescribeKey("train.epochs").role, KeyRole::kSetting);
  EXPECT_EQ(DescribeKey("server.lr").short_name, "server.lr");
  EXPECT_EQ(DescribeKey("seed").role, KeyRole::kSeed);
  EXPECT_EQ(DescribeKey("partition.clients").role, KeyRole::kData);
  EXPECT_EQ(DescribeKey("partition.alpha").role, KeyRole::kPartition);
  // Another version may have this one.
  const ConfigKey unknown = DescribeKey("method.sparkle");
  EXPECT_EQ(unknown.short_name, "sparkle");
  EXPECT_EQ(unknown.role, KeyRole::kMethod);
  EXPECT_TRUE(unknown.changes_results);
  EXPECT_TRUE(unknown.type.empty());
  EXPECT_FALSE(DescribeKey("run.sparkle").changes_results);
}

TEST(ConfigTest, RowsOwnTheirKeys) {
  const auto owners = [](std::string_view key) {
    std::string names;
    for (const std::string_view name : DescribeKey(key).owners) {
      names += (names.empty() ? "" : " ") + std::string(name);
    }
    return names;
  };
  EXPECT_EQ(owners("method.keep"), "fedsparsify topk");
  EXPECT_EQ(owners("method.progressive"), "fedmrn fedmrns");
  EXPECT_EQ(owners("method.reset_every"), "fedpm");
  EXPECT_EQ(owners("method.dense"), "");
  EXPECT_EQ(owners("data.crop"), "voc");
  EXPECT_EQ(owners("data.train_examples"), "");
  EXPECT_EQ(owners("model.head_lr"), "bisenetv2");
  EXPECT_EQ(owners("partition.alpha"), "dirichlet");
  EXPECT_EQ(owners("server.lr"), "momentum adam yogi");
  EXPECT_EQ(owners("server.tau"), "adam yogi");
  EXPECT_EQ(owners("partition.clients"), "");
}

TEST(ConfigTest, Load) {
  const auto message = [](const std::string& path) {
    const Result<Config> config = LoadConfig(path, {});
    return config.ok() ? "" : config.error().message;
  };
  EXPECT_EQ(message("/no/such.toml"),
            "/no/such.toml: cannot read it: No such file or directory");
  EXPECT_EQ(message("/tmp"), "/tmp: cannot read it: Is a directory");
}

TEST(ConfigTest, EveryConfigOfTheRepository) {
  size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(FEDMRN_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".toml") continue;
    const Result<Config> config = LoadConfig(entry.path(), {});
    ASSERT_TRUE(config.ok()) << config.error().message;
    // DATASET-PARTITION-METHOD.toml tells what it holds; the appendix's tasks
    // have one partition only.
    const std::string kind(NameOf(config->partition.kind, kPartitionKinds));
    const bool only =
        config->data.name == "shakespeare" || config->data.name == "voc";
    EXPECT_EQ(entry.path().stem(), config->data.name +
                                       (only                  ? ""
                                        : kind == "dirichlet" ? "-noniid1"
                                        : kind == "labels"    ? "-noniid2"
                                                              : "-" + kind) +
                                       "-" + config->method.name);
    ++files;
  }
  EXPECT_EQ(files, 44u);
}

TEST(ConfigValues, RunJsonHasEveryKey) {
  const nlohmann::json run =
      nlohmann::json::parse(results::RunJson(ConfigValues({}), {}, {}));
  for (const ConfigKey& key : ConfigKeys()) {
    std::string path = "/" + std::string(key.name);
    if (const size_t dot = path.find('.'); dot != path.npos) path[dot] = '/';
    const nlohmann::json::json_pointer at(path);
    ASSERT_TRUE(run["config"].contains(at)) << path;
    const nlohmann::json& value = run["config"].at(at);
    if (key.type == "text") {
      EXPECT_TRUE(value.is_string()) << path;
    } else if (key.type == "true/false") {
      EXPECT_TRUE(value.is_boolean()) << path;
    } else {
      EXPECT_TRUE(value.is_number()) << path;
    }
  }
}

}  // namespace
}  // namespace fedmrn::sim
