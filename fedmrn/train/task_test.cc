#include "fedmrn/train/task.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fedmrn/train/method/method.h"

namespace fedmrn::train {
namespace {

struct Seen {
  std::vector<Batch> batches;
  std::vector<PhiloxStream> draws;
  // Training batches, by the thread that made them.
  std::atomic<uint32_t> made_here = 0, made_ahead = 0;
};

class Recorder final : public Network {
 public:
  explicit Recorder(Seen& seen) : seen_(seen) {}

  BatchScore Gradient(const Batch& batch, const PhiloxStream& draws,
                      std::span<const float>, std::span<float>,
                      std::span<float>, std::span<float>) override {
    seen_.batches.push_back(batch);
    seen_.draws.push_back(draws);
    return {};
  }
  Score Evaluate(const Batch& batch, std::span<const float>,
                 std::span<const float>) override {
    seen_.batches.push_back(batch);
    Score score;
    score.count = batch.examples;
    score.loss = batch.labels[0];
    score.confusion = {0, batch.examples};
    return score;
  }

 private:
  Seen& seen_;
};

// Example e has label e.
Task RecordingTask(bool prepare_ahead, Seen& seen) {
  Data data;
  data.prepare_ahead = prepare_ahead;
  data.largest_test_batch = 3;
  data.train_batch = [&seen, main = std::this_thread::get_id()](
                         std::span<const uint32_t> examples,
                         const PhiloxStream& draws, Batch& batch) {
    ++(std::this_thread::get_id() == main ? seen.made_here : seen.made_ahead);
    batch.examples = static_cast<uint32_t>(examples.size());
    batch.labels.assign(examples.begin(), examples.end());
    batch.x = {static_cast<float>(draws.seed), static_cast<float>(draws.sub)};
    if (examples[0] == 13) throw std::runtime_error("13.jpg has vanished");
  };
  data.test_batch = [](uint64_t first, uint32_t count, Batch& batch) {
    batch.examples = count;
    batch.labels = {static_cast<int32_t>(first)};
  };
  Model model;
  model.make_network = [&seen] { return std::make_unique<Recorder>(seen); };
  return TaskOf(std::move(data), std::move(model));
}

// Two epochs of seven examples by FedAvg, after work that ended early.
void TrainTwice(const Task& task, bool drop_last) {
  const std::vector<uint32_t> examples = {1, 2, 3, 4, 5, 6, 7};
  const TrainSettings train{
      .epochs = 2, .batch = 3, .lr = 0.1f, .drop_last = drop_last};
  const MethodSettings method;
  const std::unique_ptr<Learner> learner = task.make_learner();
  std::vector<float> state;
  LocalModel local;
  for (const bool stop : {true, false}) {
    const uint64_t seed = stop ? 5 : 9;
    EXPECT_EQ(TrainFedAvg({task,
                           *learner,
                           train,
                           method,
                           examples,
                           {},
                           1,
                           {},
                           seed,
                           state,
                           [stop](size_t) { return !stop; }},
                          local),
              !stop);
  }
}

TEST(TaskTest, PreparedBatchesAreTheSame) {
  for (const bool drop_last : {false, true}) {
    Seen plain, ahead;
    TrainTwice(RecordingTask(false, plain), drop_last);
    TrainTwice(RecordingTask(true, ahead), drop_last);
    const size_t steps = drop_last ? 1 + 4 : 1 + 6;
    ASSERT_EQ(plain.batches.size(), steps);
    ASSERT_EQ(ahead.batches.size(), steps);
    for (size_t i = 0; i < steps; ++i) {
      EXPECT_EQ(plain.batches[i].labels, ahead.batches[i].labels) << i;
      EXPECT_EQ(plain.batches[i].x, ahead.batches[i].x) << i;
    }
    EXPECT_EQ(plain.made_here, steps);
    EXPECT_EQ(plain.made_ahead, 0u);
    EXPECT_EQ(ahead.made_here, 0u);
    // The second batch of the work that ended early was made as well.
    EXPECT_EQ(ahead.made_ahead, steps + 1);
  }
}

TEST(TaskTest, DropoutHasDrawsOfItsOwn) {
  Seen seen;
  TrainTwice(RecordingTask(false, seen), false);
  for (const PhiloxStream& draws : seen.draws) {
    EXPECT_EQ(draws.purpose, Purpose::kDropout);
  }
  EXPECT_EQ(seen.draws[3].seed, 9u);
  EXPECT_EQ(seen.draws[3].sub, 3u);
}

TEST(TaskTest, WhatFailsInTheBackgroundFailsInTheClient) {
  for (const bool prepare_ahead : {false, true}) {
    Seen seen;
    const Task task = RecordingTask(prepare_ahead, seen);
    const std::unique_ptr<Learner> learner = task.make_learner();
    const std::vector<uint32_t> examples = {13};
    learner->Prepare(examples, {});
    EXPECT_THROW(learner->Gradient(examples, {}, {}, {}, {}, {}),
                 std::runtime_error);
  }
}

TEST(TaskTest, EvaluatesInBatchesThatTheDataAllows) {
  Seen seen;
  const Score score =
      RecordingTask(false, seen).make_learner()->Evaluate(10, 8, {}, {});
  ASSERT_EQ(seen.batches.size(), 3u);
  EXPECT_EQ(seen.batches[2].examples, 2u);
  EXPECT_EQ(score.count, 8u);
  EXPECT_EQ(score.loss, 10 + 13 + 16);
  EXPECT_EQ(score.confusion, (std::vector<uint64_t>{0, 8}));
}

TEST(LossTest, MeanIou) {
  // Truth by rows: class 0 is 3 of 4 + 5 - 3 pixels, class 1 is 4 of 6 + 5 - 4.
  EXPECT_DOUBLE_EQ(MeanIou(std::vector<uint64_t>{3, 1, 2, 4}),
                   (3.0 / 6 + 4.0 / 7) / 2);
  // A class that neither occurs nor is answered does not count.
  EXPECT_DOUBLE_EQ(MeanIou(std::vector<uint64_t>{5, 0, 0, 0}), 1);
  EXPECT_TRUE(std::isnan(MeanIou(std::vector<uint64_t>{0, 0, 0, 0})));
}

}  // namespace
}  // namespace fedmrn::train
