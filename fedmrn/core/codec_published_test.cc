// The published numbers of each codec: bits per parameter, errors, what is
// drawn and what is kept. codec_test.cc has what all or several codecs have.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "fedmrn/core/codec.h"
#include "fedmrn/core/codec_test_util.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/test_util.h"

namespace fedmrn {
namespace {

// Payload bits per parameter.
double PayloadBits(const FrameHeader& header, const EncodeOptions& options,
                   std::span<const float> update) {
  const Bytes frame = EncodeFrame(header, options, update, {}).value();
  return 8.0 *
         static_cast<double>(frame.size() - kFrameHeaderBytes -
                             kFrameChecksumBytes) /
         static_cast<double>(update.size());
}

// ---- Wire cost: the CNN4 of the paper (Fashion-MNIST), per layer ----

const uint32_t kCnn4[] = {288, 18432, 73728, 294912, 2560};
constexpr size_t kCnn4Params = 389920;

TEST(WireCost, BitsPerParameter) {
  const std::vector<float> update = Normal(1, kCnn4Params, 0.002f);
  EncodeOptions options;
  options.segments = kCnn4;
  const auto bits = [&](std::string_view name) {
    return PayloadBits(HeaderFor(name), options, update);
  };
  EXPECT_EQ(bits("float32"), 32);
  EXPECT_EQ(bits("float16"), 16);
  // The law says 0.577 (a fifth of the noise's magnitude); tables and states
  // are 0.01 of it.
  EXPECT_NEAR(bits("mrn-binary"), 0.585, 0.01);
  EXPECT_NEAR(bits("mrn-signed"), 0.585, 0.01);
  options.entropy = false;
  EXPECT_EQ(bits("mrn-binary"), 1);
  EXPECT_EQ(bits("mrn-signed"), 1);
  EXPECT_EQ(bits("mask"), 1);
  // Scales and segment table: 44 bytes.
  EXPECT_NEAR(bits("signsgd"), 1, 0.001);
  // log2(3) = 1.585 at best, five trits a byte: 1.6.
  EXPECT_NEAR(bits("terngrad"), 1.6, 0.001);
  // The entropy of which are zero, 68 %, and a bit for each other one's sign.
  options.entropy = true;
  EXPECT_NEAR(bits("terngrad"), 0.902 + 0.318, 0.01);
  // With a scale of 2.5 times the update's deviation the law says 0.513: the
  // entropy of a bit given its dither v, 0.4 * integral of h(Q(z)), z to 2.5.
  options.scale = 0.005f;
  EXPECT_NEAR(bits("signsgd"), 0.517, 0.005);
  options.scale = 0;
  // Blocks by binary digits: no padding, where padding would cost 1.777.
  EXPECT_NEAR(bits("drive"), 1, 0.002);
  for (int b = 1; b <= 4; ++b) {
    options.bits = b;
    EXPECT_NEAR(bits("eden"), b, 0.002);
  }
  // 3 % of fp32 values, 0.960, and which these are, whose entropy is 0.1944;
  // or Rice-coded gaps, 0.1978.
  EXPECT_NEAR(bits("topk"), 0.960 + 0.1944 + 0.003, 0.001);
  options.entropy = false;
  EXPECT_NEAR(bits("topk"), 1.158, 0.002);
}

// Header and checksum, and nothing else, beside mask bits and plain floats.
TEST(WireCost, OverheadIsAtMost96Bytes) {
  const std::vector<float> update = Normal(1, kCnn4Params, 0.002f);
  const std::vector<float> plain(1920, 1.0f);
  EncodeOptions options;
  options.entropy = false;
  const Bytes frame =
      EncodeFrame(HeaderFor("mrn-binary"), options, update, plain).value();
  EXPECT_EQ(frame.size(), kCnn4Params / 8 + 4 * 1920 + 92);
  EXPECT_LE(frame.size() - kCnn4Params / 8 - 4 * 1920, 96u);
  FrameHeader half = HeaderFor("mrn-binary");
  half.plain_kind = PlainKind::kFloat16;
  EXPECT_EQ(EncodeFrame(half, options, update, plain).value().size(),
            kCnn4Params / 8 + 2 * 1920 + 92);
}

// ---- Masks ----

TEST(Mask, DrawsItsProbabilities) {
  std::vector<float> update;
  for (int i = 0; i < 70000; ++i) {
    update.push_back(0.25f * static_cast<float>(i % 7) - 0.25f);  // to 1.25
  }
  const std::vector<float> out = RoundTrip(HeaderFor("mask"), {}, update);
  double ones[7] = {};
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_TRUE(out[i] == 0 || out[i] == 1);
    ones[i % 7] += double{out[i]} / 10000;
  }
  EXPECT_EQ(ones[0], 0);
  EXPECT_EQ(ones[1], 0);
  for (int j : {2, 3, 4}) EXPECT_NEAR(ones[j], 0.25 * (j - 1), 0.02);
  EXPECT_NEAR(ones[5], 1, 1e-9);
  EXPECT_NEAR(ones[6], 1, 1e-9);

  EncodeOptions threshold;
  threshold.stochastic = false;
  const float values[] = {0.49f, 0.5f, 0.51f};
  EXPECT_EQ(RoundTrip(HeaderFor("mask"), threshold, values),
            (std::vector<float>{0, 0, 1}));
}

TEST(SignSgd, TakesAScalePerSegment) {
  const uint32_t segments[] = {10, 20};
  const float scales[] = {0.25f, 0.0f};
  EncodeOptions options;
  options.segments = segments;
  options.scales = scales;
  const std::vector<float> update = Normal(1, 30, 0.1f);
  const auto out = RoundTrip(HeaderFor("signsgd"), options, update);
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(std::fabs(out[i]), i < 10 ? 0.25f : 0.0f);
  }
  options.scales = std::span(scales).first(1);
  EXPECT_FALSE(EncodeFrame(HeaderFor("signsgd"), options, update, {}).ok());
  const float bad[] = {0.25f, -1.0f};
  options.scales = bad;
  EXPECT_FALSE(EncodeFrame(HeaderFor("signsgd"), options, update, {}).ok());
}

// ---- DRIVE and EDEN ----

double Vnmse(std::span<const float> x, std::span<const float> y) {
  return SquaredError(x, y) / SquaredNorm(x);
}

// Log-normal, as in DRIVE's experiments: far from Gaussian before rotation.
std::vector<float> LogNormal(size_t n) {
  std::vector<float> x = Normal(99, n);
  for (float& v : x) v = std::exp(v);
  return x;
}

// Over 40 rotations at d = 2^13 the mean of vNMSE has a standard error of about
// 0.002.
TEST(Drive, PublishedError) {
  const std::vector<float> x = LogNormal(1 << 13);
  for (bool unbiased : {false, true}) {
    EncodeOptions options;
    options.unbiased = unbiased;
    double sum = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      sum += Vnmse(x, RoundTrip(HeaderFor("drive", seed), options, x));
    }
    // pi/2 - 1 and 1 - 2/pi.
    EXPECT_NEAR(sum / 40, unbiased ? 0.5708 : 0.3634, 0.01);
  }
}

// The mean of ten messages of one vector: 0.057 unbiased, 0.155 biased.
TEST(Drive, MeanOfTen) {
  const std::vector<float> x = LogNormal(1 << 12);
  for (bool unbiased : {false, true}) {
    EncodeOptions options;
    options.unbiased = unbiased;
    double error = 0;
    for (int trial = 0; trial < 10; ++trial) {
      std::vector<float> mean(x.size());
      for (uint64_t k = 0; k < 10; ++k) {
        const auto y =
            RoundTrip(HeaderFor("drive", 100 * trial + k), options, x);
        for (size_t i = 0; i < x.size(); ++i) mean[i] += y[i] / 10;
      }
      error += Vnmse(x, mean) / 10;
    }
    EXPECT_NEAR(error, unbiased ? 0.0571 : 0.155, 0.005);
  }
}

// Least error: <x, x_hat> = |x_hat|^2. Unbiased: <x, x_hat> = |x|^2, exactly.
TEST(Drive, ScaleIdentities) {
  const std::vector<float> x = LogNormal(1 << 12);
  EncodeOptions options;
  options.unbiased = false;
  const auto biased = RoundTrip(HeaderFor("drive"), options, x);
  EXPECT_NEAR(Dot(x, biased) / SquaredNorm(biased), 1, 1e-5);
  options.unbiased = true;
  const auto unbiased = RoundTrip(HeaderFor("drive"), options, x);
  EXPECT_NEAR(Dot(x, unbiased) / SquaredNorm(x), 1, 1e-5);
}

TEST(Eden, PublishedError) {
  const double published[] = {0.570796, 0.133121, 0.035784, 0.009592};
  const std::vector<float> x = LogNormal(1 << 14);
  for (int bits = 1; bits <= 4; ++bits) {
    EncodeOptions options;
    options.bits = bits;
    double sum = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      sum += Vnmse(x, RoundTrip(HeaderFor("eden", seed), options, x));
    }
    EXPECT_NEAR(sum / 20 / published[bits - 1], 1, 0.02) << bits;
  }
}

TEST(Eden, IsUnbiased) {
  const std::vector<float> x = LogNormal(1 << 10);
  for (int bits = 1; bits <= 4; ++bits) {
    EncodeOptions options;
    options.bits = bits;
    const auto y = RoundTrip(HeaderFor("eden"), options, x);
    EXPECT_NEAR(Dot(x, y) / SquaredNorm(x), 1, 1e-5);
  }
}

// One bit of EDEN is unbiased DRIVE: the same bits, the same values up to the
// rounding of the scale.
TEST(Eden, OneBitIsUnbiasedDrive) {
  const std::vector<float> x = Normal(4, 5000, 0.01f);
  EncodeOptions options;
  options.bits = 1;
  const Bytes drive = EncodeFrame(HeaderFor("drive"), options, x, {}).value();
  const Bytes eden = EncodeFrame(HeaderFor("eden"), options, x, {}).value();
  ASSERT_EQ(drive.size(), eden.size());
  const size_t bits_at = drive.size() - kFrameChecksumBytes - 5000 / 8;
  EXPECT_TRUE(std::equal(drive.begin() + bits_at,
                         drive.end() - kFrameChecksumBytes,
                         eden.begin() + bits_at));
  const auto a = Decode(drive), b = Decode(eden);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], 1e-7);  // the values are of the order of 0.01
  }
}

// ---- TernGrad ----

TEST(TernGrad, PublishedNumbersOnGaussianInput) {
  const std::vector<float> x = Normal(12, 1 << 20);
  const auto y = RoundTrip(HeaderFor("terngrad"), {}, x);
  size_t nonzero = 0;
  for (float v : y) nonzero += v != 0;
  EXPECT_NEAR(static_cast<double>(nonzero) / static_cast<double>(x.size()),
              0.3176, 0.002);
  EXPECT_NEAR(Vnmse(x, y), 1.010, 0.01);
  EXPECT_NEAR(Dot(x, y) / SquaredNorm(x), 0.988, 0.005);
}

TEST(TernGrad, IsUnbiasedInsideTheClip) {
  const std::vector<float> x = Normal(13, 500);
  EncodeOptions options;
  options.clip = 0;
  std::vector<double> mean(x.size());
  constexpr int kDraws = 2000;
  float largest = 0;
  for (int r = 0; r < kDraws; ++r) {
    options.draw_seed = r;
    const auto y = RoundTrip(HeaderFor("terngrad"), options, x);
    for (size_t i = 0; i < x.size(); ++i) {
      mean[i] += double{y[i]} / kDraws;
      largest = std::max(largest, std::fabs(y[i]));
    }
  }
  for (size_t i = 0; i < x.size(); ++i) {
    // Variance |x|(s - |x|) <= s^2/4.
    ASSERT_NEAR(mean[i], x[i], 5 * largest / 2 / std::sqrt(kDraws));
  }
}

// ---- SignSGD ----

// Gain and error for Gaussian input at a = kappa * sigma (methods table).
TEST(SignSgd, PublishedGainAndError) {
  const std::vector<float> x = Normal(21, 1 << 20);
  const struct {
    float kappa;
    double gain, vnmse;
  } rows[] = {
      {0.5f, .383, .484}, {1, .683, .635}, {2, .954, 3.09}, {3, .997, 8.01}};
  for (const auto& row : rows) {
    EncodeOptions options;
    options.scale = row.kappa;
    const auto y = RoundTrip(HeaderFor("signsgd"), options, x);
    EXPECT_NEAR(Dot(x, y) / SquaredNorm(x), row.gain, 0.015);
    EXPECT_NEAR(Vnmse(x, y) / row.vnmse, 1, 0.02);
  }
}

// SignSGD with a fixed scale is FedAvg with signed stochastic masking and
// Bernoulli noise of that magnitude: other draws of the same law.
TEST(SignSgd, FixedScaleIsSignedMaskingWithBernoulliNoise) {
  constexpr size_t kParams = 1 << 18;
  const std::vector<float> x(kParams, 0.002f);
  EncodeOptions options;
  options.scale = 0.005f;
  FrameHeader masked = HeaderFor("mrn-signed");
  masked.noise = {NoiseKind::kBernoulli, 0.005f, 12345};
  for (const auto& out : {RoundTrip(HeaderFor("signsgd"), options, x),
                          RoundTrip(masked, options, x)}) {
    size_t positive = 0;
    for (float v : out) {
      ASSERT_EQ(std::fabs(v), 0.005f);
      positive += v > 0;
    }
    // (1 + 0.4) / 2, to five standard deviations.
    EXPECT_NEAR(static_cast<double>(positive) / kParams, 0.7, 0.0045);
  }
}

// Given the seed a mask with Bernoulli noise of 1 in all its draws has the same
// dither: the signs are those of the masked noise.
TEST(SignSgd, DrawsAsSignedMasksDo) {
  const std::vector<float> x = Normal(24, 5003, 0.004f);
  EncodeOptions options;
  options.scale = 0.005f;
  FrameHeader masked = HeaderFor("mrn-signed", 77);
  masked.noise = {NoiseKind::kBernoulli, 0.005f, 77};
  ExpectSameBits(RoundTrip(HeaderFor("signsgd", 77), options, x),
                 RoundTrip(masked, options, x));
}

TEST(SignSgd, MaxScaleIsUnbiased) {
  const std::vector<float> x = Normal(23, 200, 0.01f);
  std::vector<double> mean(x.size());
  constexpr int kDraws = 4000;
  float scale = 0;
  EncodeOptions options;
  for (int r = 0; r < kDraws; ++r) {
    const auto y =
        RoundTrip(HeaderFor("signsgd", static_cast<uint64_t>(r)), options, x);
    scale = std::fabs(y[0]);
    for (size_t i = 0; i < x.size(); ++i) mean[i] += double{y[i]} / kDraws;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(mean[i], x[i], 5 * scale / std::sqrt(kDraws));
  }
}

// ---- Top-k ----

TEST(TopK, KeepsTheLargestAndBreaksTiesByIndex) {
  const std::vector<float> x = {1, -5, 2, 2, -2, 0, 3, 2};
  EncodeOptions options;
  options.keep = 0.5;  // four of eight: -5, 3, and two of the four 2s
  EXPECT_EQ(RoundTrip(HeaderFor("topk"), options, x),
            (std::vector<float>{0, -5, 2, 2, 0, 0, 3, 0}));
  options.keep = 1;
  EXPECT_EQ(RoundTrip(HeaderFor("topk"), options, x), x);
  options.keep = 0.0001;  // at least one
  EXPECT_EQ(RoundTrip(HeaderFor("topk"), options, x),
            (std::vector<float>{0, -5, 0, 0, 0, 0, 0, 0}));
}

// A sample of every fourth value tells where the threshold is, or does not.
TEST(TopK, KeepsTheLargestWhateverASampleOfThemIsLike) {
  constexpr size_t kLength = 32768 + 5;
  for (const float every_fourth : {1.0f, 1e-3f, 1e3f, 0.0f}) {
    std::vector<float> x = Normal(1, kLength);
    for (size_t i = 0; i < kLength; i += 4) x[i] *= every_fourth;
    for (const double keep : {0.00004, 0.01, 0.2, 0.7, 0.9, 1.0}) {
      std::vector<size_t> order(kLength);
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return std::fabs(x[a]) > std::fabs(x[b]);
      });
      std::vector<float> expected(kLength);
      const auto k = static_cast<size_t>(std::llround(keep * double{kLength}));
      for (size_t j = 0; j < k; ++j) expected[order[j]] = x[order[j]];
      EncodeOptions options;
      options.keep = keep;
      EXPECT_EQ(RoundTrip(HeaderFor("topk"), options, x), expected)
          << every_fourth << " " << keep;
    }
  }
}

TEST(TopK, ThePapersCounts) {
  for (const auto& [d, k] :
       {std::pair<size_t, uint32_t>{389920, 11698}, {398176, 11945}}) {
    EncodeOptions options;
    options.entropy = false;
    const Bytes frame =
        EncodeFrame(HeaderFor("topk"), options, Normal(1, d), {}).value();
    EXPECT_EQ(LoadLe<uint32_t>(frame.data() + kFrameHeaderBytes), k);
    // Rice parameter 4 is the best at 3 %.
    EXPECT_EQ(LoadLe<uint32_t>(frame.data() + kFrameHeaderBytes + 4), 4u);
  }
}

TEST(TopK, RefusesASillyShare) {
  const std::vector<float> x(10, 1.0f);
  for (double keep : {0.0, -0.1, 1.5, double{NAN}}) {
    EncodeOptions options;
    options.keep = keep;
    EXPECT_FALSE(EncodeFrame(HeaderFor("topk"), options, x, {}).ok());
  }
}

}  // namespace
}  // namespace fedmrn
