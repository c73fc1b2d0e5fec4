// Steps of local training beside PyTorch 1.13's.
#include <array>
#include <cmath>

#include "fedmrn/core/test_util.h"
#include "fedmrn/train/fake_task.h"
#include "fedmrn/train/method/method.h"

namespace fedmrn::train {
namespace {

void ExpectClose(std::span<const float> values,
                 std::span<const double> expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], 1e-7) << i;
  }
}

// torch.optim.Adam and AdamW, lr 0.01, on these gradients.
TEST(Direction, IsPyTorchsAdam) {
  struct Case {
    LocalOptimizer optimizer;
    float weight_decay;
    std::array<double, 3> expected;
  };
  const Case cases[] = {
      {LocalOptimizer::kAdam, 0, {0.48415044, -0.24649103, -0.0035118321}},
      {LocalOptimizer::kAdam, 0.1f, {0.481162161, -0.230701432, -0.0035067175}},
      {LocalOptimizer::kAdamW,
       0.1f,
       {0.482681274, -0.245758116, -0.00349550368}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.weight_decay);
    TrainSettings train{.lr = 0.01f};
    train.optimizer = c.optimizer;
    train.weight_decay = c.weight_decay;
    train.momentum = 0.9f;  // SGD's alone
    std::vector<float> w = {0.5f, -0.25f, 0}, kept;
    for (std::vector<float> gradient : {std::vector<float>{0.1f, -0.02f, 1},
                                        {0.05f, 0.04f, -2},
                                        {-0.3f, 0, 0.001f}}) {
      Direction(train, w, kept, gradient);
      SgdStep(train.lr, gradient, w);
    }
    ExpectClose(w, c.expected);
  }
}

// A client's work on the fake task, of which steps need little.
struct Work {
  Task task = MakeFakeTask();
  FakeLearner learner;
  TrainSettings train;
  MethodSettings method;
  std::vector<uint32_t> examples = {1};
  std::vector<float> weights, plain, state;
  LocalModel local;

  void Shape(std::span<const float> values, std::span<const float> start) {
    ShapeGradients({.task = task,
                    .learner = learner,
                    .train = train,
                    .method = method,
                    .examples = examples,
                    .weights = weights,
                    .state = state,
                    .after_step = {},
                    .plain = plain},
                   values, start, local);
  }
};

// torch.nn.utils.clip_grad_norm_ over two tensors, of norm 2.4372.
TEST(ShapeGradients, ClipsTheCommonNorm) {
  Work work;
  const std::vector<float> coded = {0.3f, -0.4f, 1.2f}, plain = {0.5f, -2};
  for (const float largest : {0.0f, 2.5f}) {  // any, and more than it is
    work.train.clip_grad = largest;
    work.local.coded_gradient = coded;
    work.local.plain_gradient = plain;
    work.Shape({}, {});
    ExpectSameBits(work.local.coded_gradient, coded);
    ExpectSameBits(work.local.plain_gradient, plain);
  }
  work.train.clip_grad = 0.75f;
  work.Shape({}, {});
  ExpectClose(work.local.coded_gradient,
              std::array{0.092318587, -0.123091452, 0.369274348});
  ExpectClose(work.local.plain_gradient, std::array{0.153864309, -0.615457237});
}

// FedProx: the gradient of loss + mu/2 |w - w_global|^2, clipped as a whole.
TEST(ShapeGradients, PullsBackToTheGlobalModel) {
  Work work;
  work.train.prox_mu = 0.5f;
  work.plain = {1, 2, 7};
  work.local.plain = {1.5f, 0, 9};  // the last is a statistic
  const std::vector<float> values = {0.25f, -1}, start = {0.5f, 1};
  const auto shape = [&](std::span<const float> from) {
    work.local.coded_gradient = {0.1f, 0.2f};
    work.local.plain_gradient = {0.3f, 0.4f};
    work.Shape(values, from);
  };
  shape(start);
  ExpectClose(work.local.coded_gradient, std::array{-0.025, -0.8});
  ExpectClose(work.local.plain_gradient, std::array{0.55, -0.6});
  shape({});  // values are differences to the global model already
  ExpectClose(work.local.coded_gradient, std::array{0.225, -0.3});
  work.train.clip_grad = 1e-3f;
  shape(start);
  const double factor =
      1e-3 /
      (std::sqrt(0.025 * 0.025 + 0.8 * 0.8 + 0.55 * 0.55 + 0.6 * 0.6) + 1e-6);
  ExpectClose(work.local.coded_gradient,
              std::array{-0.025 * factor, -0.8 * factor});
}

// Every method that says so is trained by what it was told.
TEST(Methods, DirectGradientsAreShaped) {
  for (const Method& method : Methods()) {
    if (!method.direct_gradient) continue;
    SCOPED_TRACE(method.name);
    const auto train = [&](const TrainSettings& settings) {
      Task task = MakeFakeTask();
      FakeLearner learner;
      const MethodSettings by_default;
      const std::vector<uint32_t> examples = {3, 5, 8, 13};
      const std::vector<float> weights = Normal(1, kFakeParams, 0.1f);
      const std::vector<float> plain = Normal(2, kFakePlain, 0.1f);
      std::vector<float> state;
      LocalModel local;
      local.update.resize(kFakeParams);
      local.coded_gradient.resize(kFakeParams);
      local.plain_gradient.resize(kFakeTrainable);
      local.plain = plain;
      EXPECT_TRUE(method.train({.task = task,
                                .learner = learner,
                                .train = settings,
                                .method = by_default,
                                .examples = examples,
                                .weights = weights,
                                .state = state,
                                .after_step = {},
                                .plain = plain},
                               local));
      std::vector<float> all = local.update;
      all.insert(all.end(), local.plain.begin(),
                 local.plain.begin() + kFakeTrainable);
      return all;
    };
    const TrainSettings usual{.epochs = 2, .batch = 2, .lr = 0.1f};
    const std::vector<float> without = train(usual);
    TrainSettings adam = usual, clipped = usual, pulled = usual;
    adam.optimizer = LocalOptimizer::kAdam;
    clipped.clip_grad = 1e-3f;
    pulled.prox_mu = 1;
    for (const TrainSettings& other : {adam, clipped, pulled}) {
      const std::vector<float> with = train(other);
      EXPECT_NE(with, without);
      // The last values are the plain ones'.
      EXPECT_NE(with.back(), without.back());
    }
  }
}

}  // namespace
}  // namespace fedmrn::train
