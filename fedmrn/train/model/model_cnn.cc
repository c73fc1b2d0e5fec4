// The networks of cnn.h as rows of the models' table.
#include "fedmrn/train/data/describe.h"
#include "fedmrn/train/model/cnn.h"
#include "fedmrn/train/model/model.h"

namespace fedmrn::train {
namespace {

class CnnNetwork final : public Network {
 public:
  CnnNetwork(const CnnSpec& spec, const ImageShape& image, uint32_t classes,
             Norm norm, uint32_t threads)
      : cnn_(spec, image, classes, norm, threads) {}

  BatchScore Gradient(const Batch& batch, const PhiloxStream&,
                      std::span<const float> coded, std::span<float> plain,
                      std::span<float> coded_gradient,
                      std::span<float> plain_gradient) override {
    return cnn_.Gradient(batch.x, batch.labels, coded, plain, coded_gradient,
                         plain_gradient);
  }

  Score Evaluate(const Batch& batch, std::span<const float> coded,
                 std::span<const float> plain) override {
    return CrossEntropy(cnn_.Logits(batch.x, batch.examples, coded, plain),
                        batch.labels);
  }

 private:
  Cnn cnn_;
};

std::string NormSource(Norm norm) {
  switch (norm) {
    case Norm::kBatch:
      return BatchNormSource();
    case Norm::kGroup:
      return GroupNormSource(kNormGroups);
    case Norm::kNone:
      break;
  }
  return "";
}

}  // namespace

Result<Model> MakeCnn(const ModelSettings& settings, const Data& data) {
  const CnnSpec& spec = *FindCnn(settings.name);
  const auto refused = [&](const std::string& why) {
    return Error{ErrorCode::kBadValue,
                 settings.name + " cannot learn " + data.name + ": " + why};
  };
  if (data.input != Input::kImages || data.target != Target::kClass) {
    return refused("it classifies images, and an example here is " +
                   DescribeInput(data) + ", its target " +
                   DescribeTarget(data) +
                   (data.input == Input::kNumbers
                        ? "; bytes (uint8) of shape (n, height, width, "
                          "channels) are images, floats are for networks of "
                          "your own (model.torchscript)"
                        : ""));
  }
  const ImageShape image{static_cast<uint32_t>(data.shape[0]),
                         static_cast<uint32_t>(data.shape[1]),
                         static_cast<uint32_t>(data.shape[2])};
  if (!Cnn::Fits(spec, image))
    return refused("too small are its " + DescribeInput(data));
  const uint32_t classes = data.classes;
  const auto cnn =
      std::make_shared<const Cnn>(spec, image, classes, settings.norm);

  Model model;
  model.layout = cnn->layout();
  model.trainable_plain = cnn->trainable_plain();
  model.initialize = [cnn](uint64_t seed, std::span<float> coded,
                           std::span<float> plain) {
    cnn->Initialize(seed, coded, plain);
  };
  model.make_network = [&spec, image, classes, norm = settings.norm,
                        threads = settings.threads] {
    return std::make_unique<CnnNetwork>(spec, image, classes, norm, threads);
  };
  model.torchscript = [cnn, &spec, norm = settings.norm, mean = data.mean,
                       std = data.std](std::span<const float> coded,
                                       std::span<const float> plain) {
    std::vector<bool> pool_after;
    for (const CnnBlock& block : spec.blocks) pool_after.push_back(block.pool);
    return MakeTorchScript(
        TensorsOf(cnn->layout(), cnn->trainable_plain(), coded, plain),
        CnnSource(pool_after, NormSource(norm), mean, std));
  };
  return model;
}

}  // namespace fedmrn::train
