// Magnitudes of tensors: in noise, masks, frames and sums.
#include "fedmrn/core/magnitude.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "fedmrn/core/aggregate.h"
#include "fedmrn/core/coded_mask.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/test_util.h"
#include "fedmrn/core/wire.h"

namespace fedmrn {
namespace {

// Tensors that share a tile, end with one, and fill several.
const std::vector<TensorMagnitude> kTensors = {{5, 0.5f},     {900, 0.01f},
                                               {119, 0.02f},  {1, 0.3f},
                                               {4095, 0.25f}, {77, 0.001f}};
constexpr uint64_t kAllParams = 5 + 900 + 119 + 1 + 4095 + 77;

// fn(first, count, noise) for each tensor, with noise of its one magnitude.
template <typename Fn>
void ForEachTensor(const Noise& noise, Fn fn) {
  uint64_t first = 0;
  for (size_t t = 0; t < noise.magnitudes.size(); ++t) {
    const auto [length, magnitude] = noise.magnitudes[t];
    fn(first, length, Noise{noise.kind, magnitude, noise.seed});
    first += length;
  }
}

TEST(Magnitudes, OfTheNoise) {
  const Bytes bytes = MagnitudeBytes(kTensors);
  for (const NoiseKind kind : kNoiseKinds) {
    const Noise noise{kind, 0, 7, MagnitudesView(bytes)};
    ASSERT_TRUE(IsValid(noise));
    std::vector<float> all(kAllParams), plain(kAllParams);
    NoiseValues(noise, 0, all);
    ref::NoiseValues(noise, 0, plain);
    EXPECT_EQ(all, plain);
    ForEachTensor(noise, [&](uint64_t first, size_t count, const Noise& one) {
      std::vector<float> expected(count);
      NoiseValues(one, first, expected);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                             all.begin() + static_cast<ptrdiff_t>(first)))
          << first;
    });
    // From anywhere.
    std::vector<float> some(2000);
    NoiseValues(noise, 1022, some);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + 1022));
  }
}

TEST(Magnitudes, OfMasks) {
  const Bytes bytes = MagnitudeBytes(kTensors);
  const std::vector<float> weights = Normal(1, kAllParams, 0.1f),
                           gradient = Normal(2, kAllParams, 0.1f),
                           start = Normal(3, kAllParams, 0.05f);
  const LocalStep at{3, 7, 0.1f};
  ForEachTarget([&] {
    for (const NoiseKind kind : kNoiseKinds) {
      for (const MaskKind mask : kMaskKinds) {
        Masking masking{.kind = mask,
                        .noise = {kind, 0, 9, MagnitudesView(bytes)},
                        .draw_seed = 4};
        std::vector<float> update = start, effective(kAllParams);
        MaskedStep(masking, at, weights, gradient, update, effective);
        std::vector<float> ref_update = start, ref_effective(kAllParams);
        ref::MaskedStep(masking, at, weights, gradient, ref_update,
                        ref_effective);
        EXPECT_EQ(update, ref_update);
        EXPECT_EQ(effective, ref_effective);
        Bytes bits(BytesForBits(kAllParams)), ref_bits = bits;
        FinalMask(masking, update, bits);
        ref::FinalMask(masking, update, ref_bits);
        EXPECT_EQ(bits, ref_bits);

        const Noise noise = masking.noise;
        ForEachTensor(noise, [&](uint64_t first, size_t count,
                                 const Noise& one) {
          // The whole vector with this tensor's magnitude is right here.
          masking.noise = one;
          std::vector<float> other = start, other_effective(kAllParams);
          MaskedStep(masking, at, weights, gradient, other, other_effective);
          Bytes other_bits(bits.size());
          FinalMask(masking, other, other_bits);
          for (uint64_t i = first; i < first + count; ++i) {
            EXPECT_EQ(effective[i], other_effective[i]) << i;
            EXPECT_EQ(TestBit(bits.data(), i), TestBit(other_bits.data(), i));
          }
        });
      }
    }
  });
}

FrameHeader HeaderOf(CodecId codec, const Noise& noise, uint64_t client) {
  FrameHeader header;
  header.codec = codec;
  header.round = 1;
  header.client = client;
  header.examples = 10;
  header.noise = noise;
  return header;
}

RoundSpec SpecOf(CodecId codec, NoiseKind kind, const Bytes& magnitudes) {
  RoundSpec spec;
  spec.round = 1;
  spec.params = kAllParams;
  spec.codec = codec;
  spec.noise = kind;
  spec.magnitudes = magnitudes;
  return spec;
}

TEST(Magnitudes, TravelAndAreSummed) {
  const Bytes bytes = MagnitudeBytes(kTensors);
  for (const NoiseKind kind : kNoiseKinds) {
    for (const CodecId codec : {CodecId::kMrnBinary, CodecId::kMrnSigned}) {
      const RoundSpec spec = SpecOf(codec, kind, bytes);
      Aggregator sum = Aggregator::Create(spec).value();
      std::vector<double> mean(kAllParams);
      for (uint64_t client = 0; client < 3; ++client) {
        const Noise noise{kind, 0, client, MagnitudesView(bytes)};
        EncodeOptions options;
        options.entropy = client != 1;
        const Bytes frame = EncodeFrame(HeaderOf(codec, noise, client), options,
                                        Normal(client, kAllParams, 0.01f), {})
                                .value();
        const FrameView view = ParseFrame(frame).value();
        EXPECT_EQ(view.noise.magnitudes, MagnitudesView(bytes));
        EXPECT_EQ(view.noise.magnitude, 0);
        std::vector<float> update(kAllParams);
        DecodeUpdate(view, update);
        for (size_t i = 0; i < kAllParams; ++i) mean[i] += update[i] / 3.0;
        ASSERT_TRUE(sum.Add(frame).ok());
      }
      std::vector<float> weights(kAllParams);
      ASSERT_TRUE(sum.Finish(weights, {}, 2).ok());
      for (size_t i = 0; i < kAllParams; ++i) {
        EXPECT_NEAR(weights[i], mean[i], 1e-7) << i;
      }
    }
  }
}

TEST(Magnitudes, OthersThanTheRoundsAreRefused) {
  const Bytes bytes = MagnitudeBytes(kTensors);
  std::vector<TensorMagnitude> others = kTensors;
  others[2].magnitude = 0.021f;
  const Bytes other_bytes = MagnitudeBytes(others);
  const std::vector<float> update(kAllParams);
  const NoiseKind kind = NoiseKind::kBernoulli;
  Aggregator sum =
      Aggregator::Create(SpecOf(CodecId::kMrnBinary, kind, bytes)).value();
  for (const Noise& noise : {Noise{kind, 0, 1, MagnitudesView(other_bytes)},
                             Noise{kind, 0.01f, 1}}) {
    const Bytes frame =
        EncodeFrame(HeaderOf(CodecId::kMrnBinary, noise, 1), {}, update, {})
            .value();
    EXPECT_EQ(sum.Add(frame).error().code, ErrorCode::kForeign);
  }
  // Nor do they fit another model.
  RoundSpec spec = SpecOf(CodecId::kMrnBinary, kind, bytes);
  spec.params = kAllParams + 1;
  EXPECT_FALSE(Aggregator::Create(spec).ok());
  spec.params = kAllParams;
  spec.max_abs_value = 0.4f;  // below the first tensor's
  EXPECT_FALSE(Aggregator::Create(spec).ok());
}

TEST(Magnitudes, WhatAFrameMayNotSay) {
  const Bytes good = MagnitudeBytes(kTensors);
  const std::vector<float> update(kAllParams);
  const auto encode = [&](CodecId codec, const Noise& noise) {
    return EncodeFrame(HeaderOf(codec, noise, 1), {}, update, {});
  };
  const NoiseKind kind = NoiseKind::kUniform;
  const Bytes frame =
      encode(CodecId::kMrnBinary, {kind, 0, 1, MagnitudesView(good)}).value();
  // A magnitude for all beside those of tensors; a codec without noise.
  EXPECT_FALSE(
      encode(CodecId::kMrnBinary, {kind, 0.01f, 1, MagnitudesView(good)}));
  EXPECT_FALSE(encode(CodecId::kFloat32,
                      {NoiseKind::kNone, 0, 0, MagnitudesView(good)}));
  const size_t first = wire::kPayload + wire::kExtensionHeadBytes;
  const auto refused = [&](size_t at, auto value, ErrorCode code) {
    Bytes changed = frame;
    StoreLe(value, changed.data() + at);
    wire::StoreChecksum(changed);
    const Result<FrameView> parsed = ParseFrame(changed);
    ASSERT_FALSE(parsed.ok()) << at;
    EXPECT_EQ(parsed.error().code, code) << parsed.error().ToString();
    EXPECT_GE(parsed.error().offset, wire::kNoiseKind.offset);
  };
  refused(first, uint32_t{0}, ErrorCode::kBadValue);
  refused(first, uint32_t{6}, ErrorCode::kBadFormat);
  refused(first + 4, std::nanf(""), ErrorCode::kBadValue);
  refused(first + 4, -0.5f, ErrorCode::kBadValue);
  refused(first + 4, 2048.0f, ErrorCode::kBadValue);
  refused(wire::kPayload, uint16_t{0x8002}, ErrorCode::kBadFormat);
  refused(wire::kPayload + 2, uint16_t{47}, ErrorCode::kBadFormat);
  // Without magnitudes (an extension that is skipped) the header's 0 is none.
  refused(wire::kPayload, uint16_t{1}, ErrorCode::kBadValue);
  refused(wire::kMagnitude.offset, 0.01f, ErrorCode::kBadValue);
  // Twice.
  Bytes twice = frame;
  const ptrdiff_t extension = wire::kExtensionHeadBytes + 8 * 6;
  twice.insert(twice.begin() + wire::kPayload, frame.begin() + wire::kPayload,
               frame.begin() + wire::kPayload + extension);
  wire::kExtensionBytes.Store(static_cast<uint32_t>(2 * extension),
                              twice.data());
  wire::StoreChecksum(twice);
  EXPECT_EQ(ParseFrame(twice).error().code, ErrorCode::kBadFormat);
  // More tensors than an extension has room for.
  const Bytes many =
      MagnitudeBytes(std::vector<uint32_t>(kAllParams + 5000, 1), 0.01f);
  EXPECT_FALSE(EncodeFrame(
      HeaderOf(CodecId::kMrnBinary, {kind, 0, 1, MagnitudesView(many)}, 1), {},
      std::vector<float>(kAllParams + 5000), {}));
}

// Binary: the ones. Signed: as many as a binary mask of this noise has, on
// average; a signed mask's own ones are one half of all.
TEST(Magnitudes, WhatIsCounted) {
  constexpr uint32_t kLength = 1 << 16;
  const Bytes bytes = MagnitudeBytes(std::vector<uint32_t>{3, kLength}, 0.01f);
  const std::vector<float> update = Normal(5, kLength + 3, 0.002f);
  for (const NoiseKind kind : kNoiseKinds) {
    uint64_t of_mask[2];
    for (const MaskKind mask : kMaskKinds) {
      const Masking masking{.kind = mask,
                            .noise = {kind, 0, 9, MagnitudesView(bytes)}};
      Bytes bits(BytesForBits(update.size()));
      FinalMask(masking, update, bits);
      uint64_t beyond[2] = {};
      CountBeyond(mask, masking.noise, bits.data(), beyond);
      uint64_t ones = 0;
      for (size_t i = 3; i < update.size(); ++i)
        ones += TestBit(bits.data(), i);
      of_mask[static_cast<int>(mask)] = beyond[1];
      if (mask == MaskKind::kBinary) {
        EXPECT_EQ(beyond[1], ones);
      } else {
        EXPECT_NEAR(static_cast<double>(ones), kLength / 2.0, 600);
      }
    }
    EXPECT_NEAR(static_cast<double>(of_mask[1]),
                static_cast<double>(of_mask[0]),
                5 * std::sqrt(static_cast<double>(of_mask[0])));
  }
}

TEST(SteerMagnitudes, KnownAnswers) {
  const Bytes bytes = MagnitudeBytes(std::vector<TensorMagnitude>{
      {100, 0.01f}, {100, 0.01f}, {100, 0.01f}, {100, 0.01f}, {50, 0.01f}});
  // Two clients; the target is 20 of 200.
  const uint64_t beyond[] = {20, 25, 200, 0, 10};
  const Bytes next = SteerMagnitudes(MagnitudesView(bytes), beyond, 2, 0.1);
  const MagnitudesView view(next);
  EXPECT_EQ(view.params(), 450u);
  EXPECT_EQ(view[0].magnitude, 0.01f);
  EXPECT_EQ(view[1].magnitude,
            static_cast<float>(double{0.01f} * std::sqrt(1.25)));
  EXPECT_EQ(view[2].magnitude, 0.02f);   // no more than doubled
  EXPECT_EQ(view[3].magnitude, 0.005f);  // or halved
  EXPECT_EQ(view[4].magnitude, 0.01f);
  const Bytes edges = MagnitudeBytes(
      std::vector<TensorMagnitude>{{10, kMostSteered}, {10, kLeastSteered}});
  const uint64_t all_or_none[] = {10, 0};
  EXPECT_EQ(SteerMagnitudes(MagnitudesView(edges), all_or_none, 1, 0.1), edges);
}

// Masks of updates that do not react come to the target share, from far off.
TEST(SteerMagnitudes, ComesToTheTarget) {
  constexpr uint32_t kLength = 1 << 15;
  for (const NoiseKind kind : kNoiseKinds) {
    for (const MaskKind mask : kMaskKinds) {
      Bytes bytes = MagnitudeBytes(std::vector<uint32_t>{kLength}, 0.01f);
      uint64_t beyond[1];
      for (uint64_t round = 0; round < 12; ++round) {
        const Masking masking{.kind = mask,
                              .noise = {kind, 0, round, MagnitudesView(bytes)}};
        Bytes bits(BytesForBits(kLength));
        FinalMask(masking, Normal(round, kLength, 0.05f), bits);
        beyond[0] = 0;
        CountBeyond(mask, masking.noise, bits.data(), beyond);
        bytes = SteerMagnitudes(MagnitudesView(bytes), beyond, 1, 0.1);
      }
      EXPECT_NEAR(static_cast<double>(beyond[0]) / kLength, 0.1, 0.01);
    }
  }
}

TEST(MeanMagnitude, IsGeometric) {
  const Bytes bytes =
      MagnitudeBytes(std::vector<TensorMagnitude>{{30, 0.5f}, {10, 0.03125f}});
  EXPECT_NEAR(MeanMagnitude(MagnitudesView(bytes)), 0.25, 1e-12);
}

}  // namespace
}  // namespace fedmrn
