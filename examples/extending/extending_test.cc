// Trains the example of docs/extending.md, whose rows it registers.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "fedmrn/core/random.h"
#include "fedmrn/sim/run.h"

namespace fedmrn {

Result<train::Data> LoadCsv(const train::DataSet& set,
                            const train::DataSettings& settings);
Result<train::Model> MakeSoftmax(const train::ModelSettings& settings,
                                 const train::Data& data);

namespace {

class ExtendingTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    train::RegisterDataSet({.name = "csv",
                            .summary = "numbers from a CSV file, class last",
                            .model = "softmax",
                            .load = LoadCsv});
    train::RegisterModel({.name = "softmax",
                          .summary = "one linear layer",
                          .make = MakeSoftmax});
  }

  void SetUp() override {
    std::filesystem::current_path(testing::TempDir());
    std::filesystem::remove_all("fedmrn_extending_test");
    std::filesystem::create_directory("fedmrn_extending_test");
    std::ofstream file("fedmrn_extending_test/clouds.csv");
    Random random({1, Purpose::kSynthetic});
    for (int i = 0; i < 600; ++i) {  // three clouds of points
      const double angle = i % 3 * 2.0943951;
      file << std::cos(angle) + 0.3 * random.Normal() << ','
           << std::sin(angle) + 0.3 * random.Normal() << ',' << i % 3 << '\n';
    }
  }

  static Result<sim::RunResult> RunWith(std::vector<std::string> settings,
                                        const std::string& out) {
    settings.insert(
        settings.begin(),
        {"data.name=csv", "data.path=fedmrn_extending_test/clouds.csv",
         "partition.clients=10", "rounds.clients_per_round=5",
         "rounds.count=20", "train.epochs=2", "train.batch=10"});
    const Result<sim::Config> config = sim::ParseConfig("", "", settings);
    if (!config) return config.error();
    EXPECT_EQ(config->model.name, "softmax");
    sim::RunOptions options;
    options.out = out;
    return sim::Run(*config, options);
  }
};

TEST_F(ExtendingTest, TheNewModelLearnsTheNewData) {
  for (const std::string method : {"fedavg", "fedmrn", "eden"}) {
    const std::string out = "fedmrn_extending_test/" + method;
    const Result<sim::RunResult> result = RunWith(
        {"method.name=" + method, "method.magnitude=0.3", "train.lr=0.3"}, out);
    ASSERT_TRUE(result) << result.error().ToString();
    EXPECT_GT(result->rows.back().score, 0.9) << method;
    EXPECT_TRUE(std::filesystem::exists(out + "/model.pt"));
  }
}

TEST_F(ExtendingTest, RefusesWhatItCannotRead) {
  std::ofstream("fedmrn_extending_test/clouds.csv", std::ios::app) << "1,2\n";
  const Result<sim::RunResult> result = RunWith({}, "");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "fedmrn_extending_test/clouds.csv: line 601 differs in length");
}

}  // namespace
}  // namespace fedmrn
