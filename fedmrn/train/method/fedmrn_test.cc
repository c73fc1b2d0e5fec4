// FedMRN and FedMRNS, beside Algorithm 1 of the paper.
#include <set>
#include <span>
#include <vector>

#include "fedmrn/core/codec.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/mask.h"
#include "fedmrn/core/test_util.h"
#include "fedmrn/train/fake_task.h"
#include "fedmrn/train/method/method.h"
#include "fedmrn/train/method/method_test_util.h"

namespace fedmrn::train {
namespace {

struct MrnCase {
  const char* method;
  MaskKind kind;
  CodecId codec;
};
const MrnCase kMrnCases[] = {
    {"fedmrn", MaskKind::kBinary, CodecId::kMrnBinary},
    {"fedmrns", MaskKind::kSigned, CodecId::kMrnSigned}};

// Algorithm 1, ClientLocalUpdate, written out with the core's definition of a
// step.
TEST(FedMrn, IsTheLoopOfThePaper) {
  for (const MrnCase& c : kMrnCases) {
    for (const int switches : {0, 1, 2, 3}) {
      for (const float momentum : {0.0f, 0.5f}) {
        SCOPED_TRACE(testing::Message()
                     << c.method << " " << switches << " " << momentum);
        Client client(10);
        client.train.momentum = momentum;
        client.mask.stochastic = switches & 1;
        client.mask.progressive = switches & 2;
        client.local.update = Normal(9, kFakeParams);  // of the client before
        const std::vector<float> w = client.weights;
        ASSERT_TRUE(client.Train(c.method));
        ExpectSameBits(client.weights, w);
        ASSERT_EQ(client.steps.size(), 9u);

        const Masking masking = client.MaskingOf(c.kind);
        std::vector<float> u(kFakeParams), effective(kFakeParams),
            gradient(kFakeParams), plain = client.plain,
                                   plain_gradient(kFakeTrainable),
                                   v(kFakeParams), dense_v(kFakeTrainable);
        FakeLearner learner;
        for (uint32_t tau = 1; tau <= 9; ++tau) {
          SCOPED_TRACE(tau);
          const FakeStep& step = client.steps[tau - 1];
          fedmrn::ref::MaskedStep(
              masking, {tau, 9, 0.25f}, w,
              tau == 1 ? std::span<const float>() : gradient, u, effective);
          ExpectSameBits(step.coded, effective);
          ExpectSameBits(step.plain, plain);
          learner.Gradient(step.examples, {}, effective, plain, gradient,
                           plain_gradient);
          for (size_t i = 0; i < v.size(); ++i) {
            v[i] = momentum * v[i] + gradient[i];
            gradient[i] = v[i];
          }
          for (size_t i = 0; i < dense_v.size(); ++i) {
            dense_v[i] = momentum * dense_v[i] + plain_gradient[i];
            plain[i] -= 0.25f * dense_v[i];
          }
        }
        for (size_t i = 0; i < u.size(); ++i) u[i] -= 0.25f * gradient[i];
        ExpectSameBits(client.local.update, u);
        ExpectSameBits(client.local.plain, plain);
      }
    }
  }
}

// What a value of w + u_hat says about u_hat: masked noise or not.
bool IsMaskedNoise(MaskKind kind, float effective, float w, float noise) {
  return effective == w + noise ||
         effective == (kind == MaskKind::kBinary ? w : w - noise);
}

TEST(FedMrn, LastStepUsesMaskedNoiseOnly) {
  for (const MrnCase& c : kMrnCases) {
    for (const bool progressive : {true, false}) {
      SCOPED_TRACE(testing::Message() << c.method << " " << progressive);
      Client client(10);
      client.mask.progressive = progressive;
      client.mask.magnitude = 1;  // so that u is hardly ever clipped
      ASSERT_TRUE(client.Train(c.method));
      std::vector<float> noise(kFakeParams);
      NoiseValues(client.MaskingOf(c.kind).noise, 0, noise);
      std::vector<size_t> masked;
      for (const FakeStep& step : client.steps) {
        masked.push_back(0);
        for (size_t i = 0; i < noise.size(); ++i) {
          masked.back() +=
              IsMaskedNoise(c.kind, step.coded[i], client.weights[i], noise[i]);
        }
      }
      EXPECT_EQ(masked.back(), kFakeParams);
      if (progressive) {
        EXPECT_LT(masked[1], kFakeParams);
      } else {
        for (const size_t count : masked) EXPECT_EQ(count, kFakeParams);
      }
    }
  }
}

// Each switch alone makes another update.
TEST(FedMrn, SwitchesReachTheMasking) {
  for (const MrnCase& c : kMrnCases) {
    std::set<std::vector<float>> updates;
    for (const int switches : {0, 1, 2, 3}) {
      Client client(10);
      client.mask.stochastic = switches & 1;
      client.mask.progressive = switches & 2;
      ASSERT_TRUE(client.Train(c.method));
      updates.insert(client.local.update);
    }
    for (const NoiseKind noise :
         {NoiseKind::kGaussian, NoiseKind::kBernoulli}) {
      Client client(10);
      client.mask.noise = noise;
      ASSERT_TRUE(client.Train(c.method));
      updates.insert(client.local.update);
    }
    EXPECT_EQ(updates.size(), 6u) << c.method;
  }
}

TEST(FedMrn, FrameIsNoiseTimesMask) {
  for (const MrnCase& c : kMrnCases) {
    for (const bool stochastic : {true, false}) {
      SCOPED_TRACE(testing::Message() << c.method << " " << stochastic);
      Client client(10);
      client.mask.stochastic = stochastic;
      ASSERT_TRUE(client.Train(c.method));
      EXPECT_EQ(FindMethod(c.method)->codec, c.codec);

      FrameHeader header;
      header.codec = c.codec;
      header.examples = 10;
      header.noise = {client.mask.noise, client.mask.magnitude, 11};
      EncodeOptions options;
      options.draw_seed = 22;
      options.stochastic = stochastic;
      const Result<Bytes> bytes =
          EncodeFrame(header, options, client.local.update, client.local.plain);
      ASSERT_TRUE(bytes) << bytes.error().ToString();
      const Result<FrameView> frame = ParseFrame(*bytes);
      ASSERT_TRUE(frame) << frame.error().ToString();
      std::vector<float> update(kFakeParams), noise(kFakeParams),
          expected(kFakeParams);
      DecodeUpdate(*frame, update);
      NoiseValues(header.noise, 0, noise);
      Bytes bits(BytesForBits(kFakeParams));
      fedmrn::ref::FinalMask(client.MaskingOf(c.kind), client.local.update,
                             bits);
      size_t ones = 0;
      for (size_t i = 0; i < kFakeParams; ++i) {
        const bool one = TestBit(bits.data(), i);
        ones += one;
        expected[i] =
            one ? noise[i] : (c.kind == MaskKind::kBinary ? 0 : -noise[i]);
      }
      ExpectSameBits(update, expected);
      EXPECT_GT(ones, 0u);
      EXPECT_LT(ones, kFakeParams);
    }
  }
}

}  // namespace
}  // namespace fedmrn::train
