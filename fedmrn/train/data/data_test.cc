#include "fedmrn/train/data/data.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fedmrn/train/data/dataset.h"

namespace fedmrn::train {
namespace {

// Pictures of noise, moved and turned around in training.
ImageData Pictures(uint32_t train, uint32_t test) {
  ImageData images;
  images.name = "pictures";
  images.height = images.width = 5;
  images.channels = 1;
  images.classes = 7;
  images.augment = true;
  images.train.mean = {0.25f, 0, 0};
  uint32_t state = 1;
  const auto fill = [&](uint32_t count, Examples& examples) {
    for (uint32_t i = 0; i < count; ++i) {
      for (int pixel = 0; pixel < 25; ++pixel) {
        state = state * 1664525 + 1013904223;
        examples.pixels.push_back(static_cast<uint8_t>(state >> 24));
      }
      examples.labels.push_back(static_cast<uint16_t>(i % 7));
    }
  };
  fill(train, images.train);
  fill(test, images.test);
  return images;
}

TEST(TestedOn, GivesTrainingExamplesAsTheyAre) {
  const ImageData images = Pictures(200, 30);
  const std::vector<uint32_t> chosen = {3, 199, 50, 51};
  const Data data = TestedOn(DataOf(images), chosen);
  EXPECT_EQ(data.test_examples, chosen.size());
  EXPECT_EQ(data.train_examples, 200u);
  Batch batch;
  data.test_batch(1, 2, batch);
  EXPECT_EQ(batch.examples, 2u);
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{199 % 7, 50 % 7}));
  for (size_t i = 0; i < 25; ++i) {  // neither moved nor turned
    const float pixel = images.train.pixels[199 * 25 + i];
    EXPECT_FLOAT_EQ(batch.x[i], pixel / 255.0f - 0.25f);
  }
}

TEST(Sha256OfData, IsOfAllThatCounts) {
  const auto digest = [](const auto& change) {
    ImageData images = Pictures(200, 30);
    change(images);
    return Sha256Of(DataOf(std::move(images)));
  };
  const std::string whole = digest([](ImageData&) {});
  EXPECT_EQ(whole.size(), 64u);
  EXPECT_EQ(digest([](ImageData&) {}), whole);
  EXPECT_EQ(digest([](ImageData& i) { i.name = "moved"; }), whole);
  EXPECT_NE(digest([](ImageData& i) { i.train.pixels.back() ^= 1; }), whole);
  EXPECT_NE(digest([](ImageData& i) { i.test.pixels.back() ^= 1; }), whole);
  EXPECT_NE(digest([](ImageData& i) { i.train.labels[0] = 6; }), whole);
  EXPECT_NE(digest([](ImageData& i) { i.test.labels[29] = 6; }), whole);
  EXPECT_NE(digest([](ImageData& i) { i.train.clients.assign(200, 1); }),
            whole);
  EXPECT_NE(digest([](ImageData& i) { i.test.std[0] = 2; }), whole);
}

}  // namespace
}  // namespace fedmrn::train
