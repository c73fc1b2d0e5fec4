// A task: data, model, loss and metric behind one door. What stands above sees
// flat buffers and example indices only, never an image or a tensor.
//
// A model's parameters are two flat buffers in the order of its layout:
// `masked`, which methods compress, and `dense`, which travels as it is. The
// first `trainable_dense` values of `dense` are trained by SGD; the rest
// (batch-norm statistics) follow the data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "fedmrn/core/layout.h"
#include "fedmrn/core/philox.h"
#include "fedmrn/core/result.h"
#include "fedmrn/train/dataset.h"
#include "fedmrn/train/loss.h"

namespace fedmrn {

// One worker's copy of the network, with its buffers. Not thread-safe. Results
// do not depend on what it computed before.
class Learner {
 public:
  virtual ~Learner() = default;

  // Mean loss of training examples and its gradient; updates the statistics in
  // `dense`. `draws` feeds what is random about it (augmentation, dropout).
  virtual double Gradient(std::span<const uint32_t> examples,
                          const PhiloxStream& draws,
                          std::span<const float> masked, std::span<float> dense,
                          std::span<float> masked_gradient,
                          std::span<float> dense_gradient) = 0;

  // Of test examples first, first + 1, ... as a deployed model would do.
  virtual Score Evaluate(uint64_t first, uint32_t count,
                         std::span<const float> masked,
                         std::span<const float> dense) = 0;
};

struct Task {
  ModelLayout layout;
  uint64_t trainable_dense = 0;
  uint64_t train_examples = 0;
  uint64_t test_examples = 0;
  // What partitions look at.
  std::span<const uint16_t> labels;
  uint32_t classes = 0;
  std::span<const uint32_t> natural_clients;

  std::function<void(uint64_t seed, std::span<float> masked,
                     std::span<float> dense)>
      initialize;
  std::function<std::unique_ptr<Learner>()> make_learner;
  // The contents of a TorchScript file, for torch.jit.load.
  std::function<Result<std::string>(std::span<const float> masked,
                                    std::span<const float> dense)>
      torchscript;
};

// Image classification by one of the networks of cnn.h; of data from files, or
// at hand.
Result<Task> MakeImageTask(const DataSettings& data, const std::string& model);
Result<Task> MakeImageTask(ImageData data, const std::string& model);

}  // namespace fedmrn
