// For tests: a task small enough to compute by hand. Example e wants parameter
// i to be FakeTarget(e, i); its loss is half the squared distance, so a
// gradient is the distance itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fedmrn/train/task.h"

namespace fedmrn::train {

inline constexpr size_t kFakeParams = 37, kFakePlain = 5, kFakeTrainable = 3;
inline constexpr size_t kFakeTests = 200;

// The trainable plain values are parameters 1000, 1001, ...
inline float FakeTarget(uint32_t example, size_t i) {
  return 0.01f * static_cast<float>((example * 7 + i * 3) % 11) - 0.05f;
}

// A call of Learner::Gradient: what the learner was given.
struct FakeStep {
  std::vector<uint32_t> examples;
  PhiloxStream draws;
  std::vector<float> coded, plain;
};

class FakeLearner : public Learner {
 public:
  explicit FakeLearner(std::vector<FakeStep>* steps = nullptr)
      : steps_(steps) {}

  BatchScore Gradient(std::span<const uint32_t> examples,
                      const PhiloxStream& draws, std::span<const float> coded,
                      std::span<float> plain, std::span<float> coded_gradient,
                      std::span<float> plain_gradient) override {
    if (steps_ != nullptr) {
      steps_->push_back({{examples.begin(), examples.end()},
                         draws,
                         {coded.begin(), coded.end()},
                         {plain.begin(), plain.end()}});
    }
    const auto gradient = [&](float value, size_t i) {
      float sum = 0;
      for (const uint32_t e : examples) sum += value - FakeTarget(e, i);
      return sum / static_cast<float>(examples.size());
    };
    for (size_t i = 0; i < coded.size(); ++i) {
      coded_gradient[i] = gradient(coded[i], i);
    }
    for (size_t i = 0; i < plain_gradient.size(); ++i) {
      plain_gradient[i] = gradient(plain[i], 1000 + i);
    }
    for (size_t i = plain_gradient.size(); i < plain.size(); ++i) {
      plain[i] += 1;  // a statistic: counts the steps
    }
    // Known to tests: the mean number of the examples, and how many are even.
    BatchScore score;
    for (const uint32_t e : examples) {
      score.loss += e / static_cast<double>(examples.size());
      score.metric += (e % 2 == 0) / static_cast<double>(examples.size());
    }
    return score;
  }

  Score Evaluate(uint64_t first, uint32_t count, std::span<const float> coded,
                 std::span<const float> plain) override {
    Score score;
    for (uint64_t test = first; test < first + count; ++test) {
      const float w = coded[test % coded.size()];
      score.loss += 1.0 / 3 + w * plain[0];
      score.metric += w >= 0 ? 1 : 0;
      ++score.count;
    }
    return score;
  }

 private:
  std::vector<FakeStep>* steps_;
};

// With `steps`, one worker only: learners write there without a lock.
inline Task MakeFakeTask(std::vector<FakeStep>* steps = nullptr) {
  Task task;
  task.model.layout.tensors = {
      {"conv.weight", {3, 7}, true},
      {"bn.weight", {kFakeTrainable}, false},
      {"bn.count", {kFakePlain - kFakeTrainable}, false},
      {"fc.weight", {4, 4}, true}};
  task.model.trainable_plain = kFakeTrainable;
  Data data;
  data.test_examples = kFakeTests;
  task.data = std::make_shared<const Data>(std::move(data));
  task.make_learner = [steps] { return std::make_unique<FakeLearner>(steps); };
  return task;
}

}  // namespace fedmrn::train
