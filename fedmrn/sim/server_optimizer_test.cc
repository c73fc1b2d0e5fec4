#include "fedmrn/sim/server_optimizer.h"

#include <array>

#include "fedmrn/core/test_util.h"
#include "fedmrn/sim/config.h"

namespace fedmrn::sim {
namespace {

// Three rounds of Reddi et al.'s Algorithm 2 and of FedAvgM, computed in double
// precision from the formulas.
TEST(ServerOptimizer, KnownSteps) {
  struct Case {
    const char* name;
    std::array<double, 3> expected;
  };
  const Case cases[] = {
      {"momentum", {0.52, 0.5375, 0.56325}},
      {"adam", {0.506184615, 0.511614009, 0.519126585}},
      {"yogi", {0.50618034, 0.511589072, 0.519055049}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const ServerOptimizer& row = *FindServerOptimizer(c.name);
    const ServerSettings settings{.optimizer = c.name, .lr = row.lr};
    // A weight, a trainable plain value and a statistic.
    GlobalModel model{{0.5f}, {0.5f, 0.5f}};
    const float deltas[] = {0.02f, -0.0005f, 0.01f};
    for (size_t round = 0; round < 3; ++round) {
      const float mean = model.plain[0] + deltas[round];
      const float statistic = 10 + deltas[round];
      StepModel(settings, {&deltas[round], 1}, std::array{mean, statistic}, 1,
                model);
      EXPECT_NEAR(model.weights[0], c.expected[round], 1e-6);
      EXPECT_NEAR(model.plain[0], c.expected[round], 2e-5)
          << "a mean of floats is rounded";
      EXPECT_EQ(model.plain[1], statistic) << "the mean as it is";
    }
    EXPECT_EQ(model.moments.first.size(), 2u);
    EXPECT_EQ(model.moments.second.size(), 2u);
  }
}

// Without memory and with rate 1, momentum adds the mean.
TEST(ServerOptimizer, NoMomentumIsTheMean) {
  const ServerSettings settings{.optimizer = "momentum", .beta1 = 0};
  GlobalModel model{Normal(1, 50), Normal(2, 7)};
  const GlobalModel before = model;
  const std::vector<float> update = Normal(3, 50), plain = Normal(4, 7);
  StepModel(settings, update, plain, 4, model);
  for (size_t i = 0; i < update.size(); ++i) {
    EXPECT_EQ(model.weights[i], before.weights[i] + update[i]);
  }
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(model.plain[i], plain[i], 1e-6);
  }
}

TEST(ServerOptimizer, DefaultsAreTheRows) {
  const auto lr_of = [](const std::vector<std::string>& settings) {
    const Result<Config> config = ParseConfig("", "", settings);
    return config ? config->server.lr : -1;
  };
  EXPECT_EQ(lr_of({}), 1);
  EXPECT_EQ(lr_of({"server.optimizer=momentum"}), 1);
  EXPECT_EQ(lr_of({"server.optimizer=yogi"}), 0.01);
  EXPECT_EQ(lr_of({"server.optimizer=adam", "server.lr=0.1"}), 0.1);
}

// Where the mean is no update of weights.
TEST(ServerOptimizer, RefusedByMethodsWithAStepOfTheirOwn) {
  for (const train::Method& method : train::Methods()) {
    const std::string name(method.name);
    const Result<Config> config =
        ParseConfig("", "",
                    std::vector<std::string>{"method.name=" + name,
                                             "server.optimizer=adam"});
    EXPECT_EQ(static_cast<bool>(config),
              name != "fedpm" && name != "fedsparsify");
    if (!config) {
      EXPECT_EQ(config.error().message,
                "--set server.optimizer=adam: server.optimizer: moves weights "
                "by their mean update, which " +
                    name + " does not have: its server has a step of its own");
    }
  }
}

TEST(ServerOptimizer, NoneHasNoStep) {
  EXPECT_EQ(FindServerOptimizer(ServerSettings{}.optimizer)->step, nullptr);
  EXPECT_EQ(FindServerOptimizer("sgd"), nullptr);
}

}  // namespace
}  // namespace fedmrn::sim
