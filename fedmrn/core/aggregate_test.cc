#include "fedmrn/core/aggregate.h"

#include <algorithm>
#include <random>

#include "fedmrn/core/accumulate.h"
#include "fedmrn/core/test_util.h"

namespace fedmrn {
namespace {

constexpr uint64_t kFingerprint = 0xF00D;
constexpr size_t kPlain = 3;

RoundSpec SpecFor(CodecId codec, size_t params) {
  RoundSpec spec;
  spec.run = 5;
  spec.round = 4;
  spec.fingerprint = kFingerprint;
  spec.params = params;
  spec.plain_count = kPlain;
  spec.codec = codec;
  if (FindCodec(codec)->uses_noise) {
    spec.noise = NoiseKind::kUniform;
    spec.magnitude = 0.01f;
  }
  return spec;
}

Bytes FrameFor(const RoundSpec& spec, uint64_t client, uint32_t examples) {
  FrameHeader header;
  header.codec = spec.codec;
  header.run = spec.run;
  header.round = spec.round;
  header.client = client;
  header.examples = examples;
  header.fingerprint = spec.fingerprint;
  header.noise = {spec.noise, spec.magnitude, 0};
  if (FindCodec(spec.codec)->uses_seed) header.noise.seed = client + 1;
  EncodeOptions options;
  options.draw_seed = client;
  const float c = static_cast<float>(client);
  const std::vector<float> plain = {c, 1 / (c + 1), -1000 * c};
  return EncodeFrame(header, options, Normal(client, spec.params, 0.004f),
                     plain)
      .value();
}

std::vector<float> Mean(const Aggregator& aggregator, size_t params) {
  std::vector<float> w(params), plain(kPlain);
  EXPECT_TRUE(aggregator.Finish(w, plain).ok());
  w.insert(w.end(), plain.begin(), plain.end());
  return w;
}

class EveryCodecSum : public testing::TestWithParam<Codec> {};

// Eq. 5, recomputed in double from the decoded updates.
TEST_P(EveryCodecSum, IsTheWeightedMean) {
  constexpr size_t kParams = 2500;
  const RoundSpec spec = SpecFor(GetParam().id, kParams);
  Aggregator aggregator = Aggregator::Create(spec).value();
  std::vector<double> sum(kParams + kPlain);
  double total = 0;
  for (uint64_t client = 0; client < 10; ++client) {
    const uint32_t examples = 100 + 57 * static_cast<uint32_t>(client);
    const Bytes bytes = FrameFor(spec, client, examples);
    ASSERT_TRUE(aggregator.Add(bytes).ok());
    const FrameView frame = ParseFrame(bytes).value();
    std::vector<float> update(kParams), plain(kPlain);
    DecodeUpdate(frame, update);
    frame.CopyPlain(plain);
    update.insert(update.end(), plain.begin(), plain.end());
    for (size_t i = 0; i < update.size(); ++i) {
      sum[i] += static_cast<double>(examples) * update[i];
    }
    total += examples;
  }
  EXPECT_EQ(aggregator.clients(), 10u);
  EXPECT_EQ(aggregator.total_weight(), static_cast<uint64_t>(total));
  std::vector<float> w = Normal(50, kParams), plain(kPlain);
  const std::vector<float> before = w;
  ASSERT_TRUE(aggregator.Finish(w, plain).ok());
  for (size_t i = 0; i < kParams; ++i) {
    ASSERT_NEAR(w[i], before[i] + sum[i] / total,
                1e-9 + 1e-7 * std::fabs(before[i]));
  }
  for (size_t i = 0; i < kPlain; ++i) {
    const double mean = sum[kParams + i] / total;
    ASSERT_NEAR(plain[i], mean, 1e-7 * std::fabs(mean) + 1e-9);
  }
}

// Any order of arrival, any grouping, any number of threads, any SIMD target:
// the same bits.
TEST_P(EveryCodecSum, DoesNotDependOnOrderGroupingThreadsOrTarget) {
  constexpr size_t kParams = 7001;
  const RoundSpec spec = SpecFor(GetParam().id, kParams);
  std::vector<Bytes> frames;
  for (uint64_t client = 0; client < 7; ++client) {
    // Also weights that int16 and int32 cannot hold.
    const uint32_t weights[] = {1, 600, 40000, 7, 1000000, 30000, 32767};
    frames.push_back(FrameFor(spec, client, weights[client]));
  }
  Aggregator one_by_one = Aggregator::Create(spec).value();
  for (const Bytes& frame : frames) ASSERT_TRUE(one_by_one.Add(frame).ok());
  const std::vector<float> expected = Mean(one_by_one, kParams);

  // Each frame parsed by the caller, once.
  Aggregator parsed = Aggregator::Create(spec).value();
  for (const Bytes& frame : frames) {
    ASSERT_TRUE(parsed.Add(ParseFrame(frame).value()).ok());
  }
  ExpectSameBits(Mean(parsed, kParams), expected);

  // Two at a time, and what waits outlives its frame and moves along.
  Aggregator first = Aggregator::Create(spec).value();
  for (size_t i = 0; i < 3; ++i) {
    Bytes frame = frames[i];
    ASSERT_TRUE(first.AddSoon(frame, 1).ok());
    EXPECT_FALSE(first.AddSoon(frame, 1).ok());
    std::ranges::fill(frame, 0);
  }
  Aggregator soon = first;
  first = Aggregator::Create(spec).value();
  for (size_t i = 3; i < 7; ++i) {
    ASSERT_TRUE(soon.AddSoon(frames[i], 2).ok());
    if (i == 5) soon.Settle(2);
  }
  soon.Settle(2);
  ExpectSameBits(Mean(soon, kParams), expected);

  std::mt19937 random(1);
  for (int trial = 0; trial < 6; ++trial) {
    std::shuffle(frames.begin(), frames.end(), random);
    ForEachTarget([&] {
      Aggregator aggregator = Aggregator::Create(spec).value();
      const std::vector<ByteView> views(frames.begin(), frames.end());
      const size_t split = static_cast<size_t>(trial) % 4;
      for (const auto part :
           {std::span(views).first(split), std::span(views).subspan(split)}) {
        for (const Status& s : aggregator.AddAll(part, 1 + trial)) {
          ASSERT_TRUE(s.ok());
        }
      }
      std::vector<float> w(kParams), plain(kPlain);
      ASSERT_TRUE(aggregator.Finish(w, plain, 1 + trial).ok());
      w.insert(w.end(), plain.begin(), plain.end());
      ExpectSameBits(w, expected);
    });
  }
}

TEST_P(EveryCodecSum, BadFramesLeaveTheSumUntouched) {
  constexpr size_t kParams = 1500;
  const RoundSpec spec = SpecFor(GetParam().id, kParams);
  Aggregator aggregator = Aggregator::Create(spec).value();
  ASSERT_TRUE(aggregator.Add(FrameFor(spec, 1, 600)).ok());
  const std::vector<float> before = Mean(aggregator, kParams);
  const auto expect_refused = [&](const Bytes& bytes, ErrorCode code) {
    std::vector<Status> verdicts;
    verdicts.push_back(aggregator.Add(bytes));
    if (const auto frame = ParseFrame(bytes); frame.ok()) {
      verdicts.push_back(aggregator.Add(*frame));
    }
    for (const Status& status : verdicts) {
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code, code) << status.error().ToString();
      EXPECT_FALSE(status.error().message.empty());
    }
    EXPECT_EQ(aggregator.clients(), 1u);
    ExpectSameBits(Mean(aggregator, kParams), before);
  };

  Bytes damaged = FrameFor(spec, 2, 600);
  damaged[100] ^= 1;
  expect_refused(damaged, ErrorCode::kBadChecksum);
  expect_refused({}, ErrorCode::kTruncated);
  expect_refused(FrameFor(spec, 1, 600), ErrorCode::kDuplicate);
  RoundSpec other = spec;
  other.round = 3;
  expect_refused(FrameFor(other, 2, 600), ErrorCode::kStale);
  other = spec;
  other.run = 6;
  expect_refused(FrameFor(other, 2, 600), ErrorCode::kForeign);
  other = spec;
  other.fingerprint = 1;
  expect_refused(FrameFor(other, 2, 600), ErrorCode::kForeign);
  expect_refused(FrameFor(SpecFor(spec.codec, kParams - 1), 2, 600),
                 ErrorCode::kForeign);
  expect_refused(
      FrameFor(SpecFor(spec.codec == CodecId::kFloat32 ? CodecId::kFloat16
                                                       : CodecId::kFloat32,
                       kParams),
               2, 600),
      ErrorCode::kForeign);
  if (GetParam().uses_noise) {
    other = spec;
    other.magnitude = 0.02f;
    expect_refused(FrameFor(other, 2, 600), ErrorCode::kForeign);
    other = spec;
    other.noise = NoiseKind::kGaussian;
    expect_refused(FrameFor(other, 2, 600), ErrorCode::kForeign);
  }
  expect_refused(FrameFor(spec, 2, (1 << 20) + 1), ErrorCode::kBadValue);

  // The same among good ones: one verdict each, and the good ones count.
  const Bytes good2 = FrameFor(spec, 2, 600), good3 = FrameFor(spec, 3, 600);
  const ByteView batch[] = {good2, damaged, good2, good3};
  const auto verdicts = aggregator.AddAll(batch, 2);
  ASSERT_EQ(verdicts.size(), 4u);
  EXPECT_TRUE(verdicts[0].ok());
  EXPECT_EQ(verdicts[1].error().code, ErrorCode::kBadChecksum);
  EXPECT_EQ(verdicts[2].error().code, ErrorCode::kDuplicate);
  EXPECT_TRUE(verdicts[3].ok());
  EXPECT_EQ(aggregator.clients(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Table, EveryCodecSum, testing::ValuesIn(Codecs()),
                         CodecTestName);

// A client must not choose its noise.
TEST(Aggregator, RefusesASeedThatIsNotTheClients) {
  for (CodecId codec : {CodecId::kMrnBinary, CodecId::kDrive}) {
    RoundSpec spec = SpecFor(codec, 100);
    spec.run_seed = 9;
    Aggregator aggregator = Aggregator::Create(spec).value();
    EXPECT_EQ(aggregator.Add(FrameFor(spec, 3, 1)).error().code,
              ErrorCode::kForeign);
    FrameHeader header = ParseFrame(FrameFor(spec, 3, 1)).value();
    header.noise.seed = ClientSeed(9, spec.round, 3);
    const std::vector<float> update(100, 0.001f), plain(kPlain);
    EXPECT_TRUE(
        aggregator.Add(EncodeFrame(header, {}, update, plain).value()).ok());
    header.client = 4;  // with the seed of 3
    EXPECT_FALSE(
        aggregator.Add(EncodeFrame(header, {}, update, plain).value()).ok());
  }
}

// Coded masks and plain ones give the same sum, to the bit.
TEST(Aggregator, CodingChangesNothing) {
  for (CodecId codec : {CodecId::kMrnBinary, CodecId::kMrnSigned}) {
    constexpr size_t kParams = 70001;
    const RoundSpec spec = SpecFor(codec, kParams);
    Aggregator sums[] = {Aggregator::Create(spec).value(),
                         Aggregator::Create(spec).value()};
    for (uint64_t client = 0; client < 3; ++client) {
      FrameHeader header = ParseFrame(FrameFor(spec, client, 600)).value();
      size_t bytes[2];
      for (bool entropy : {false, true}) {
        EncodeOptions options;
        options.entropy = entropy;
        const Bytes frame =
            EncodeFrame(header, options, Normal(client, kParams, 0.002f),
                        std::vector<float>(kPlain))
                .value();
        bytes[entropy] = frame.size();
        ASSERT_TRUE(sums[entropy].Add(frame).ok());
      }
      EXPECT_LT(bytes[1], bytes[0] * 2 / 3);
    }
    ExpectSameBits(Mean(sums[0], kParams), Mean(sums[1], kParams));
  }
}

TEST(Aggregator, ABroadcastIsNoUpdate) {
  const RoundSpec spec = SpecFor(CodecId::kFloat32, 10);
  FrameHeader header;
  header.codec = CodecId::kFloat32;
  header.broadcast = true;
  header.run = spec.run;
  header.round = spec.round;
  header.fingerprint = spec.fingerprint;
  const Bytes frame = EncodeFrame(header, {}, std::vector<float>(10),
                                  std::vector<float>(kPlain))
                          .value();
  Aggregator aggregator = Aggregator::Create(spec).value();
  EXPECT_EQ(aggregator.Add(frame).error().code, ErrorCode::kForeign);
}

TEST(Aggregator, ValuesBeyondTheLimitAreRefused) {
  RoundSpec spec = SpecFor(CodecId::kFloat32, 10);
  spec.plain_count = 1;
  const auto frame_of = [&](float value, float plain) {
    FrameHeader header;
    header.codec = CodecId::kFloat32;
    header.run = spec.run;
    header.round = spec.round;
    header.fingerprint = spec.fingerprint;
    header.examples = 1 << 20;
    std::vector<float> update(10);
    update[7] = value;
    return EncodeFrame(header, {}, update, std::vector<float>{plain}).value();
  };
  Aggregator aggregator = Aggregator::Create(spec).value();
  EXPECT_FALSE(aggregator.Add(frame_of(16.001f, 0)).ok());
  EXPECT_FALSE(aggregator.Add(frame_of(-3e38f, 0)).ok());
  EXPECT_FALSE(aggregator.Add(frame_of(0, 3e38f)).ok());
  EXPECT_EQ(aggregator.clients(), 0u);
  ASSERT_TRUE(aggregator.Add(frame_of(-16.0f, -0x1p40f)).ok());
  std::vector<float> w(10), plain(1);
  ASSERT_TRUE(aggregator.Finish(w, plain).ok());
  EXPECT_EQ(w[7], -16.0f);
  EXPECT_EQ(plain[0], -0x1p40f);
}

// The heaviest clients with the largest values, until the sum is full: it says
// so instead of overflowing.
TEST(Aggregator, FillsUpWithoutOverflow) {
  RoundSpec spec = SpecFor(CodecId::kFloat32, 1);
  spec.plain_count = 0;
  Aggregator aggregator = Aggregator::Create(spec).value();
  uint64_t client = 0;
  for (;; ++client) {
    FrameHeader header;
    header.codec = CodecId::kFloat32;
    header.run = spec.run;
    header.round = spec.round;
    header.fingerprint = spec.fingerprint;
    header.client = client;
    header.examples = spec.max_examples;
    const Status status = aggregator.Add(
        EncodeFrame(header, {}, std::vector<float>{16.0f}, {}).value());
    if (!status.ok()) {
      EXPECT_EQ(status.error().code, ErrorCode::kFull);
      break;
    }
    ASSERT_LT(client, 100000u);
  }
  EXPECT_GE(client, 4096u);
  std::vector<float> w(1);
  ASSERT_TRUE(aggregator.Finish(w, {}).ok());
  EXPECT_EQ(w[0], 16.0f);
}

TEST(Aggregator, WeightsByBatchesAsTheAuthorsDid) {
  RoundSpec spec = SpecFor(CodecId::kFloat32, 1);
  spec.examples_per_weight = 64;
  Aggregator aggregator = Aggregator::Create(spec).value();
  // 65 examples are two mini-batches, 64 are one.
  ASSERT_TRUE(aggregator.Add(FrameFor(spec, 0, 65)).ok());
  ASSERT_TRUE(aggregator.Add(FrameFor(spec, 1, 64)).ok());
  EXPECT_EQ(aggregator.total_weight(), 3u);
}

TEST(Aggregator, RefusesImpossibleRounds) {
  const RoundSpec good = SpecFor(CodecId::kMrnBinary, 10);
  EXPECT_TRUE(Aggregator::Create(good).ok());
  RoundSpec spec = good;
  spec.params = 0;
  EXPECT_FALSE(Aggregator::Create(spec).ok());
  spec = good;
  spec.params = kMaxParams + 1;
  EXPECT_FALSE(Aggregator::Create(spec).ok());
  spec = good;
  spec.magnitude = 0;
  EXPECT_FALSE(Aggregator::Create(spec).ok());
  spec = good;
  spec.magnitude = 20;  // beyond max_abs_value
  EXPECT_FALSE(Aggregator::Create(spec).ok());
  spec = good;
  spec.examples_per_weight = 0;
  EXPECT_FALSE(Aggregator::Create(spec).ok());
  spec = good;
  spec.codec = CodecId::kEden;  // with noise
  EXPECT_FALSE(Aggregator::Create(spec).ok());
  spec = good;
  spec.codec = static_cast<CodecId>(77);
  EXPECT_FALSE(Aggregator::Create(spec).ok());
}

TEST(Aggregator, FinishNeedsAFrame) {
  const Aggregator aggregator =
      Aggregator::Create(SpecFor(CodecId::kMrnBinary, 2)).value();
  std::vector<float> w = {1, 2}, plain(kPlain, 5.0f);
  EXPECT_FALSE(aggregator.Finish(w, plain).ok());
  EXPECT_EQ(w, (std::vector<float>{1, 2}));
}

// Masked noise is summed without any rounding: integers, checked as such.
TEST(AddMasked, VectorsEqualDefinition) {
  for (NoiseKind kind :
       {NoiseKind::kUniform, NoiseKind::kGaussian, NoiseKind::kBernoulli}) {
    for (MaskKind mask : {MaskKind::kBinary, MaskKind::kSigned}) {
      constexpr size_t kMost = 5003;
      constexpr size_t kClients = 5;
      std::vector<Bytes> bits;
      for (uint64_t k = 0; k < kClients; ++k) {
        std::vector<float> random = Normal(k, kMost);
        bits.emplace_back(BytesForBits(kMost));
        FinalMask({mask, false, false, {kind, 1, k}, 0}, random, bits[k]);
      }
      ForEachTarget([&] {
        for (size_t n : TestLengths()) {
          for (size_t clients : {size_t{1}, size_t{2}, kClients}) {
            // Exactly as long as the mask, for the sanitizer to see overruns.
            std::vector<Bytes> cut;
            std::vector<MaskedUpdate> updates;
            for (uint64_t k = 0; k < clients; ++k) {
              cut.emplace_back(bits[k].begin(),
                               bits[k].begin() + BytesForBits(n));
              updates.push_back({{kind, 1, k}, cut[k].data(), 100 + 99 * k});
            }
            updates[0].weight = MaxSmallWeight(kind) - 2000;
            std::vector<int64_t> expected(n, 5), sum(n, 5);
            std::vector<SmallTile> small(TilesFor(n), SmallTile{});
            ref::AddMasked(mask, updates, 0, TilesFor(n), expected);
            AddMasked(mask, updates, 0, TilesFor(n), n, small);
            DrainMasked(kind, 1, 0, TilesFor(n), small, sum);
            ASSERT_EQ(sum, expected) << n;
            // Drained means empty.
            DrainMasked(kind, 1000, 0, TilesFor(n), small, sum);
            ASSERT_EQ(sum, expected) << n;
          }
        }
      });
    }
  }
}

// The extreme: the most weight that int32 may carry, on the largest noise.
TEST(AddMasked, TheFullestSmallTileDoesNotOverflow) {
  for (NoiseKind kind :
       {NoiseKind::kUniform, NoiseKind::kGaussian, NoiseKind::kBernoulli}) {
    constexpr size_t kParams = 4096;
    const Bytes all(kParams / 8, 0xFF);
    const std::vector<MaskedUpdate> updates = {
        {{kind, 1, 1}, all.data(), MaxSmallWeight(kind)}};
    ForEachTarget([&] {
      std::vector<int64_t> expected(kParams), sum(kParams);
      std::vector<SmallTile> small(TilesFor(kParams), SmallTile{});
      ref::AddMasked(MaskKind::kBinary, updates, 0, 4, expected);
      AddMasked(MaskKind::kBinary, updates, 0, 4, kParams, small);
      DrainMasked(kind, 1, 0, 4, small, sum);
      EXPECT_EQ(sum, expected);
    });
  }
}

TEST(AddFloats, VectorsEqualDefinition) {
  constexpr size_t kMost = 5003;
  const std::vector<float> x = Normal(1, kMost), y = Normal(2, kMost, 1e-3f);
  ForEachTarget([&] {
    for (size_t n : TestLengths()) {
      // Frames put floats at any address.
      Bytes bytes(4 * n + 1);
      if (n > 0) std::memcpy(bytes.data() + 1, x.data(), 4 * n);
      const std::vector<float> cut(y.begin(), y.begin() + n);
      const std::vector<FloatUpdate> updates = {
          {bytes.data() + 1, 600.0 * (1 << 26)},
          {reinterpret_cast<const uint8_t*>(cut.data()), 3.7e9}};
      std::vector<int64_t> expected(n, -9), sum(n, -9);
      ref::AddFloats(updates, 0, TilesFor(n), expected);
      AddFloats(updates, 0, TilesFor(n), sum);
      ASSERT_EQ(sum, expected);
    }
  });
}

}  // namespace
}  // namespace fedmrn
