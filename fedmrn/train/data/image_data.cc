#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/core/random.h"
#include "fedmrn/train/data/dataset.h"

namespace fedmrn::train {
namespace {

constexpr int kCropPadding = 4;

// (pixel / 255 - mean) / std for each channel and each of the 256 pixel values.
using PixelTable = std::array<std::array<float, 256>, 3>;

PixelTable MakePixelTable(const Examples& examples) {
  PixelTable table;
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t pixel = 0; pixel < 256; ++pixel) {
      table[channel][pixel] =
          (static_cast<float>(pixel) / 255.0f - examples.mean[channel]) /
          examples.std[channel];
    }
  }
  return table;
}

// Where the crop begins, relative to the image; beyond its edge is black.
struct Placement {
  int down = 0, right = 0;
  bool flip = false;
};

// Images and their pixel tables.
struct Images {
  explicit Images(ImageData images)
      : data(std::move(images)),
        train_table(MakePixelTable(data.train)),
        test_table(MakePixelTable(data.test)) {}

  size_t image_size() const {
    return size_t{data.height} * data.width * data.channels;
  }

  void Resize(size_t count, Batch& batch) const {
    batch.examples = static_cast<uint32_t>(count);
    batch.shape = {static_cast<int64_t>(count), data.height, data.width,
                   data.channels};
    batch.x.resize(count * image_size());
    batch.labels.resize(count);
  }

  void Fill(const Examples& from, const PixelTable& table, size_t example,
            const Placement& placement, size_t row, Batch& batch) const {
    FEDMRN_CHECK(example < from.size());
    batch.labels[row] = from.labels[example];
    const uint8_t* pixels = from.pixels.data() + example * image_size();
    float* to = batch.x.data() + row * image_size();
    const int height = static_cast<int>(data.height);
    const int width = static_cast<int>(data.width);
    const size_t channels = data.channels;
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const int from_y = y + placement.down;
        const int from_x =
            (placement.flip ? width - 1 - x : x) + placement.right;
        const bool inside =
            from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
        for (size_t c = 0; c < channels; ++c) {
          const size_t at =
              static_cast<size_t>(from_y * width + from_x) * channels + c;
          *to++ = table[c][inside ? pixels[at] : 0];
        }
      }
    }
  }

  ImageData data;
  PixelTable train_table, test_table;
};

}  // namespace

Data DataOf(ImageData images) {
  const auto shared = std::make_shared<const Images>(std::move(images));
  const ImageData& from = shared->data;
  Data data;
  data.name = from.name;
  data.input = Input::kImages;
  data.target = Target::kClass;
  data.shape = {from.height, from.width, from.channels};
  data.classes = from.classes;
  data.mean.assign(from.test.mean.begin(),
                   from.test.mean.begin() + from.channels);
  data.std.assign(from.test.std.begin(), from.test.std.begin() + from.channels);
  data.train_examples = from.train.size();
  data.test_examples = from.test.size();
  data.labels = from.train.labels;
  data.clients = from.train.clients;
  data.train_batch = [shared](std::span<const uint32_t> examples,
                              const PhiloxStream& draws, Batch& batch) {
    shared->Resize(examples.size(), batch);
    Random random(draws);
    const auto shift = [&] {
      return static_cast<int>(random.Below(2 * kCropPadding + 1)) -
             kCropPadding;
    };
    for (size_t i = 0; i < examples.size(); ++i) {
      Placement placement;
      if (shared->data.augment) {  // crop, then flip
        placement.down = shift();
        placement.right = shift();
        placement.flip = random.Below(2) == 1;
      }
      shared->Fill(shared->data.train, shared->train_table, examples[i],
                   placement, i, batch);
    }
  };
  data.train_as_test = [shared](std::span<const uint32_t> examples,
                                Batch& batch) {
    shared->Resize(examples.size(), batch);
    for (size_t i = 0; i < examples.size(); ++i) {
      shared->Fill(shared->data.train, shared->train_table, examples[i], {}, i,
                   batch);
    }
  };
  data.test_batch = [shared](uint64_t first, uint32_t count, Batch& batch) {
    shared->Resize(count, batch);
    for (uint32_t i = 0; i < count; ++i) {
      shared->Fill(shared->data.test, shared->test_table, first + i, {}, i,
                   batch);
    }
  };
  return data;
}

}  // namespace fedmrn::train
