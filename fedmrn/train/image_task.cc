#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "fedmrn/core/check.h"
#include "fedmrn/core/random.h"
#include "fedmrn/train/cnn.h"
#include "fedmrn/train/task.h"
#include "fedmrn/train/torchscript.h"

namespace fedmrn {
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

class ImageLearner final : public Learner {
 public:
  ImageLearner(std::shared_ptr<const ImageData> data, const CnnSpec& spec)
      : data_(std::move(data)),
        cnn_(spec, {data_->height, data_->width, data_->channels},
             data_->classes),
        train_table_(MakePixelTable(data_->train)),
        test_table_(MakePixelTable(data_->test)) {}

  double Gradient(std::span<const uint32_t> examples, const PhiloxStream& draws,
                  std::span<const float> masked, std::span<float> dense,
                  std::span<float> masked_gradient,
                  std::span<float> dense_gradient) override {
    Resize(examples.size());
    Random random(draws);
    for (size_t i = 0; i < examples.size(); ++i) {
      FEDMRN_CHECK(examples[i] < data_->train.size());
      Placement placement;
      if (data_->augment) {  // crop, then flip
        placement.down =
            static_cast<int>(random.Below(2 * kCropPadding + 1)) - kCropPadding;
        placement.right =
            static_cast<int>(random.Below(2 * kCropPadding + 1)) - kCropPadding;
        placement.flip = random.Below(2) == 1;
      }
      Fill(data_->train, train_table_, examples[i], placement, i);
    }
    return cnn_.Gradient(inputs_, labels_, masked, dense, masked_gradient,
                         dense_gradient);
  }

  Score Evaluate(uint64_t first, uint32_t count, std::span<const float> masked,
                 std::span<const float> dense) override {
    FEDMRN_CHECK(first + count <= data_->test.size());
    Resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      Fill(data_->test, test_table_, first + i, {}, i);
    }
    return CrossEntropy(cnn_.Logits(inputs_, count, masked, dense), labels_,
                        nullptr);
  }

 private:
  // Where the crop begins, relative to the image; beyond its edge is black.
  struct Placement {
    int down = 0, right = 0;
    bool flip = false;
  };

  size_t image_size() const {
    return size_t{data_->height} * data_->width * data_->channels;
  }

  void Resize(size_t count) {
    inputs_.resize(count * image_size());
    labels_.resize(count);
  }

  void Fill(const Examples& from, const PixelTable& table, size_t example,
            const Placement& placement, size_t row) {
    labels_[row] = from.labels[example];
    const uint8_t* pixels = from.pixels.data() + example * image_size();
    float* to = inputs_.data() + row * image_size();
    const int height = static_cast<int>(data_->height);
    const int width = static_cast<int>(data_->width);
    const size_t channels = data_->channels;
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

  std::shared_ptr<const ImageData> data_;
  Cnn cnn_;
  PixelTable train_table_, test_table_;
  std::vector<float> inputs_;
  std::vector<uint16_t> labels_;
};

}  // namespace

Result<Task> MakeImageTask(const DataSettings& settings,
                           const std::string& model) {
  Result<ImageData> data = LoadImages(settings);
  if (!data) return data.error();
  return MakeImageTask(std::move(*data), model);
}

Result<Task> MakeImageTask(ImageData images, const std::string& model) {
  const CnnSpec* spec = FindCnn(model);
  if (spec == nullptr) {
    return Error{ErrorCode::kBadValue, "model '" + model + "' is not known"};
  }
  const auto data = std::make_shared<const ImageData>(std::move(images));
  const ImageShape shape{data->height, data->width, data->channels};
  if (!Cnn::Fits(*spec, shape)) {
    return Error{ErrorCode::kBadValue,
                 "the images of " + data->name + " are too small for " + model};
  }
  const auto cnn = std::make_shared<const Cnn>(*spec, shape, data->classes);

  Task task;
  task.layout = cnn->layout();
  task.trainable_dense = cnn->trainable_dense();
  task.train_examples = data->train.size();
  task.test_examples = data->test.size();
  task.labels = data->train.labels;
  task.classes = data->classes;
  task.natural_clients = data->train.clients;
  task.initialize = [cnn](uint64_t seed, std::span<float> masked,
                          std::span<float> dense) {
    cnn->Initialize(seed, masked, dense);
  };
  task.make_learner = [data, spec] {
    return std::make_unique<ImageLearner>(data, *spec);
  };
  task.torchscript = [data, cnn, spec](std::span<const float> masked,
                                       std::span<const float> dense) {
    std::vector<TorchScriptTensor> tensors;
    size_t masked_at = 0, dense_at = 0;
    for (const TensorLayout& tensor : cnn->layout().tensors) {
      const std::span<const float> from = tensor.masked ? masked : dense;
      size_t& at = tensor.masked ? masked_at : dense_at;
      const bool trainable = tensor.masked || at < cnn->trainable_dense();
      tensors.push_back({tensor.name,
                         {tensor.shape.begin(), tensor.shape.end()},
                         from.subspan(at, tensor.size()),
                         trainable});
      at += tensor.size();
    }
    std::vector<bool> pool_after;
    for (const CnnBlock& block : spec->blocks) pool_after.push_back(block.pool);
    const Examples& test = data->test;
    return MakeTorchScript(
        tensors,
        CnnSource(pool_after, std::span(test.mean).first(data->channels),
                  std::span(test.std).first(data->channels)));
  };
  return task;
}

}  // namespace fedmrn
