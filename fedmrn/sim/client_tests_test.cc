#include "fedmrn/sim/client_tests.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fedmrn/sim/inputs.h"
#include "fedmrn/sim/run.h"

namespace fedmrn::sim {
namespace {

TEST(ClientTestsTest, MeanTenthPercentileAndWorst) {
  const ClientScores none = ClientScoresOf({});
  EXPECT_TRUE(std::isnan(none.mean) && std::isnan(none.p10) &&
              std::isnan(none.worst));
  const ClientScores one = ClientScoresOf({0.5});
  EXPECT_EQ(one.mean, 0.5);
  EXPECT_EQ(one.p10, 0.5);
  EXPECT_EQ(one.worst, 0.5);
  std::vector<double> scores;
  for (int i = 20; i > 0; --i) scores.push_back(i);
  const ClientScores twenty = ClientScoresOf(scores);
  EXPECT_EQ(twenty.mean, 10.5);
  EXPECT_EQ(twenty.p10, 2);
  EXPECT_EQ(twenty.worst, 1);
  scores.push_back(21);
  EXPECT_EQ(ClientScoresOf(scores).p10, 3);
}

Config MakeConfig(std::vector<std::string> settings) {
  settings.insert(
      settings.begin(),
      {"data.name=synthetic", "data.train_examples=240",
       "data.test_examples=40", "data.validation=0.25", "partition.clients=6",
       "rounds.clients_per_round=3", "rounds.count=2", "train.epochs=1",
       "train.batch=16", "run.eval_clients=4"});
  return ParseConfig("", "", settings).value();
}

// A run that measures clients ends in the same model, and measures the same for
// any number of workers and for every kind of model that a server may have.
TEST(ClientTestsTest, AreDeterministicAndChangeNothing) {
  for (const char* method : {"fedavg", "fedpm"}) {
    const std::string name = std::string("method.name=") + method;
    const Result<RunResult> without =
        sim::Run(MakeConfig({name, "run.eval_clients=0"}), {});
    const Result<RunResult> one =
        sim::Run(MakeConfig({name, "run.workers=1"}), {});
    const Result<RunResult> three =
        sim::Run(MakeConfig({name, "run.workers=3"}), {});
    ASSERT_TRUE(without && one && three);
    EXPECT_EQ(one->model_sha256, without->model_sha256);
    EXPECT_TRUE(std::isnan(without->rows[1].client_score));
    for (const auto& column : {&results::RoundRow::client_score,
                               &results::RoundRow::client_score_p10,
                               &results::RoundRow::client_score_worst,
                               &results::RoundRow::personal_score,
                               &results::RoundRow::personal_score_p10,
                               &results::RoundRow::personal_score_worst}) {
      EXPECT_FALSE(std::isnan(one->rows[1].*column));
      EXPECT_EQ(one->rows[1].*column, three->rows[1].*column);
    }
    EXPECT_LE(one->rows[1].client_score_worst, one->rows[1].client_score);
  }
}

// All clients with equally many held-out examples: their mean is the score of
// the whole.
TEST(ClientTestsTest, TheMeanOfAllIsTheWhole) {
  const Result<RunResult> result =
      sim::Run(MakeConfig({"method.name=fedavg", "run.eval_clients=100"}), {});
  ASSERT_TRUE(result) << result.error().ToString();
  for (const results::RoundRow& row : result->rows) {
    EXPECT_NEAR(row.client_score, row.score, 1e-12);
  }
}

// With one client and one client a round, its own model is the next global one.
TEST(ClientTestsTest, ThePersonalModelIsTheNextAnswer) {
  const Result<RunResult> result =
      sim::Run(MakeConfig({"method.name=fedmrn", "partition.clients=1",
                           "rounds.clients_per_round=1", "rounds.count=3"}),
               {});
  ASSERT_TRUE(result) << result.error().ToString();
  EXPECT_EQ(result->rows[0].personal_score, result->rows[1].score);
  EXPECT_EQ(result->rows[1].personal_score, result->rows[2].score);
}

TEST(ClientTestsTest, NeedHeldOutExamples) {
  const std::vector<std::string> settings = {"run.eval_clients=4"};
  const Result<Config> config = ParseConfig("", "", settings);
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().message.find("needs data.validation"),
            std::string::npos);
}

}  // namespace
}  // namespace fedmrn::sim
