#include "fedmrn/train/torch/plain_cnn.h"

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
#include <ATen/core/ivalue.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "fedmrn/train/torch/plain_sgd.h"

namespace fedmrn::train {
namespace {

at::Tensor RandomWeights(at::IntArrayRef shape) {
  return at::randn(shape).mul_(0.01).requires_grad_();
}

// Convolution, batch norm, ReLU and, at the end of a stage, pooling.
class Block {
 public:
  Block(int64_t channels_in, const CnnBlock& spec)
      : weights_(RandomWeights({spec.channels, channels_in, 3, 3})),
        scale_(at::ones({spec.channels}).requires_grad_()),
        shift_(at::zeros({spec.channels}).requires_grad_()),
        mean_(at::zeros({spec.channels})),
        variance_(at::ones({spec.channels})),
        pool_(spec.pool) {}

  std::vector<at::Tensor> parameters() const {
    return {weights_, scale_, shift_};
  }
  at::Tensor Forward(const at::Tensor& x) const {
    constexpr double kMomentum = 0.1, kEpsilon = 1e-5;  // LibTorch's defaults
    const at::Tensor y = at::relu(at::batch_norm(
        at::conv2d(x, weights_, {}, /*stride=*/1, /*padding=*/1), scale_,
        shift_, mean_, variance_, /*training=*/true, kMomentum, kEpsilon,
        /*cudnn_enabled=*/false));
    return pool_ ? at::max_pool2d(y, 2) : y;
  }

 private:
  at::Tensor weights_, scale_, shift_, mean_, variance_;
  bool pool_;
};

class PlainCnn final : public PlainNetwork {
 public:
  PlainCnn(const CnnSpec& spec, const ImageShape& image, uint32_t classes,
           double lr)
      : image_(image) {
    int64_t height = image.height, width = image.width;
    int64_t channels = image.channels;
    std::vector<at::Tensor> parameters;
    for (const CnnBlock& block : spec.blocks) {
      blocks_.emplace_back(channels, block);
      for (const at::Tensor& p : blocks_.back().parameters()) {
        parameters.push_back(p);
      }
      if (block.pool) height /= 2, width /= 2;
      channels = block.channels;
    }
    linear_ = RandomWeights({classes, channels * height * width});
    parameters.push_back(linear_);
    optimizer_ = std::make_unique<PlainSgd>(std::move(parameters), lr);
  }

  double Step(const Batch& batch) override {
    at::Tensor x = at::from_blob(
        const_cast<float*>(batch.x.data()),
        {batch.examples, image_.channels, image_.height, image_.width});
    const at::Tensor targets = at::tensor(
        std::vector<int64_t>(batch.labels.begin(), batch.labels.end()));
    optimizer_->ZeroGradients();
    for (const Block& block : blocks_) x = block.Forward(x);
    const at::Tensor loss =
        at::cross_entropy_loss(at::linear(x.flatten(1), linear_), targets);
    loss.backward();
    optimizer_->Step();
    return loss.item<double>();
  }

 private:
  ImageShape image_;
  std::vector<Block> blocks_;
  at::Tensor linear_;
  std::unique_ptr<PlainSgd> optimizer_;
};

}  // namespace

std::unique_ptr<PlainNetwork> MakePlainCnn(const CnnSpec& spec,
                                           const ImageShape& image,
                                           uint32_t classes, double lr) {
  return std::make_unique<PlainCnn>(spec, image, classes, lr);
}

}  // namespace fedmrn::train
