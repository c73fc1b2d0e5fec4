// Rows from outside the program's own tables, as a program of a user's has
// them. What is registered stays, so these tests are a program of their own.
#include <gtest/gtest.h>

#include "fedmrn/sim/config.h"

namespace fedmrn::sim {
namespace {

constexpr train::MethodKey kTemperature = {
    "method.temperature",
    [](train::MethodSettings& settings) -> Place {
      return &settings.own.try_emplace("temperature", 0.5).first->second;
    },
    "cooling: where it starts", kPositive};

train::Method Cooling() {
  train::Method method = *train::FindMethod("topk");
  method.name = "cooling";
  method.lr = 0.25;
  method.keys.push_back(&kTemperature);
  return method;
}

train::DataSet Tiles() {
  train::DataSet set = *train::FindDataSet("synthetic");
  set.name = "tiles";
  set.model = "thin";
  set.partition = PartitionKind::kDirichlet;
  return set;
}

train::ModelRow Thin() {
  train::ModelRow model = *train::FindModel("cnn4");
  model.name = "thin";
  return model;
}

class RegisterTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (train::FindMethod("cooling") != nullptr) return;
    train::RegisterMethod(Cooling());
    train::RegisterDataSet(Tiles());
    train::RegisterModel(Thin());
  }

  static Result<Config> Parse(const std::vector<std::string>& settings) {
    return ParseConfig("", "a.toml", settings);
  }
};

TEST_F(RegisterTest, RowsAreChosenByName) {
  const Result<Config> config =
      Parse({"method.name=cooling", "data.name=tiles"});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->train.lr, 0.25f);
  EXPECT_EQ(config->model.name, "thin");
  EXPECT_EQ(config->partition.kind, PartitionKind::kDirichlet);
  EXPECT_TRUE(DescribeKey("method.name").choices.ends_with("|cooling"));
}

TEST_F(RegisterTest, AMethodBringsItsOwnKeys) {
  EXPECT_EQ(Parse({}).value().method.own.at("temperature"), 0.5);
  const Result<Config> given =
      Parse({"method.name=cooling", "method.temperature=2"});
  ASSERT_TRUE(given) << given.error().message;
  EXPECT_EQ(given->method.own.at("temperature"), 2);
  const Result<Config> wrong = Parse({"method.temperature=0"});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message,
            "--set method.temperature=0: method.temperature: must be a number "
            "above 0, not 0");
  const ConfigKey key = DescribeKey("method.temperature");
  EXPECT_EQ(key.type, "number");
  EXPECT_EQ(key.role, KeyRole::kMethod);
  ASSERT_EQ(key.owners.size(), 1u);
  EXPECT_EQ(key.owners[0], "cooling");
  EXPECT_EQ(DescribeKey("method.keep").owners.size(), 3u);
  // In its section, and read back.
  const Result<Config> again = ParseConfig(ConfigToml(*given), "a.toml", {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(ConfigValues(*again), ConfigValues(*given));
}

TEST_F(RegisterTest, ASecondRowOfANameIsAMistake) {
  EXPECT_DEATH(train::RegisterMethod(Cooling()), "a second row of this name");
  EXPECT_DEATH(train::RegisterDataSet(Tiles()), "a second row of this name");
  EXPECT_DEATH(train::RegisterModel(Thin()), "a second row of this name");
}

}  // namespace
}  // namespace fedmrn::sim
