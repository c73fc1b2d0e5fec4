#include <algorithm>
#include <cmath>
#include <filesystem>

#include "fedmrn/train/data/dataset.h"
#include "fedmrn/train/data/test_util.h"

namespace fedmrn::train {
namespace {

namespace fs = std::filesystem;

DataSettings FolderSettings(const fs::path& path,
                            const fs::path& test_path = {}) {
  DataSettings settings;
  settings.name = "folder";
  settings.path = path.string();
  settings.test_path = test_path.string();
  settings.image_size = 4;
  return settings;
}

class DataFolderTest : public FolderTest {
 protected:
  // 12 cats as PNGs, 8 dogs; every image has a colour of its own.
  void WriteAnimals() const {
    for (uint8_t i = 0; i < 12; ++i) {
      Write("all/cat/" + Name(i) + ".png",
            MakePng(Plain(6, 9, 100, static_cast<uint8_t>(10 * i), 0)));
    }
    for (uint8_t i = 0; i < 8; ++i) {
      Write("all/dog/" + Name(i) + (i % 2 == 0 ? ".JPG" : ".jpeg"),
            MakeJpeg(Plain(20, 3, 200, static_cast<uint8_t>(10 * i), 0)));
    }
  }
  static std::string Name(int i) { return std::string(1, char('a' + i)); }

  std::string ErrorOf(const DataSettings& settings) const {
    const auto data = LoadData(settings);
    return data ? "" : data.error().message;
  }
};

// The second channel of the first pixel, as a byte.
int Green(const Data& data, const Batch& batch, size_t row) {
  return static_cast<int>(
      std::lround((batch.x[row * 48 + 1] * data.std[1] + data.mean[1]) * 255));
}

TEST_F(DataFolderTest, EveryTenthIsHeldOut) {
  WriteAnimals();
  Write("all/dog/notes.txt", "ignored");
  Write("all/.cache/x.png", "ignored");
  const auto data = LoadData(FolderSettings(dir_ / "all"));
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->classes, 2u);
  EXPECT_EQ(data->shape, (std::vector<int64_t>{4, 4, 3}));
  EXPECT_EQ(data->train_examples, 18u);
  EXPECT_EQ(data->test_examples, 2u);
  EXPECT_TRUE(data->notes.empty());
  EXPECT_EQ(std::ranges::count(data->labels, 0), 11);
  // The tenth cat and the eighth dog, which is the twentieth image.
  Batch batch;
  data->test_batch(0, 2, batch);
  EXPECT_EQ(batch.shape, (std::vector<int64_t>{2, 4, 4, 3}));
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{1, 0}));
  EXPECT_NEAR(Green(*data, batch, 0), 70, 2);
  EXPECT_EQ(Green(*data, batch, 1), 90);
}

TEST_F(DataFolderTest, TheFirstExamplesAreOfAllClasses) {
  WriteAnimals();
  DataSettings settings = FolderSettings(dir_ / "all");
  settings.train_examples = 5;
  const auto data = LoadData(settings);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->labels, (std::vector<uint16_t>{0, 1, 0, 1, 0}));
  Batch batch;
  const uint32_t all[] = {0, 1, 2, 3, 4};
  data->train_batch(all, {}, batch);
  const int greens[] = {0, 0, 10, 10, 20};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(Green(*data, batch, i), greens[i], 2) << i;
  }
  settings.train_examples = 19;
  EXPECT_EQ(ErrorOf(settings), "folder has 18 training examples here, not 19");
}

TEST_F(DataFolderTest, NormalisesByTheTrainingPixels) {
  for (const uint8_t red : {0, 100}) {
    const std::string name = "train/a/" + std::to_string(red) + ".png";
    Write(name, MakePng(Plain(4, 4, red, 51, 0)));
    Write("test/a/" + std::to_string(red) + ".png",
          MakePng(Plain(4, 4, 200, 51, 255)));
  }
  const auto data = LoadData(FolderSettings(dir_ / "train", dir_ / "test"));
  ASSERT_TRUE(data) << data.error().message;
  ASSERT_EQ(data->mean.size(), 3u);
  EXPECT_FLOAT_EQ(data->mean[0], 50.0f / 255);
  EXPECT_FLOAT_EQ(data->std[0], 50.0f / 255);
  EXPECT_FLOAT_EQ(data->mean[1], 0.2f);
  EXPECT_FLOAT_EQ(data->std[1], 1);  // it never changes
  Batch batch;
  data->test_batch(0, 1, batch);
  EXPECT_FLOAT_EQ(batch.x[0], 3);
  EXPECT_NEAR(batch.x[1], 0, 1e-6);
  EXPECT_FLOAT_EQ(batch.x[2], 1);
}

TEST_F(DataFolderTest, UsualSizeIs32) {
  WriteAnimals();
  DataSettings settings = FolderSettings(dir_ / "all");
  settings.image_size = 0;
  const auto data = LoadData(settings);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->shape, (std::vector<int64_t>{32, 32, 3}));
}

TEST_F(DataFolderTest, BadImagesAreAnErrorOrLeftOut) {
  WriteAnimals();
  Bytes cut = ReadAll(dir_ / "all/dog/a.JPG");
  cut.resize(cut.size() - 40);
  const std::string dog = Write("all/dog/a.JPG", cut);
  const std::string cat = Write("all/cat/j.png", "<html>");  // held out
  DataSettings settings = FolderSettings(dir_ / "all");
  const std::string error = ErrorOf(settings);
  EXPECT_TRUE(error.starts_with(dog + ": is not a sound JPEG: ")) << error;
  EXPECT_TRUE(error.ends_with("--skip-bad")) << error;
  settings.skip_bad = true;
  const auto data = LoadData(settings);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->train_examples, 17u);
  EXPECT_EQ(data->test_examples, 1u);
  EXPECT_EQ(data->labels[0], 0);
  EXPECT_EQ(data->labels[1], 0);  // the second cat: the first dog is bad
  ASSERT_EQ(data->notes.size(), 2u);
  EXPECT_TRUE(data->notes[0].starts_with(
      "1 of 18 examples cannot be read and are left out: " + dog + ": "))
      << data->notes[0];
  EXPECT_EQ(data->notes[1],
            "1 of 2 examples cannot be read and are left out: " + cat +
                ": is neither JPEG nor PNG");
  // What is left stands in its place.
  Batch batch;
  const uint32_t second[] = {1};
  data->train_batch(second, {}, batch);
  EXPECT_EQ(Green(*data, batch, 0), 10);
}

TEST_F(DataFolderTest, WhatIsWrongIsSaid) {
  EXPECT_EQ(ErrorOf(FolderSettings("")),
            "data.path: must name a folder with a folder of images per class");
  const std::string nowhere = (dir_ / "nowhere").string();
  EXPECT_EQ(ErrorOf(FolderSettings(nowhere)),
            nowhere + ": cannot be read: No such file or directory");
  fs::create_directory(dir_ / "flat");
  const std::string flat = (dir_ / "flat").string();
  Write("flat/a.png", MakePng(Plain(2, 2, 0, 0, 0)));
  EXPECT_EQ(ErrorOf(FolderSettings(flat)),
            flat +
                ": has 0 folders; each class's images must be in a folder of "
                "their own in it");
  fs::create_directory(dir_ / "flat/empty");
  EXPECT_EQ(ErrorOf(FolderSettings(flat)),
            flat + "/empty: has no .jpg, .jpeg or .png file in it");
  Write("flat/empty/a.png", MakePng(Plain(2, 2, 0, 0, 0)));
  EXPECT_EQ(ErrorOf(FolderSettings(flat)),
            flat +
                ": has too few images to hold out every tenth for the test: "
                "set data.test_path");
  WriteAnimals();
  const std::string all = (dir_ / "all").string();
  EXPECT_EQ(ErrorOf(FolderSettings(all, flat)),
            flat + ": must have the same class folders as " + all +
                ", but cat is only in the latter");
  DataSettings large = FolderSettings(all);
  large.image_size = 5000;
  EXPECT_EQ(ErrorOf(large), "data.image_size: must be at most 4096, not 5000");
  DataSettings bad = FolderSettings(flat, flat);
  Write("flat/empty/a.png", "text");
  bad.skip_bad = true;
  EXPECT_EQ(ErrorOf(bad),
            flat +
                ": no training example can be read: 1 of 1 examples cannot be "
                "read and are left out: " +
                flat + "/empty/a.png: is neither JPEG nor PNG");
}

}  // namespace
}  // namespace fedmrn::train
