// What is said of configs that cannot be: the words are part of the program.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/sim/config.h"

namespace fedmrn::sim {
namespace {

std::string Mistakes(std::string_view text,
                     const std::vector<std::string>& settings = {}) {
  const Result<Config> config = ParseConfig(text, "a.toml", settings);
  if (config.ok()) return "";
  EXPECT_EQ(config.error().code, ErrorCode::kBadValue);
  EXPECT_EQ(config.error().offset, Error::kNoOffset);
  return config.error().message;
}

struct BadCase {
  std::string text;
  std::string message;
};

TEST(ConfigTest, Mistakes) {
  const std::string epochs = "must be an integer of at least 1, not ";
  const BadCase cases[] = {
      // Names.
      {"\n[train]\nlrr = 1",
       "a.toml:3: train.lrr: unknown key, did you mean train.lr?"},
      {"[trian]\nlr = 1\nbatch = 2",
       "a.toml:1: trian: unknown section, did you mean train?"},
      {"[x]",
       "a.toml:1: x: unknown section; there are data, partition, model, "
       "method, train, server, rounds, faults and run"},
      {"lr = 1", "a.toml:1: lr: unknown key, did you mean train.lr?"},
      {"[train]\nmagnitude = 1",
       "a.toml:2: train.magnitude: unknown key, did you mean "
       "method.magnitude?"},
      {"[train]\nlearning_rate = 1",
       "a.toml:2: train.learning_rate: unknown key; [train] has epochs, batch, "
       "optimizer, lr, lr_schedule, lr_rounds, lr_factor, momentum, "
       "weight_decay, clip_grad, prox_mu and drop_last"},
      {"x = 1",
       "a.toml:1: x: unknown key; only seed stands outside of "
       "sections"},
      {"train = 1",
       "a.toml:1: train: is a section: write [train] and its keys below"},
      {"[[train]]\nlr = 1",
       "a.toml:1: train: is a section: write [train] and its keys below"},
      {"[data]\nname = \"fmist\"",
       "a.toml:2: data.name: must be fmnist, mnist, femnist, svhn, cifar10, "
       "cifar100, "
       "shakespeare, voc, synthetic, folder or npz, not \"fmist\", did you "
       "mean "
       "fmnist?"},
      {"[model]\nname = \"resnet\"",
       "a.toml:2: model.name: must be cnn4, cnn8, charlstm, bisenetv2 or "
       "torchscript, not \"resnet\""},
      {"[method]\nname = \"FedAvg\"",
       "a.toml:2: method.name: must be fedavg, fedpm, fedsparsify, "
       "signsgd, topk, terngrad, drive, drive-biased, eden, fedmrn, fedmrns, "
       "fedavg-sm, "
       "fedavg-sms or fedbat, not "
       "\"FedAvg\", did you mean fedavg?"},
      // Types.
      {"[train]\nlr = \"fast\"",
       "a.toml:2: train.lr: must be a number above 0, not \"fast\""},
      {"[train]\nepochs = 10.0",
       "a.toml:2: train.epochs: " + epochs + "10.0, write 10"},
      {"[train]\nepochs = 2.5", "a.toml:2: train.epochs: " + epochs + "2.5"},
      {"[train]\nepochs = true", "a.toml:2: train.epochs: " + epochs + "true"},
      {"[train]\nepochs = [1]", "a.toml:2: train.epochs: " + epochs + "a list"},
      {"[train.epochs]\nx = 1",
       "a.toml:1: train.epochs: " + epochs + "a section"},
      {"seed = 2020-01-01",
       "a.toml:1: seed: must be an integer of at least 0, "
       "not a date or time"},
      {"[seed]",
       "a.toml:1: seed: must be an integer of at least 0, not a "
       "section"},
      {"[method]\nstochastic = \"yes\"",
       "a.toml:2: method.stochastic: must be true or false, not \"yes\""},
      {"[data]\ndir = 1", "a.toml:2: data.dir: must be text in quotes, not 1"},
      // Values.
      {"[train]\nlr = nan",
       "a.toml:2: train.lr: must be a number above 0, not nan"},
      {"[train]\nlr = inf",
       "a.toml:2: train.lr: must be a number above 0, not inf"},
      {"[train]\nlr = 0",
       "a.toml:2: train.lr: must be a number above 0, not 0"},
      {"[train]\nlr = -0.1",
       "a.toml:2: train.lr: must be a number above 0, not -0.1"},
      {"[train]\nbatch = 0", "a.toml:2: train.batch: " + epochs + "0"},
      {"[train]\nbatch = -1", "a.toml:2: train.batch: " + epochs + "-1"},
      {"[train]\nbatch = 4294967296",
       "a.toml:2: train.batch: must be an integer from 1 to 4294967295, not "
       "4294967296"},
      {"[train]\nepochs = 0", "a.toml:2: train.epochs: " + epochs + "0"},
      {"[train]\nmomentum = 1",
       "a.toml:2: train.momentum: must be a number of at least 0 and below 1, "
       "not 1"},
      {"[train]\nmomentum = -0.5",
       "a.toml:2: train.momentum: must be a number of at least 0 and below 1, "
       "not -0.5"},
      {"[train]\nweight_decay = -1e-4",
       "a.toml:2: train.weight_decay: must be a number of at least 0, not "
       "-1e-04"},
      {"method.name = \"fedpm\"\n[train]\noptimizer = \"adam\"",
       "a.toml:3: train.optimizer: is for methods that train by the network's "
       "own gradient, not for fedpm"},
      {"method.name = \"fedbat\"\n[train]\nclip_grad = 1",
       "a.toml:3: train.clip_grad: is for methods that train by the network's "
       "own gradient, not for fedbat"},
      {"[rounds]\ncount = 0", "a.toml:2: rounds.count: " + epochs + "0"},
      {"[partition]\nalpha = 0",
       "a.toml:2: partition.alpha: must be a number above 0, not 0"},
      {"[partition]\nlabels_per_client = 0",
       "a.toml:2: partition.labels_per_client: " + epochs + "0"},
      {"[rounds]\nmin_clients = 0",
       "a.toml:2: rounds.min_clients: " + epochs + "0"},
      {"[run]\neval_every = 0", "a.toml:2: run.eval_every: " + epochs + "0"},
      {"[run]\ncheckpoint_every = 0",
       "a.toml:2: run.checkpoint_every: " + epochs + "0"},
      {"[faults]\ndrop = 1.5",
       "a.toml:2: faults.drop: must be a number from 0 to 1, not 1.5"},
      {"[faults]\ncorrupt = -0.5",
       "a.toml:2: faults.corrupt: must be a number from 0 to 1, not -0.5"},
      {"[method]\nmagnitude = 0",
       "a.toml:2: method.magnitude: must be a number above 0 (2^-64 or more) "
       "and at most 16 for fedmrn, not 0.0"},
      {"[method]\nname = \"fedmrns\"\nmagnitude = 1e-30",
       "a.toml:3: method.magnitude: must be a number above 0 (2^-64 or more) "
       "and at most 16 for fedmrns, not 1e-30"},
      {"[method]\nmagnitude = -1",
       "a.toml:2: method.magnitude: must be a number from 0 to 16 or \"auto\", "
       "not -1"},
      {"[method]\nmagnitude = 17",
       "a.toml:2: method.magnitude: must be a number from 0 to 16 or \"auto\", "
       "not 17"},
      {"[method]\nmagnitude = \"most\"",
       "a.toml:2: method.magnitude: must be a number from 0 to 16 or \"auto\", "
       "not \"most\""},
      {"[method]\nname = \"signsgd\"\nmagnitude = \"auto\"",
       "a.toml:3: method.magnitude: must be a number for signsgd: it has no "
       "noise to steer"},
      {"[method]\nstochastic = false\nmagnitude = \"auto\"",
       "a.toml:3: method.magnitude: must be a number where method.stochastic "
       "is "
       "false: the share of ones by which \"auto\" steers is then the same for "
       "any"},
      {"[method]\ntarget_ones = 0.5",
       "a.toml:2: method.target_ones: must be a number above 0 and below 0.5, "
       "not 0.5"},
      {"[method]\nkeep = 0",
       "a.toml:2: method.keep: must be a number above 0 and at most 1, not 0"},
      {"[method]\nbits = 5",
       "a.toml:2: method.bits: must be an integer from 1 to 4, not 5"},
      // Values that a float cannot hold.
      {"[train]\nlr = 1e300",
       "a.toml:2: train.lr: must be a number above 0 and at most "
       "3.4028234663852886e+38, not 1e+300"},
      {"[train]\nlr = 1e-60",
       "a.toml:2: train.lr: must be a number of at least "
       "1.401298464324817e-45, not 1e-60"},
      // Values that do not fit each other.
      {"[method]\nerror_feedback = true",
       "a.toml:2: method.error_feedback: is for methods that compress after "
       "training, not for fedmrn"},
      {"[partition]\nclients = 10\n[rounds]\nclients_per_round = 11",
       "a.toml:4: rounds.clients_per_round: 11 of 10 clients in a round: set "
       "rounds.clients_per_round to at most 10 or partition.clients to at "
       "least 11"},
      {"[partition]\nclients = 5",
       "a.toml:2: partition.clients: 10 of 5 clients in a round: set "
       "rounds.clients_per_round to at most 5 or partition.clients to at "
       "least 10"},
      {"[rounds]\nmin_clients = 11",
       "a.toml:2: rounds.min_clients: at least 11 answers of 10 clients in a "
       "round: set rounds.min_clients to at most 10"},
      {"[faults]\ndrop = 0.5\ncrash = 0.25\ncorrupt = 0.5",
       "a.toml:4: faults.corrupt: drop, crash, corrupt and delay must be at "
       "most 1 together, not 1.25"},
      // TOML.
      {"seed = 1\nseed = 2\n",
       "a.toml:2: not TOML: Error while parsing key-value pair: cannot "
       "redefine "
       "existing integer 'seed'"},
  };
  for (const BadCase& c : cases) {
    EXPECT_EQ(Mistakes(c.text), c.message) << c.text;
  }
  // The last three ended the program, or were undefined, within toml++.
  for (const char* text : {"a", "[train", "lr = 0.1.1", "\xff",
                           "seed = ", "[~train]", "l\u0493 = ", "[\u0493]"}) {
    EXPECT_TRUE(Mistakes(text).starts_with("a.toml:1: not TOML: ")) << text;
  }
}

TEST(ConfigTest, MistakesInSettings) {
  const BadCase cases[] = {
      {"train.lrr=1",
       "--set train.lrr=1: train.lrr: unknown key, did you mean train.lr?"},
      {"modle.name=cnn4",
       "--set modle.name=cnn4: modle.name: unknown key, did you mean "
       "model.name?"},
      {"no.such=1",
       "--set no.such=1: no.such: unknown section; there are data, partition, "
       "model, method, train, server, rounds, faults and run"},
      {"train.lr", "--set train.lr: must be KEY=VALUE, such as train.lr=0.1"},
      {"=1", "--set =1: must be KEY=VALUE, such as train.lr=0.1"},
      {"train.lr=",
       "--set train.lr=: train.lr: must be a number above 0, not \"\""},
      {"train.lr=fast",
       "--set train.lr=fast: train.lr: must be a number above 0, not "
       "\"fast\""},
      {"seed=1\ntrain.lr=2",
       "--set seed=1\ntrain.lr=2: seed: must be an integer of at least 0, not "
       "\"1\\u000atrain.lr=2\""},
      {"data.dir=\xff", "--set data.dir=\xff: data.dir: must be UTF-8"},
      {"data.name=fmist",
       "--set data.name=fmist: data.name: must be fmnist, mnist, femnist, "
       "svhn, cifar10, "
       "cifar100, shakespeare, voc, synthetic, folder or npz, not \"fmist\", "
       "did you mean "
       "fmnist?"},
      {"rounds.clients_per_round=101",
       "--set rounds.clients_per_round=101: rounds.clients_per_round: 101 of "
       "100 clients in a round: set rounds.clients_per_round to at most 100 or "
       "partition.clients to at least 101"},
  };
  for (const BadCase& c : cases) {
    EXPECT_EQ(Mistakes("", {c.text}), c.message);
  }
}

TEST(ConfigTest, AllMistakesInOneGo) {
  EXPECT_EQ(Mistakes("[train]\nlr = 0\n[data]\nnmae = 1\n[run]\nworkers = -1\n",
                     {"train.batch=0", "partition.clients=1"}),
            "a.toml:2: train.lr: must be a number above 0, not 0\n"
            "a.toml:4: data.nmae: unknown key, did you mean data.name?\n"
            "a.toml:6: run.workers: must be an integer of at least 0, not -1\n"
            "--set train.batch=0: train.batch: must be an integer of at least "
            "1, not 0\n"
            "--set partition.clients=1: partition.clients: 10 of 1 clients in "
            "a round: set rounds.clients_per_round to at most 1 or "
            "partition.clients to at least 10");
  // A mistake is not told again as a consequence.
  EXPECT_EQ(Mistakes("[partition]\nclients = 0\n[rounds]\n"
                     "clients_per_round = 200"),
            "a.toml:2: partition.clients: must be an integer of at least 1, "
            "not 0");
}

TEST(ConfigTest, MistakesCiteWhatWasTyped) {
  const auto mistake = [](const std::string& typed) {
    return ParseConfig("", "", std::vector<std::string>{typed}).error().message;
  };
  EXPECT_EQ(mistake("--train.lr=0"),
            "--train.lr 0: train.lr: must be a number above 0, not 0");
  EXPECT_EQ(mistake("train.lr=0"),
            "--set train.lr=0: train.lr: must be a number above 0, not 0");
}

}  // namespace
}  // namespace fedmrn::sim
