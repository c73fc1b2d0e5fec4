// Shared by the tests of the methods.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fedmrn/core/mask.h"
#include "fedmrn/core/test_util.h"
#include "fedmrn/train/fake_task.h"
#include "fedmrn/train/method/method.h"

namespace fedmrn::train {

// One client's round on the fake task.
class Client {
 public:
  explicit Client(size_t examples) : examples_(examples) {
    for (size_t i = 0; i < examples; ++i) {
      examples_[i] = static_cast<uint32_t>(100 + 3 * i);
    }
    local.update.resize(kFakeParams);
    local.coded_gradient.resize(kFakeParams);
    local.plain_gradient.resize(kFakeTrainable);
    local.plain = plain;
    mask.magnitude = 0.05f;
  }

  bool Train(const char* method) {
    return FindMethod(method)->train({task_,
                                      learner_,
                                      train,
                                      settings,
                                      examples_,
                                      weights,
                                      33,
                                      {mask.noise, mask.magnitude, 11},
                                      22,
                                      state,
                                      after_step},
                                     local);
  }
  Masking MaskingOf(MaskKind kind) const {
    return {kind,
            mask.stochastic,
            mask.progressive,
            {mask.noise, mask.magnitude, 11},
            22};
  }

  TrainSettings train{.epochs = 3, .batch = 4, .lr = 0.25f};
  MethodSettings settings;
  MaskSettings& mask = settings.mask;
  std::vector<float> state;
  std::vector<float> weights = Normal(1, kFakeParams, 0.1f);
  const std::vector<float> plain = Normal(2, kFakePlain, 0.1f);
  LocalModel local;
  std::function<bool(size_t)> after_step;
  std::vector<FakeStep> steps;

  std::span<const uint32_t> examples() const { return examples_; }

 private:
  std::vector<uint32_t> examples_;
  Task task_ = MakeFakeTask();
  FakeLearner learner_{&steps};
};

}  // namespace fedmrn::train
