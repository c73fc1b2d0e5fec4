// The paper's convolutional networks, CNN4 and CNN8: blocks of 3x3 convolution,
// batch norm (or group norm, or none) and ReLU, some with 2x2 max pooling, then
// one linear layer; no biases. Forward and backward over flat buffers, without
// an autograd graph: see image_block.h, convolution.h and norm_pool.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "fedmrn/core/layout.h"
#include "fedmrn/train/model/loss.h"
#include "fedmrn/train/model/model.h"

namespace fedmrn::train {

struct CnnBlock {
  uint32_t channels;
  bool pool;
};

struct CnnSpec {
  std::string_view name;
  std::vector<CnnBlock> blocks;
};

const CnnSpec* FindCnn(std::string_view name);  // null if there is none

struct ImageShape {
  uint32_t height = 0;
  uint32_t width = 0;
  uint32_t channels = 0;
};

inline constexpr float kBatchNormMomentum = 0.1f;
inline constexpr float kBatchNormEpsilon = 1e-5f;  // and of group norm
inline constexpr int kNormGroups = 8;  // of group norm, in every block

// Not thread-safe: one per worker. Parameters belong to the caller, as two
// flat buffers in the order of layout(): `coded`, all convolution and linear
// weights; `plain`, first gamma and beta of each block, then the running means
// and variances, which follow the data and have no gradient. Group norm has no
// statistics, and without a norm nothing is plain.
class Cnn {
 public:
  // The images must be large enough for the pooling; see Fits.
  Cnn(const CnnSpec& spec, const ImageShape& image, uint32_t classes,
      Norm norm = Norm::kBatch, uint32_t threads = 1);
  ~Cnn();
  static bool Fits(const CnnSpec& spec, const ImageShape& image);

  const ModelLayout& layout() const { return layout_; }
  uint64_t trainable_plain() const { return trainable_plain_; }
  // Multiply-adds of one example's forward pass, and of the backward pass.
  uint64_t ForwardMacs() const;
  uint64_t BackwardMacs() const;

  // N(0, 0.01^2) weights, gamma 1, beta 0. Without a norm a signal of such
  // weights would vanish: convolutions then have He's N(0, 2 / inputs).
  void Initialize(uint64_t seed, std::span<float> coded,
                  std::span<float> plain) const;

  // `x` is NHWC. Mean cross-entropy of the batch and its gradients; the running
  // statistics in `plain` take in this batch's.
  BatchScore Gradient(std::span<const float> x, std::span<const int32_t> labels,
                      std::span<const float> coded, std::span<float> plain,
                      std::span<float> coded_gradient,
                      std::span<float> plain_gradient);

  // With the running statistics. The logits stay valid until the next call.
  std::span<const float> Logits(std::span<const float> x, uint32_t images,
                                std::span<const float> coded,
                                std::span<const float> plain);

 private:
  struct Plan;  // everything that depends on the batch size
  struct Block;

  const Plan& PlanFor(uint32_t images);
  // The weights of the block where images come in.
  std::span<const float> WeightsOf(const Block& block,
                                   std::span<const float> coded) const;
  // The first block (image_block.h).
  void ForwardImages(const Plan& plan, const float* x,
                     std::span<const float> coded, std::span<const float> plain,
                     float* running, bool training);
  // All but the linear layer. In training the running statistics in `plain`
  // take in the batch's, in evaluation they are used.
  const float* Forward(const Plan& plan, const float* x,
                       std::span<const float> coded,
                       std::span<const float> plain, float* running,
                       bool training);
  // Batch norm shares its statistics among all images, group norm none.
  size_t Parts(const Plan& plan) const;
  // Channels that share statistics, as NormState::group.
  uint32_t GroupOf(const Block& block) const;
  struct Part;  // the images of a block that share statistics
  Part PartOf(const Plan& plan, size_t block, size_t part);
  // `moments` finds the part's mean and variance, if they are needed.
  void Normalise(const Block& block, const Part& part,
                 std::span<const float> plain, float* running,
                 const std::function<void()>& moments);
  void Linear(const Plan& plan, std::span<const float> coded);

  std::vector<CnnBlock> blocks_;
  ImageShape image_;
  uint32_t classes_;
  Norm norm_;
  uint32_t threads_;  // that share the images of a batch
  ModelLayout layout_;
  uint64_t trainable_plain_ = 0;
  uint32_t features_ = 0;  // inputs of the linear layer
  uint32_t feature_channels_ = 0;
  std::map<uint32_t, std::unique_ptr<Plan>> plans_;

  // Memory is that of the largest batch so far.
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace fedmrn::train
