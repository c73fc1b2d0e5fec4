// What all methods share, and each but FedMRN; that is in fedmrn_test.cc.
#include "fedmrn/train/method/method.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "fedmrn/core/test_util.h"
#include "fedmrn/train/fake_task.h"
#include "fedmrn/train/method/method_test_util.h"

namespace fedmrn::train {
namespace {

void ExpectNear(std::span<const float> a, std::span<const double> b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-6) << i;
}

// The gradient of parameter i at `value`, from the definition.
double GradientAt(std::span<const uint32_t> examples, double value, size_t i) {
  double sum = 0;
  for (const uint32_t e : examples) sum += value - FakeTarget(e, i);
  return sum / static_cast<double>(examples.size());
}

// The rates that PyTorch's StepLR, CosineAnnealingLR and LinearLR give.
TEST(LearningRate, KnownSchedules) {
  const auto rates = [](LrSchedule schedule, uint32_t rounds, double factor) {
    TrainSettings train;
    train.lr = 0.5f;
    train.lr_schedule = schedule;
    train.lr_rounds = rounds;
    train.lr_factor = factor;
    std::vector<float> out;
    for (uint32_t round = 1; round <= 6; ++round) {
      out.push_back(LearningRate(train, round));
    }
    return out;
  };
  const auto expect = [](const std::vector<float>& got,
                         const std::vector<float>& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_FLOAT_EQ(got[i], wanted[i]) << i;
    }
  };
  expect(rates(LrSchedule::kConstant, 2, 0), {.5f, .5f, .5f, .5f, .5f, .5f});
  expect(rates(LrSchedule::kStep, 2, 0.1),
         {.5f, .5f, .05f, .05f, .005f, .005f});
  expect(rates(LrSchedule::kLinear, 5, 0.2), {.5f, .4f, .3f, .2f, .1f, .1f});
  expect(rates(LrSchedule::kCosine, 5, 0.2),
         {.5f, .4414213562f, .3f, .1585786438f, .1f, .1f});
}

TEST(ForEachBatch, CoversEveryExampleOncePerEpoch) {
  for (const size_t count : {1, 3, 4, 5, 8, 11}) {
    Client client(count);
    ASSERT_TRUE(client.Train("fedavg"));
    const size_t per_epoch = (count + 3) / 4;
    ASSERT_EQ(client.steps.size(), 3 * per_epoch);
    std::vector<std::vector<uint32_t>> epochs(3);
    for (size_t s = 0; s < client.steps.size(); ++s) {
      const std::vector<uint32_t>& batch = client.steps[s].examples;
      EXPECT_EQ(batch.size(), s % per_epoch + 1 == per_epoch
                                  ? count - 4 * (per_epoch - 1)
                                  : 4);
      auto& epoch = epochs[s / per_epoch];
      epoch.insert(epoch.end(), batch.begin(), batch.end());
    }
    if (count > 8) {
      EXPECT_NE(epochs[0], epochs[1]) << "not reshuffled";
      EXPECT_NE(epochs[1], epochs[2]);
    }
    for (auto& epoch : epochs) {
      std::sort(epoch.begin(), epoch.end());
      EXPECT_TRUE(std::ranges::equal(epoch, client.examples()));
    }
  }
}

// Any example may come at any place; all draws of a step are its own.
TEST(ForEachBatch, ShufflesAndDrawsByTheClientsSeed) {
  Client client(8);
  client.train.epochs = 400;
  client.train.batch = 1;
  ASSERT_TRUE(client.Train("fedavg"));
  std::vector<int> first(8);
  std::set<uint32_t> subs;
  for (size_t s = 0; s < client.steps.size(); ++s) {
    const PhiloxStream& draws = client.steps[s].draws;
    EXPECT_EQ(draws.seed, 22u);
    EXPECT_EQ(draws.purpose, Purpose::kAugment);
    subs.insert(draws.sub);
    if (s % 8 == 0) ++first[(client.steps[s].examples[0] - 100) / 3];
  }
  EXPECT_EQ(subs.size(), client.steps.size());
  for (const int times : first) EXPECT_NEAR(times, 50, 28);  // 4 sigma
}

TEST(FedAvg, IsPlainSgd) {
  for (const auto& [momentum, decay] :
       {std::pair{0.0f, 0.0f}, {0.9f, 0.0f}, {0.0f, 0.01f}, {0.5f, 0.02f}}) {
    SCOPED_TRACE(testing::Message() << momentum << " " << decay);
    Client client(10);  // 4, 4 and 2
    client.train.momentum = momentum;
    client.train.weight_decay = decay;
    const std::vector<float> before = client.weights;
    ASSERT_TRUE(client.Train("fedavg"));
    ASSERT_EQ(client.steps.size(), 9u);
    ExpectSameBits(client.weights, before);

    // PyTorch's SGD: v <- momentum v + (g + decay w), w <- w - lr v.
    std::vector<double> w(before.begin(), before.end()), v(kFakeParams);
    std::vector<double> d(client.plain.begin(), client.plain.end()),
        dv(kFakeTrainable);
    for (const FakeStep& step : client.steps) {
      ExpectNear(step.coded, w);
      ExpectNear(step.plain, d);
      for (size_t i = 0; i < w.size(); ++i) {
        v[i] =
            momentum * v[i] + GradientAt(step.examples, w[i], i) + decay * w[i];
        w[i] -= 0.25 * v[i];
      }
      for (size_t i = 0; i < dv.size(); ++i) {
        dv[i] = momentum * dv[i] + GradientAt(step.examples, d[i], 1000 + i) +
                decay * d[i];
        d[i] -= 0.25 * dv[i];
      }
      for (size_t i = kFakeTrainable; i < d.size(); ++i) d[i] += 1;
    }
    ExpectNear(client.local.plain, d);
    for (size_t i = 0; i < w.size(); ++i) w[i] -= double{before[i]};
    ExpectNear(client.local.update, w);
  }
}

// ---- FedPM ----

// e / sqrt(fan_in) of the fake task's tensors, {3, 7} and {4, 4}.
double FedPmConstant(size_t i) {
  return std::numbers::e / std::sqrt(i < 21 ? 7.0 : 4.0);
}

double Sigmoid(double s) { return 1 / (1 + std::exp(-s)); }

TEST(FedPm, TrainsScoresOfFrozenWeights) {
  for (const bool adam : {true, false}) {
    SCOPED_TRACE(adam ? "adam" : "sgd");
    Client client(10);
    client.settings.adam = adam;
    client.weights = Normal(1, kFakeParams);  // the scores
    ASSERT_TRUE(client.Train("fedpm"));
    ASSERT_EQ(client.steps.size(), 9u);

    std::vector<float> frozen(kFakeParams, 100.0f);  // all are present
    FindMethod("fedpm")->network(MakeFakeTask().model.layout, 33, 1, frozen);
    std::vector<double> s(client.weights.begin(), client.weights.end()),
        m(kFakeParams), v(kFakeParams);
    size_t present = 0;
    for (int t = 1; t <= 9; ++t) {
      const FakeStep& step = client.steps[t - 1];
      for (size_t i = 0; i < s.size(); ++i) {
        EXPECT_NEAR(std::fabs(frozen[i]), FedPmConstant(i), 1e-6);
        ASSERT_TRUE(step.coded[i] == 0 || step.coded[i] == frozen[i]);
        present += step.coded[i] != 0;
        const double theta = Sigmoid(s[i]);
        const double g = GradientAt(step.examples, step.coded[i], i) *
                         double{frozen[i]} * theta * theta * (1 - theta);
        if (adam) {
          m[i] = 0.9 * m[i] + 0.1 * g;
          v[i] = 0.999 * v[i] + 0.001 * g * g;
          s[i] -= 0.25 * (m[i] / (1 - std::pow(0.9, t))) /
                  (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-8);
        } else {
          s[i] -= 0.25 * g;
        }
      }
    }
    EXPECT_GT(present, 9 * kFakeParams / 4);
    EXPECT_LT(present, 9 * kFakeParams * 3 / 4);
    for (size_t i = 0; i < s.size(); ++i) {
      EXPECT_NEAR(client.local.update[i], Sigmoid(s[i]), 1e-4) << i;
    }
    // The moments and their nine steps stay with the client.
    ASSERT_EQ(client.state.size(), adam ? 2 * kFakeParams + 1 : 0);
    if (adam) {
      EXPECT_EQ(client.state.back(), 9);
      ASSERT_TRUE(client.Train("fedpm"));
      EXPECT_EQ(client.state.back(), 18);
    }
  }
}

TEST(FedPm, ServerTurnsMeansIntoScores) {
  MethodSettings settings;
  const float mean[] = {0, 0.5f, 1, 0.25f};
  std::vector<float> model(4, 7.0f);
  const Method& method = *FindMethod("fedpm");
  method.server_step({settings, 5, mean}, model);
  EXPECT_NEAR(model[0], -4.5951, 1e-4);  // logit of 0.01
  EXPECT_NEAR(model[1], 0, 1e-6);
  EXPECT_NEAR(model[2], 4.5951, 1e-4);
  EXPECT_NEAR(Sigmoid(model[3]), 0.01 + 0.98 * 0.25, 1e-6);
  // Three rounds make one estimate: rounds 4, 5 and 6.
  settings.reset_every = 3;
  const float zeros[4] = {};
  method.server_step({settings, 4, mean}, model);
  method.server_step({settings, 5, zeros}, model);
  method.server_step({settings, 6, mean}, model);
  EXPECT_NEAR(Sigmoid(model[2]), (0.99 + 0.01 + 0.99) / 3, 1e-6);
  method.server_step({settings, 7, zeros}, model);
  EXPECT_NEAR(model[2], -4.5951, 1e-4);
}

TEST(FedPm, ScoresStartNormalAndNetworksAreDraws) {
  const Method& method = *FindMethod("fedpm");
  std::vector<float> scores(20000);
  method.initialize(33, scores);
  double sum = 0, squares = 0;
  for (const float s : scores) sum += s, squares += double{s} * double{s};
  EXPECT_NEAR(sum / 20000, 0, 0.03);
  EXPECT_NEAR(squares / 20000, 1, 0.04);

  ModelLayout layout;
  layout.tensors = {{"w", {200, 100}, true}};
  std::fill(scores.begin(), scores.end(), std::log(0.3f / 0.7f));
  std::vector<float> other = scores;
  method.network(layout, 33, 1, scores);
  method.network(layout, 33, 2, other);
  EXPECT_NE(scores, other);
  const double c = std::numbers::e / 10;
  size_t present = 0, positive = 0;
  for (const float w : scores) {
    if (w == 0) continue;
    ++present;
    positive += w > 0;
    ASSERT_NEAR(std::fabs(w), c, 1e-6);
  }
  EXPECT_NEAR(present, 6000, 300);
  EXPECT_NEAR(positive, 3000, 250);
}

// ---- FedSparsify ----

TEST(FedSparsify, PrunesMoreInEachStage) {
  Client client(10);  // three steps an epoch
  client.settings.codec.keep = 0.2;
  client.train.epochs = 10;  // an epoch is a stage
  ASSERT_TRUE(client.Train("fedsparsify"));
  ASSERT_EQ(client.steps.size(), 30u);
  const auto zeros = [](std::span<const float> values) {
    return std::ranges::count(values, 0.0f);
  };
  for (int step = 0; step < 30; ++step) {
    const double left = std::pow(1 - (step / 3) / 10.0, 3);
    const double density = 1 - 0.8 * (1 - left);
    EXPECT_EQ(zeros(client.steps[step].coded),
              static_cast<ptrdiff_t>(kFakeParams) -
                  std::llround(density * kFakeParams))
        << step;
    // What a stage has pruned stays pruned in it.
    if (step % 3 > 0) {
      for (size_t i = 0; i < kFakeParams; ++i) {
        EXPECT_EQ(client.steps[step].coded[i] == 0,
                  client.steps[step - 1].coded[i] == 0);
      }
    }
  }
  // The model itself: what is left of it is where plain steps lead.
  const std::vector<float>& w = client.local.update;
  EXPECT_EQ(zeros(w), static_cast<ptrdiff_t>(kFakeParams) - 7);
  const FakeStep& last = client.steps.back();
  float least = 1;
  for (size_t i = 0; i < kFakeParams; ++i) {
    const double next =
        last.coded[i] - 0.25 * GradientAt(last.examples, last.coded[i], i);
    if (w[i] != 0) {
      EXPECT_NEAR(w[i], next, 1e-6);
      least = std::min(least, std::fabs(w[i]));
    }
  }
  for (size_t i = 0; i < kFakeParams; ++i) {
    if (w[i] == 0 && last.coded[i] != 0) {
      EXPECT_LE(std::fabs(last.coded[i] -
                          0.25 * GradientAt(last.examples, last.coded[i], i)),
                least + 1e-6);
    }
  }
  std::vector<float> model(kFakeParams, 3.0f);
  FindMethod("fedsparsify")->server_step({client.settings, 1, w}, model);
  ExpectSameBits(model, w);
}

// ---- FedBAT ----

TEST(FedBat, LearnsSignsAndScales) {
  Client client(11);        // S = 9: four steps of warm-up
  client.train.lr = 0.04f;  // keeps the scales within their limits
  ASSERT_TRUE(client.Train("fedbat"));
  ASSERT_EQ(client.steps.size(), 9u);
  std::vector<double> u(kFakeParams);
  double alpha_0[2] = {}, a[2] = {}, alpha[2] = {};
  const auto tensor = [](size_t i) { return i < 21 ? 0 : 1; };
  size_t clipped = 0;
  for (int tau = 1; tau <= 9; ++tau) {
    SCOPED_TRACE(tau);
    const FakeStep& step = client.steps[tau - 1];
    double of_alpha[2] = {};
    if (tau == 5) {
      for (size_t i = 0; i < u.size(); ++i) {
        alpha_0[tensor(i)] += std::fabs(u[i]) / (tensor(i) == 0 ? 21 : 16);
      }
    }
    for (int t : {0, 1}) {
      alpha[t] = std::clamp(alpha_0[t] * std::exp(6 * a[t]), 5e-4, 5e-2);
    }
    for (size_t i = 0; i < u.size(); ++i) {
      const double w = client.weights[i];
      const double g = GradientAt(step.examples, step.coded[i], i);
      if (tau <= 4) {
        ASSERT_NEAR(step.coded[i], w + u[i], 1e-5);
        u[i] -= 0.04 * g;
        continue;
      }
      const int t = tensor(i);
      const double binary = step.coded[i] - w;
      ASSERT_NEAR(std::fabs(binary), alpha[t], 1e-5) << i;
      const double ratio = u[i] / alpha[t];
      if (std::fabs(ratio) <= 1) {
        of_alpha[t] += g * (binary / alpha[t] - ratio);
        u[i] -= 0.04 * g;
      } else {
        ++clipped;
        EXPECT_GT(binary * ratio, 0);  // no draw beyond the scale
        of_alpha[t] += ratio > 0 ? g : -g;
      }
    }
    for (int t : {0, 1}) {
      if (tau > 4) {
        EXPECT_GT(alpha[t], 5e-4);
        EXPECT_LT(alpha[t], 5e-2);
        a[t] -= 0.04 * of_alpha[t] * 6 * alpha[t];
      }
    }
  }
  EXPECT_GT(clipped, 5u);
  ExpectNear(client.local.update, u);
  ASSERT_EQ(client.local.scales.size(), 2u);
  for (int t : {0, 1}) {
    EXPECT_NEAR(client.local.scales[t], alpha_0[t] * std::exp(6 * a[t]), 1e-5);
    EXPECT_NE(a[t], 0);
  }
}

TEST(Methods, AfterStepEndsTheWork) {
  for (const Method& method : Methods()) {
    for (const int limit : {1, 4, 9}) {
      Client client(10);
      int steps = 0;
      client.after_step = [&](size_t) { return ++steps < limit; };
      EXPECT_FALSE(client.Train(std::string(method.name).c_str()));
      EXPECT_EQ(client.steps.size(), static_cast<size_t>(limit));
      EXPECT_EQ(steps, limit);
    }
    Client client(10);
    client.after_step = [](size_t) { return true; };
    EXPECT_TRUE(client.Train(std::string(method.name).c_str()));
  }
}

TEST(Methods, TableHasThePapersSettings) {
  const auto row = [](const char* name) { return FindMethod(name); };
  EXPECT_EQ(row("nothing"), nullptr);
  EXPECT_EQ(row("fedavg")->lr, 0.03);
  EXPECT_EQ(row("fedmrn")->lr, 0.1);
  EXPECT_EQ(row("fedmrns")->lr, 0.1);
  EXPECT_EQ(row("fedavg")->magnitude, 0);
  EXPECT_EQ(row("fedmrn")->magnitude, 0.01);
  EXPECT_EQ(row("fedmrns")->magnitude, 0.005);
  for (const char* name : {"signsgd", "topk", "terngrad", "drive", "eden",
                           "fedavg-sm", "fedavg-sms"}) {
    EXPECT_EQ(row(name)->lr, 0.03) << name;
    EXPECT_TRUE(row(name)->compresses_after_training) << name;
  }
  EXPECT_EQ(row("fedpm")->lr, 0.1);
  EXPECT_EQ(row("fedbat")->lr, 0.1);
  EXPECT_EQ(row("fedavg-sm")->magnitude, row("fedmrn")->magnitude);
  EXPECT_EQ(row("fedavg-sms")->magnitude, row("fedmrns")->magnitude);
  MethodSettings half;
  half.half = true;
  EXPECT_EQ(CodecOf(*row("fedavg"), {}), CodecId::kFloat32);
  EXPECT_EQ(CodecOf(*row("fedavg"), half), CodecId::kFloat16);
  EXPECT_EQ(CodecOf(*row("fedmrn"), half), CodecId::kMrnBinary);
}

}  // namespace
}  // namespace fedmrn::train
