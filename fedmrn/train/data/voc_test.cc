#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "fedmrn/core/random.h"
#include "fedmrn/train/data/dataset.h"
#include "fedmrn/train/data/test_util.h"

namespace fedmrn::train {
namespace {

namespace fs = std::filesystem;

constexpr float kMean[] = {.3257f, .3690f, .3223f};
constexpr float kStd[] = {.2112f, .2148f, .2115f};

// A value of a batch as a byte.
int PixelOf(const Batch& batch, size_t at) {
  return static_cast<int>(
      std::lround((batch.x[at] * kStd[at % 3] + kMean[at % 3]) * 255));
}

Picture MaskOf(uint32_t height, uint32_t width, uint8_t value) {
  return {height, width, 1, Bytes(size_t{height} * width, value)};
}

class VocTest : public FolderTest {
 protected:
  void WritePair(const std::string& name, const Picture& image,
                 const Picture& mask) const {
    Write("JPEGImages/" + name + ".jpg", MakeJpeg(image));
    Write("SegmentationClass/" + name + ".png", MakeMask(mask));
  }
  void WriteLists(const std::string& train, const std::string& val) const {
    Write("ImageSets/Segmentation/train.txt", train);
    Write("ImageSets/Segmentation/val.txt", val);
  }
  // One image of 60 x 40, in two colours and classes, for both.
  void WriteHalves() const {
    Picture image = Plain(40, 60, 200, 30, 30), mask = MaskOf(40, 60, 4);
    for (size_t y = 0; y < 40; ++y) {
      for (size_t x = 24; x < 60; ++x) {
        image.pixels[3 * (y * 60 + x)] = 30;
        image.pixels[3 * (y * 60 + x) + 2] = 200;
        mask.pixels[y * 60 + x] = 20;
      }
    }
    WritePair("halves", image, mask);
    WriteLists("halves\n", "halves\n");
  }

  DataSettings Settings() const {
    DataSettings settings;
    settings.name = "voc";
    settings.dir = dir_.string();
    settings.crop = 32;
    return settings;
  }
  std::string ErrorOf(const DataSettings& settings) const {
    const auto data = LoadData(settings);
    return data ? "" : data.error().message;
  }
};

constexpr uint32_t kFirst[] = {0};

PhiloxStream Draws(uint32_t step) { return {7, Purpose::kAugment, step}; }

TEST_F(VocTest, WhatItIs) {
  WriteHalves();
  const auto data = LoadData(Settings());
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->input, Input::kImages);
  EXPECT_EQ(data->target, Target::kPixelClasses);
  EXPECT_EQ(data->shape, (std::vector<int64_t>{32, 32, 3}));
  EXPECT_EQ(data->classes, 20u);
  EXPECT_EQ(data->largest_test_batch, 1u);
  EXPECT_TRUE(data->prepare_ahead);
  EXPECT_EQ(data->labels, (std::vector<uint16_t>{19}));  // 36 of 60 columns
  EXPECT_FLOAT_EQ(data->mean[1], .3690f);
  EXPECT_FLOAT_EQ(data->std[2], .2115f);
  EXPECT_TRUE(data->notes.empty());
}

TEST_F(VocTest, LabelsStayWithTheirPixels) {
  WriteHalves();
  DataSettings settings = Settings();
  settings.erase = false;
  const auto data = LoadData(settings);
  ASSERT_TRUE(data) << data.error().message;
  Batch batch, again;
  size_t red = 0, blue = 0, edge = 0, none = 0, mirrored = 0;
  for (uint32_t step = 0; step < 40; ++step) {
    data->train_batch(kFirst, Draws(step), batch);
    ASSERT_EQ(batch.shape, (std::vector<int64_t>{1, 32, 32, 3}));
    ASSERT_EQ(batch.x.size(), 32u * 32 * 3);
    ASSERT_EQ(batch.labels.size(), 32u * 32);
    bool from_right = false;
    for (size_t i = 0; i < batch.labels.size(); ++i) {
      from_right |=
          i % 32 != 0 && batch.labels[i - 1] == 19 && batch.labels[i] == 3;
      const int seen = PixelOf(batch, 3 * i);
      if (batch.labels[i] == kNoClass) {
        EXPECT_EQ(seen, 0);  // padding
        EXPECT_FLOAT_EQ(batch.x[3 * i], -kMean[0] / kStd[0]);
        ++none;
      } else if (seen > 60 && seen < 170) {
        ++edge;
      } else {
        EXPECT_EQ(batch.labels[i], seen >= 170 ? 3 : 19) << "at " << i;
        ++(seen >= 170 ? red : blue);
      }
    }
    mirrored += from_right;
    data->train_batch(kFirst, Draws(step), again);
    EXPECT_EQ(batch.x, again.x);
    EXPECT_EQ(batch.labels, again.labels);
  }
  EXPECT_GT(red, 1000u);
  EXPECT_GT(blue, 1000u);
  EXPECT_GT(none, 100u);  // at a scale below 0.8 it has fewer than 32 rows
  EXPECT_LT(edge, 2000u);
  EXPECT_GT(mirrored, 5u);  // and both classes in sight
  EXPECT_LT(mirrored, 35u);
}

// Where the image lies in the crop, from the same draws by the definition.
TEST_F(VocTest, ScalePaddingAndCrop) {
  WritePair("a", Plain(20, 45, 255, 255, 255), MaskOf(20, 45, 1));
  WriteLists("a", "a");
  const auto data = LoadData(Settings());
  ASSERT_TRUE(data) << data.error().message;
  Batch batch;
  int padded = 0;
  for (uint32_t step = 0; step < 30; ++step) {
    SCOPED_TRACE(step);
    data->train_batch(kFirst, Draws(step), batch);
    Random random(Draws(step));
    const double scale = 0.5 + random.Uniform();
    const auto first = [&](int length) {
      const int padding = length < 32 ? (32 - length) / 2 + 1 : 0;
      const int begin = static_cast<int>(
          random.Below(static_cast<uint64_t>(length + 2 * padding - 32 + 1)));
      return begin - padding;
    };
    const int height = static_cast<int>(std::ceil(20 * scale));
    const int width = static_cast<int>(std::ceil(45 * scale));
    const int top = first(height), left = first(width);
    const bool flip = random.Below(2) == 1;
    padded += height < 32;
    for (int y = 0; y < 32; ++y) {
      for (int x = 0; x < 32; ++x) {
        const int row = y + top, column = left + (flip ? 31 - x : x);
        const bool inside =
            row >= 0 && row < height && column >= 0 && column < width;
        const auto at = static_cast<size_t>(y * 32 + x);
        ASSERT_EQ(batch.labels[at], inside ? 0 : kNoClass);
        ASSERT_NEAR(PixelOf(batch, 3 * at), inside ? 255 : 0, 1);
      }
    }
  }
  EXPECT_EQ(padded, 30);
}

TEST_F(VocTest, AnImageHasOneClassInTraining) {
  Picture mask = MaskOf(40, 40, 7);
  std::fill_n(mask.pixels.begin(), 40 * 10, uint8_t{3});
  std::fill_n(mask.pixels.begin() + 400, 80, uint8_t{0});
  std::fill_n(mask.pixels.begin() + 480, 80, uint8_t{255});
  WritePair("a", Plain(40, 40, 9, 9, 9), mask);
  WriteLists("a", "a");
  const auto seen = [](const Batch& batch) {
    return std::set<int32_t>(batch.labels.begin(), batch.labels.end());
  };
  DataSettings settings = Settings();
  settings.crop = 64;  // all of it
  for (const bool erase : {true, false}) {
    settings.erase = erase;
    const auto data = LoadData(settings);
    ASSERT_TRUE(data) << data.error().message;
    EXPECT_EQ(data->labels[0], 6);
    Batch batch;
    data->train_batch(kFirst, Draws(0), batch);
    EXPECT_EQ(seen(batch), erase ? (std::set<int32_t>{kNoClass, 6})
                                 : (std::set<int32_t>{kNoClass, 2, 6}));
    data->test_batch(0, 1, batch);
    EXPECT_EQ(seen(batch), (std::set<int32_t>{kNoClass, 2, 6}));
  }
}

TEST_F(VocTest, TestImagesAreWholeAndMirroredAtTheirEdge) {
  const Picture image = Gradients(5, 40);
  Picture mask = MaskOf(5, 40, 2);
  mask.pixels[3] = 255;
  WritePair("a", image, mask);
  WriteLists("a", "a");
  const auto data = LoadData(Settings());
  ASSERT_TRUE(data) << data.error().message;
  Batch batch;
  data->test_batch(0, 1, batch);
  EXPECT_EQ(batch.examples, 1u);
  ASSERT_EQ(batch.shape, (std::vector<int64_t>{1, 32, 64, 3}));
  ASSERT_EQ(batch.x.size(), 32u * 64 * 3);
  ASSERT_EQ(batch.labels.size(), 32u * 64);
  EXPECT_EQ(std::ranges::count(batch.labels, 1), 5 * 40 - 1);
  EXPECT_EQ(batch.labels[3], kNoClass);
  EXPECT_EQ(batch.labels[40], kNoClass);
  EXPECT_EQ(batch.labels[5 * 64], kNoClass);
  const auto expect = [&](size_t y, size_t x, size_t from_y, size_t from_x) {
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(PixelOf(batch, (y * 64 + x) * 3 + c),
                  image.at(from_y, from_x)[c], 4)
          << y << " " << x;
    }
  };
  expect(4, 39, 4, 39);
  expect(5, 40, 3, 38);
  expect(8, 63, 0, 15);
  expect(9, 0, 1, 0);  // back and forth, as often as it takes
  expect(31, 41, 1, 37);
}

TEST_F(VocTest, SmallerImages) {
  WriteHalves();
  WritePair("small", Plain(3, 8, 1, 2, 3), MaskOf(3, 8, 1));
  WriteLists("halves\n", "halves\nsmall\n");
  DataSettings settings = Settings();
  settings.image_size = 30;
  const auto data = LoadData(settings);
  ASSERT_TRUE(data) << data.error().message;
  Batch batch;
  data->test_batch(0, 1, batch);
  EXPECT_EQ(batch.shape, (std::vector<int64_t>{1, 32, 32, 3}));
  EXPECT_EQ(std::ranges::count(batch.labels, 3), 20 * 12);
  EXPECT_EQ(std::ranges::count(batch.labels, 19), 20 * 18);
  EXPECT_NEAR(PixelOf(batch, 0), 200, 4);
  data->test_batch(1, 1, batch);  // not made larger
  EXPECT_EQ(std::ranges::count(batch.labels, 0), 3 * 8);
}

// Too large to be kept in memory.
TEST_F(VocTest, SmallerImagesThatAreReadAgain) {
  WritePair("large", Plain(100, 800, 9, 9, 9), MaskOf(100, 800, 5));
  WriteLists("large", "large");
  DataSettings settings = Settings();
  settings.image_size = 400;
  settings.crop = 480;
  const auto data = LoadData(settings);
  ASSERT_TRUE(data) << data.error().message;
  Batch batch;
  data->test_batch(0, 1, batch);
  EXPECT_EQ(batch.shape, (std::vector<int64_t>{1, 64, 416, 3}));
  EXPECT_EQ(std::ranges::count(batch.labels, 4), 50 * 400);
  // In training as well: never more than 75 of the 480 rows.
  data->train_batch(kFirst, Draws(0), batch);
  EXPECT_LE(std::ranges::count(batch.labels, 4), 75 * 480);
  EXPECT_GT(std::ranges::count(batch.labels, 4), 0);
}

TEST_F(VocTest, TheArchivesFoldersMayBeThere) {
  WriteHalves();
  for (const char* below : {"VOC2012", "VOCdevkit/VOC2012"}) {
    const fs::path other = dir_.string() + "-moved";
    fs::create_directories((other / below).parent_path());
    fs::rename(dir_, other / below);
    DataSettings settings = Settings();
    settings.dir = other.string();
    EXPECT_TRUE(LoadData(settings)) << below;
    fs::rename(other / below, dir_);
    fs::remove_all(other);
  }
}

TEST_F(VocTest, BadImagesAreAnErrorOrLeftOut) {
  WriteHalves();
  WritePair("cut", Plain(20, 20, 1, 1, 1), MaskOf(20, 20, 1));
  const std::string cut = (dir_ / "JPEGImages/cut.jpg").string();
  Bytes bytes = ReadAll(cut);
  bytes.resize(bytes.size() - 20);
  Write("JPEGImages/cut.jpg", bytes);
  WritePair("other", Plain(20, 21, 1, 1, 1), MaskOf(20, 20, 1));
  WritePair("high", Plain(20, 20, 1, 1, 1), MaskOf(20, 20, 21));
  WritePair("empty", Plain(20, 20, 1, 1, 1), MaskOf(20, 20, 0));
  Write("JPEGImages/lonely.jpg", MakeJpeg(Plain(8, 8, 1, 1, 1)));
  const std::string mask = (dir_ / "SegmentationClass/").string();
  const std::string hint = ". To leave out what cannot be read: --skip-bad";
  DataSettings settings = Settings();

  WriteLists("halves\ncut\n", "halves\n");
  EXPECT_TRUE(ErrorOf(settings).starts_with(cut + ": is not a sound JPEG"));
  WriteLists("halves\nother\n", "halves\n");
  EXPECT_EQ(ErrorOf(settings), mask +
                                   "other.png: has 20 x 20 pixels, but its "
                                   "image " +
                                   (dir_ / "JPEGImages/other.jpg").string() +
                                   " has 21 x 20" + hint);
  WriteLists("halves\n", "high\nhalves\n");
  EXPECT_EQ(ErrorOf(settings),
            mask +
                "high.png: has a pixel of class 21; there are 0 to 20 and "
                "255" +
                hint);
  WriteLists("halves\n", "halves\nlonely\n");
  EXPECT_EQ(
      ErrorOf(settings),
      mask + "lonely.png: cannot read it: No such file or directory" + hint);

  WriteLists("cut\nempty\nhalves\nother\n", "lonely\nhalves\n");
  settings.skip_bad = true;
  const auto data = LoadData(settings);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->labels, (std::vector<uint16_t>{19}));
  EXPECT_EQ(data->test_examples, 1u);
  ASSERT_EQ(data->notes.size(), 3u);
  EXPECT_TRUE(data->notes[0].starts_with(
      "2 of 4 examples cannot be read and are left out: " + cut));
  EXPECT_EQ(data->notes[1],
            "1 of 4 images of " +
                (dir_ / "ImageSets/Segmentation/train.txt").string() +
                " have no pixel of a class and are left out");
  EXPECT_TRUE(data->notes[2].starts_with("1 of 2 examples"));
  Batch batch;
  data->train_batch(kFirst, Draws(0), batch);
  EXPECT_EQ(std::ranges::count(batch.labels, 0), 0);  // not the cut one

  // Known to be sound, but gone since.
  fs::remove(dir_ / "JPEGImages/halves.jpg");
  EXPECT_THROW(data->train_batch(kFirst, Draws(0), batch), std::runtime_error);
}

TEST_F(VocTest, WhatIsWrongIsSaid) {
  const std::string list = (dir_ / "ImageSets/Segmentation/train.txt").string();
  EXPECT_EQ(ErrorOf(Settings()),
            "voc: no ImageSets/Segmentation/train.txt in " + dir_.string() +
                ". To get it: fedmrn data get voc --dir " + dir_.string());
  WriteHalves();
  WriteLists("../../secret\n", "halves\n");
  EXPECT_EQ(ErrorOf(Settings()), list + ": is not a list of names of images");
  WriteLists("\n", "halves\n");
  EXPECT_EQ(ErrorOf(Settings()), list + ": names no image");
  WriteLists("halves\r\n", "halves\r\n");
  DataSettings settings = Settings();
  settings.train_examples = 2;
  EXPECT_EQ(ErrorOf(settings), list + " has 1 training examples here, not 2");
  settings.train_examples = 1;
  EXPECT_EQ(ErrorOf(settings), "");
  WritePair("empty", Plain(20, 20, 1, 1, 1), MaskOf(20, 20, 255));
  WriteLists("empty\n", "halves\n");
  EXPECT_EQ(ErrorOf(Settings()),
            list + ": none of its images can be used: 1 of 1 images of " +
                list + " have no pixel of a class and are left out");
  fs::remove(dir_ / "ImageSets/Segmentation/val.txt");
  EXPECT_TRUE(
      ErrorOf(Settings())
          .starts_with((dir_ / "ImageSets/Segmentation/val.txt").string() +
                       ": is not there"));
}

}  // namespace
}  // namespace fedmrn::train
