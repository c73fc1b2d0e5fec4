#include "fedmrn/train/local_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "fedmrn/train/fake_task.h"

namespace fedmrn::train {
namespace {

using Values = std::vector<float>;

// Coded values start as 100, 101, ..., plain ones as 200, 201, ...
Task Numbered(std::vector<FakeStep>* steps = nullptr) {
  Task task = MakeFakeTask(steps);
  task.model.initialize = [](uint64_t seed, std::span<float> coded,
                             std::span<float> plain) {
    std::iota(coded.begin(), coded.end(), 100.0f * static_cast<float>(seed));
    std::iota(plain.begin(), plain.end(), 200.0f * static_cast<float>(seed));
  };
  task.model.torchscript = [](std::span<const float> coded,
                              std::span<const float> plain) {
    std::string text;
    for (const float value : coded) text += std::to_string(int(value)) + " ";
    for (const float value : plain) text += std::to_string(int(value)) + " ";
    return Result<std::string>(text);
  };
  return task;
}

Values Range(float first, size_t count) {
  Values values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(LocalTensorsTest, TheModelIsTheRest) {
  const Result<Task> task = WithLocalTensors(Numbered(), "fc.*,bn.*", 1);
  ASSERT_TRUE(task) << task.error().message;
  const Model& model = task->model;
  ASSERT_EQ(model.layout.tensors.size(), 1u);
  EXPECT_EQ(model.layout.tensors[0].name, "conv.weight");
  EXPECT_EQ(model.trainable_plain, 0u);
  EXPECT_EQ(model.local_values, 16u + 5u);
  Values coded(21), plain;
  model.initialize(1, coded, plain);
  EXPECT_EQ(coded, Range(100, 21));
  // The file is the whole network's.
  const Result<std::string> file = model.torchscript(Values(21, 7), {});
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->starts_with("7 7 ")) << *file;
  EXPECT_TRUE(
      file->ends_with(" 7 121 122 123 124 125 126 127 128 129 130 131 "
                      "132 133 134 135 136 200 201 202 203 204 "))
      << *file;
}

// Every value is where it was in the whole network, and so is its gradient.
TEST(LocalTensorsTest, TheNetworkIsWhole) {
  for (const char* patterns :
       {"fc.*", "conv*", "bn.weight", "bn.count", "bn*", "*,!conv*", "fc*, bn*",
        "conv.weight,bn.count"}) {
    SCOPED_TRACE(patterns);
    std::vector<FakeStep> steps;
    const Result<Task> task = WithLocalTensors(Numbered(&steps), patterns, 1);
    ASSERT_TRUE(task) << task.error().message;
    const Model& model = task->model;
    const std::unique_ptr<Learner> learner = task->make_learner();
    Values coded(model.layout.coded_params()),
        plain(model.layout.plain_values()), coded_gradient(coded.size()),
        plain_gradient(model.trainable_plain);
    model.initialize(1, coded, plain);
    const std::vector<uint32_t> examples = {3, 9};
    const PhiloxStream draws = {1, Purpose::kAugment, 2};
    for (int step = 0; step < 2; ++step) {
      learner->Gradient(examples, draws, coded, plain, coded_gradient,
                        plain_gradient);
    }
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_EQ(steps[0].coded, Range(100, kFakeParams));
    EXPECT_EQ(steps[0].plain, Range(200, kFakePlain));
    // Statistics have counted, whoever has them.
    EXPECT_EQ(steps[1].plain, (Values{200, 201, 202, 204, 205}));

    const std::unique_ptr<Learner> whole = MakeFakeTask().make_learner();
    Values all = Range(200, kFakePlain), expected(kFakeParams),
           expected_plain(kFakeTrainable);
    whole->Gradient(examples, draws, Range(100, kFakeParams), all, expected,
                    expected_plain);
    expected.insert(expected.end(), expected_plain.begin(),
                    expected_plain.end());
    std::ranges::sort(expected);
    Values gradient = coded_gradient;
    const LocalTensors& local = *learner->local();
    gradient.insert(gradient.end(), plain_gradient.begin(),
                    plain_gradient.end());
    gradient.insert(gradient.end(), local.gradient.begin(),
                    local.gradient.end());
    std::ranges::sort(gradient);
    EXPECT_EQ(gradient, expected);
    EXPECT_EQ(local.values.size(), model.local_values);
  }
}

TEST(LocalTensorsTest, TestsWithWhatIsGiven) {
  const Result<Task> task = WithLocalTensors(Numbered(), "fc.*", 1);
  ASSERT_TRUE(task);
  const std::unique_ptr<Learner> learner = task->make_learner();
  const Values coded(21, 1), plain(kFakePlain);
  // One test for each coded value, right if it is not negative.
  EXPECT_EQ(learner->Evaluate(0, kFakeParams, coded, plain).metric, 37);
  learner->local()->values.assign(16, -1);
  EXPECT_EQ(learner->Evaluate(0, kFakeParams, coded, plain).metric, 21);
  learner->local()->values.clear();
  EXPECT_EQ(learner->Evaluate(0, kFakeParams, coded, plain).metric, 37);
}

TEST(LocalTensorsTest, WhatCannotBe) {
  const auto message = [](const char* patterns) {
    const Result<Task> task = WithLocalTensors(Numbered(), patterns, 1);
    EXPECT_FALSE(task);
    return task ? "" : task.error().message;
  };
  const std::string names =
      "; the network has conv.weight, bn.weight, bn.count, fc.weight";
  EXPECT_EQ(message("head*"),
            "method.local: no tensor has a name like 'head*'" + names);
  EXPECT_EQ(message("!fc*"), "method.local: no tensor would stay" + names);
  EXPECT_EQ(message("*.weight"),
            "method.local: no tensor would be compressed" + names);
}

}  // namespace
}  // namespace fedmrn::train
