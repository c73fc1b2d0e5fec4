#include "fedmrn/train/torch/plain_cnn.h"

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <torch/nn.h>
#include <torch/optim/sgd.h>
// clang-format on
#include <torch/utils.h>

namespace fedmrn::train {
namespace {

class Plain final : public PlainNetwork {
 public:
  Plain(const CnnSpec& spec, const ImageShape& image, uint32_t classes,
        double lr)
      : image_(image) {
    namespace nn = torch::nn;
    int64_t height = image.height, width = image.width;
    int64_t channels = image.channels;
    for (const CnnBlock& block : spec.blocks) {
      net_->push_back(nn::Conv2d(nn::Conv2dOptions(channels, block.channels, 3)
                                     .padding(1)
                                     .bias(false)));
      net_->push_back(nn::BatchNorm2d(block.channels));
      net_->push_back(nn::ReLU());
      if (block.pool) {
        net_->push_back(nn::MaxPool2d(2));
        height /= 2, width /= 2;
      }
      channels = block.channels;
    }
    net_->push_back(nn::Flatten());
    net_->push_back(nn::Linear(
        nn::LinearOptions(channels * height * width, classes).bias(false)));
    for (torch::Tensor& p : net_->parameters()) {
      torch::NoGradGuard no_gradient;
      if (p.dim() > 1) p.normal_(0, 0.01);
    }
    optimizer_ = std::make_unique<torch::optim::SGD>(net_->parameters(), lr);
  }

  double Step(const Batch& batch) override {
    const torch::Tensor input = torch::from_blob(
        const_cast<float*>(batch.x.data()),
        {batch.examples, image_.channels, image_.height, image_.width});
    const torch::Tensor targets = torch::tensor(
        std::vector<int64_t>(batch.labels.begin(), batch.labels.end()));
    optimizer_->zero_grad();
    const torch::Tensor loss =
        torch::cross_entropy_loss(net_->forward(input), targets);
    loss.backward();
    optimizer_->step();
    return loss.item<double>();
  }

 private:
  ImageShape image_;
  torch::nn::Sequential net_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
};

}  // namespace

std::unique_ptr<PlainNetwork> MakePlainCnn(const CnnSpec& spec,
                                           const ImageShape& image,
                                           uint32_t classes, double lr) {
  return std::make_unique<Plain>(spec, image, classes, lr);
}

}  // namespace fedmrn::train
