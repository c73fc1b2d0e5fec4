// FEMNIST's files as LEAF's scripts write them, made here.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fedmrn/train/data/dataset.h"
#include "fedmrn/train/data/test_util.h"

namespace fedmrn::train {
namespace {

using Json = nlohmann::json;

uint8_t Pixel(size_t example, size_t at) {
  return static_cast<uint8_t>(example * 31 + at);
}

// As Python writes arr.flatten() / 255.
Json Image(size_t example) {
  Json image = Json::array();
  for (size_t at = 0; at < 784; ++at)
    image.push_back(Pixel(example, at) / 255.0);
  return image;
}

// Writers with the numbers of their examples; example e is of class e.
Json LeafFile(
    const std::vector<std::pair<std::string, std::vector<size_t>>>& writers) {
  Json file;
  for (const auto& [name, examples] : writers) {
    file["users"].push_back(name);
    file["num_samples"].push_back(examples.size());
    Json& data = file["user_data"][name];
    for (const size_t e : examples) {
      data["x"].push_back(Image(e));
      data["y"].push_back(e);
    }
  }
  return file;
}

class FemnistTest : public FolderTest {
 protected:
  void Both(const Json& train, const Json& test) const {
    Write("train/all_data_0_niid_0_keep_0_train_9.json", train.dump());
    Write("test/all_data_0_niid_0_keep_0_test_9.json", test.dump());
  }
  std::string ErrorOf(const Json& train) const {
    Both(train, LeafFile({{"a", {1}}}));
    const auto data = LoadImages({"femnist", dir_.string()});
    return data ? "none" : data.error().message;
  }
};

TEST_F(FemnistTest, ExamplesAndWriters) {
  Both(LeafFile({{"f0000_14", {3, 61}}, {"f0001_41", {0}}}),
       LeafFile({{"f0001_41", {10}}}));
  // Another file, in which one writer goes on.
  Write("train/all_data_1_niid_0_keep_0_train_9.json",
        LeafFile({{"f0002_00", {7}}, {"f0000_14", {9}}}).dump());
  const Result<ImageData> data = LoadImages({"femnist", dir_.string()});
  ASSERT_TRUE(data) << data.error().ToString();
  EXPECT_EQ(data->classes, 62u);
  EXPECT_EQ(data->train.labels, (std::vector<uint16_t>{3, 61, 0, 9, 7}));
  EXPECT_EQ(data->train.clients, (std::vector<uint32_t>{0, 0, 1, 0, 2}));
  EXPECT_EQ(data->test.labels, (std::vector<uint16_t>{10}));
  for (size_t i = 0; i < 5; ++i) {
    for (size_t at = 0; at < 784; ++at) {
      ASSERT_EQ(data->train.pixels[i * 784 + at],
                Pixel(data->train.labels[i], at));
    }
  }
  EXPECT_EQ(FindDataSet("femnist")->partition, PartitionKind::kNatural);

  // The first ones keep their writers.
  const Result<ImageData> first = LoadImages({"femnist", dir_.string(), 3});
  ASSERT_TRUE(first) << first.error().ToString();
  EXPECT_EQ(first->train.clients, (std::vector<uint32_t>{0, 0, 1}));
}

TEST_F(FemnistTest, WhatIsNotLeafs) {
  const auto has = [&](const Json& file, const std::string& what) {
    const std::string error = ErrorOf(file);
    EXPECT_NE(error.find(what), error.npos) << error;
  };
  const Json good = LeafFile({{"a", {1, 2}}});
  EXPECT_EQ(ErrorOf(good), "none");
  const auto changed = [&](const char* pointer, const Json& value) {
    Json file = good;
    file[Json::json_pointer(pointer)] = value;
    return file;
  };
  has(changed("/user_data/a/x/0/5", 1.5), "a pixel of 1.5");
  has(changed("/user_data/a/x/0/5", -1), "a pixel of -1.0");
  has(changed("/user_data/a/x/0/5", "x"), "in \"x\" that is no number");
  has(changed("/user_data/a/x/0/5", Json::array()), "that is no number");
  has(changed("/user_data/a/x/0", 0.5), "that is no number");
  has(changed("/user_data/a/x/0", {0.5}), "not of 784 pixels");
  has(changed("/user_data/a/y/0", 62), "has class 62.0");
  has(changed("/user_data/a/y/0", 1.5), "has class 1.5");
  has(changed("/user_data/a/y/0", {1}), "in \"y\" that is no number");
  has(changed("/user_data/a/y", {1}), "2 images in \"x\", but 1 classes");
  has(changed("/users", {"a", "b"}), "user b has no data");
  has(Json::object(), "has no \"users\"");
  Both(good, good);
  const std::string text = good.dump();
  Write("train/all_data_0_niid_0_keep_0_train_9.json",
        text.substr(0, text.size() / 2));
  const auto cut = LoadImages({"femnist", dir_.string()});
  ASSERT_FALSE(cut);
  EXPECT_NE(cut.error().message.find("is not sound JSON"), std::string::npos);
  EXPECT_NE(cut.error().message.find("train_9.json"), std::string::npos);
}

}  // namespace
}  // namespace fedmrn::train
