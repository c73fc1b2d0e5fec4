// A network on several threads: the same gradient, up to float rounding, and
// the same bits whenever the number of threads is the same.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "fedmrn/core/random.h"
#include "fedmrn/train/kernels/compute_threads.h"
#include "fedmrn/train/model/cnn.h"

namespace fedmrn::train {
namespace {

constexpr ImageShape kImage = {16, 16, 3};
constexpr uint32_t kImages = 5, kClasses = 10;

struct Step {
  double loss;
  std::vector<float> coded, plain, statistics, logits;

  bool operator==(const Step&) const = default;
};

Step OneStep(Norm norm, uint32_t threads) {
  ComputeOnThreads(1);
  Cnn cnn(*FindCnn("cnn4"), kImage, kClasses, norm, threads);
  std::vector<float> coded(cnn.layout().coded_params()),
      plain(cnn.layout().plain_values());
  cnn.Initialize(1, coded, plain);
  Random random({2, Purpose::kSynthetic});
  for (float& w : coded) w *= 10;
  std::vector<float> x(kImages * kImage.height * kImage.width *
                       kImage.channels);
  for (float& value : x) value = static_cast<float>(random.Normal());
  std::vector<int32_t> labels(kImages);
  for (int32_t& label : labels) {
    label = static_cast<int32_t>(random.Below(kClasses));
  }
  Step step;
  step.coded.resize(coded.size());
  step.plain.resize(cnn.trainable_plain());
  step.loss =
      cnn.Gradient(x, labels, coded, plain, step.coded, step.plain).loss;
  step.statistics = plain;
  const auto logits = cnn.Logits(x, kImages, coded, plain);
  step.logits.assign(logits.begin(), logits.end());
  return step;
}

double Norm2(std::span<const float> values) {
  double squares = 0;
  for (const float v : values) squares += double{v} * v;
  return std::sqrt(squares);
}

void ExpectClose(std::span<const float> a, std::span<const float> b) {
  ASSERT_EQ(a.size(), b.size());
  std::vector<float> difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  EXPECT_LE(Norm2(difference), 1e-5 * Norm2(a) + 1e-7);
}

TEST(CnnThreads, SameStepOnAnyNumber) {
  for (const Norm norm : {Norm::kBatch, Norm::kGroup, Norm::kNone}) {
    const Step one = OneStep(norm, 1);
    EXPECT_GT(Norm2(one.coded), 0);
    for (const uint32_t threads : {2u, 3u, 9u}) {
      const Step many = OneStep(norm, threads);
      EXPECT_NEAR(many.loss, one.loss, 1e-5);
      ExpectClose(one.coded, many.coded);
      ExpectClose(one.plain, many.plain);
      ExpectClose(one.statistics, many.statistics);
      ExpectClose(one.logits, many.logits);
      EXPECT_EQ(OneStep(norm, threads), many) << threads;
    }
  }
}

TEST(ForEachPart, CoversTheBatchOnce) {
  for (const uint32_t images : {1u, 5u, 64u}) {
    for (const uint32_t threads : {1u, 2u, 3u, 100u}) {
      std::vector<int> seen(images);  // each written by one part
      ForEachPart(images, threads,
                  [&](uint32_t part, uint32_t first, uint32_t count) {
                    EXPECT_LT(part, PartsOf(images, threads));
                    EXPECT_GT(count, 0u);
                    for (uint32_t i = first; i < first + count; ++i) ++seen[i];
                  });
      EXPECT_EQ(seen, std::vector<int>(images, 1));
    }
  }
}

}  // namespace
}  // namespace fedmrn::train
