// A task: data, model, loss and metric behind one door. What stands above sees
// flat buffers and example indices only, never an image or a tensor.
//
// A model's parameters are two flat buffers in the order of its layout:
// `coded`, which methods compress, and `plain`, which travels as it is. The
// first `trainable_plain` values of `plain` are trained by SGD; the rest
// (batch-norm statistics) follow the data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/core/philox.h"
#include "fedmrn/train/data/dataset.h"
#include "fedmrn/train/model/loss.h"
#include "fedmrn/train/model/model.h"

namespace fedmrn::train {

// Tensors of the network that belong to neither buffer, since they never leave
// a client: see local_tensors.h. In the order of the layout, the coded ones
// first, then the plain ones, of which the statistics come last.
struct LocalTensors {
  std::vector<float> values;    // of the client at work; empty: initial ones
  std::vector<float> gradient;  // of all but the statistics, by the last step
};

// One worker's way to learn: batches of the data through its copy of the
// network. Not thread-safe. Results do not depend on what it computed before.
class Learner {
 public:
  virtual ~Learner() = default;

  // Announces a later call of Gradient, in the order of the calls, so that its
  // batch can be made in the background.
  virtual void Prepare(std::span<const uint32_t> /*examples*/,
                       const PhiloxStream& /*draws*/) {}

  // Mean loss of training examples and its gradient; updates the statistics in
  // `plain`. `draws` feeds what is random about it (augmentation, dropout).
  virtual BatchScore Gradient(std::span<const uint32_t> examples,
                              const PhiloxStream& draws,
                              std::span<const float> coded,
                              std::span<float> plain,
                              std::span<float> coded_gradient,
                              std::span<float> plain_gradient) = 0;

  // Scores test examples first, first + 1, ... as a deployed model would do.
  virtual Score Evaluate(uint64_t first, uint32_t count,
                         std::span<const float> coded,
                         std::span<const float> plain) = 0;

  // For whoever trains or tests a client; null in most tasks, which have none.
  virtual LocalTensors* local() { return nullptr; }
};

// Immutable and thread-safe.
struct Task {
  std::shared_ptr<const Data> data;
  Model model;
  std::function<std::unique_ptr<Learner>()> make_learner;
};

Result<Task> MakeTask(const DataSettings& data, const ModelSettings& model);
// For those who have the data at hand.
Result<Task> MakeTask(Data data, const ModelSettings& model);
// For those who have both.
Task TaskOf(Data data, Model model);

}  // namespace fedmrn::train
