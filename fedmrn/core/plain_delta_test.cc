#include "fedmrn/core/plain_delta.h"

#include <cmath>
#include <numeric>

#include "fedmrn/core/aggregate.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/test_util.h"
#include "fedmrn/core/wire.h"

namespace fedmrn {
namespace {

const std::vector<uint32_t> kLengths = {64, 100, 36};
constexpr size_t kValues = 200;

struct Section {
  std::vector<float> reference, values;

  // Two tensors of both signs, and one of variances, some close to 0.
  explicit Section(uint64_t seed) : reference(Normal(1, kValues)) {
    for (size_t i = 164; i < kValues; ++i) {
      reference[i] = std::exp(4 * reference[i]);
    }
    values = reference;
    const std::vector<float> change = Normal(seed, kValues, 0.1f);
    for (size_t i = 0; i < kValues; ++i) {
      if (i < 164) {
        values[i] += i < 64 ? change[i] : 0.01f * change[i];
      } else {
        values[i] *= std::exp(change[i]);
      }
    }
  }

  Bytes Coded(uint64_t dither) const {
    Bytes out;
    AppendDeltas(dither, kLengths, reference, values, out);
    return out;
  }
};

double Rms(const Section& s, size_t first, size_t count) {
  double squares = 0;
  for (size_t i = first; i < first + count; ++i) {
    const double delta = double{s.values[i]} - double{s.reference[i]};
    squares += delta * delta;
  }
  return std::sqrt(squares / static_cast<double>(count));
}

TEST(PlainDelta, IsWithinHalfAStepAndSmall) {
  const Section section(2);
  const Bytes coded = section.Coded(9);
  ASSERT_TRUE(CheckDeltas(coded, kValues));
  std::vector<float> out(kValues);
  ReadDeltas(9, coded, section.reference, out);
  size_t first = 0;
  for (const uint32_t length : kLengths) {
    const double step = Rms(section, first, length) / 8;
    for (size_t i = first; i < first + length; ++i) {
      EXPECT_LE(std::fabs(double{out[i]} - double{section.values[i]}),
                // The variances may have been lifted above 0.
                (i < 164 ? 0.5001 : 1.0001) * step + 1e-7)
          << i;
    }
    first += length;
  }
  // An entropy of 5.05 bits; Rice's code takes a little more.
  EXPECT_LT(8.0 * static_cast<double>(coded.size() - 4 - 27) / kValues, 5.6);
}

// Over many dithers the mean is the value itself: an error of a twelfth of a
// squared step has a standard error of 0.0046 steps after 4000.
TEST(PlainDelta, IsUnbiased) {
  const Section section(3);
  constexpr int kDraws = 4000;
  std::vector<double> mean(kValues);
  std::vector<float> out(kValues);
  for (int r = 0; r < kDraws; ++r) {
    ReadDeltas(r, section.Coded(r), section.reference, out);
    for (size_t i = 0; i < kValues; ++i) mean[i] += double{out[i]} / kDraws;
  }
  for (size_t i = 0; i < 164; ++i) {
    const double step = Rms(section, i < 64 ? 0 : 64, i < 64 ? 64 : 100) / 8;
    ASSERT_NEAR(mean[i], section.values[i], 5 * 0.0046 * step + 1e-7) << i;
  }
}

TEST(PlainDelta, VariancesStayPositive) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Section section(seed);
    std::vector<float> out(kValues);
    ReadDeltas(seed, section.Coded(seed), section.reference, out);
    for (size_t i = 164; i < kValues; ++i) ASSERT_GT(out[i], 0) << i;
  }
}

TEST(PlainDelta, WhatDidNotChangeStays) {
  Section section(1);
  section.values = section.reference;
  const Bytes coded = section.Coded(1);
  EXPECT_EQ(coded.size(), 4 + 27 + kValues / 8);
  std::vector<float> out(kValues);
  ReadDeltas(1, coded, section.reference, out);
  ExpectSameBits(out, section.values);
}

TEST(PlainDelta, BadSectionsAreRefusedWithWhatAndWhere) {
  const Bytes good = Section(4).Coded(1);
  for (size_t n = 0; n < good.size(); ++n) {
    const Bytes cut(good.begin(), good.begin() + n);
    const Status status = CheckDeltas(cut, kValues);
    ASSERT_FALSE(status) << n;
    EXPECT_LE(status.error().offset, n);
  }
  const auto expect = [&](size_t at, uint32_t value, size_t bytes,
                          const char* words, size_t offset) {
    Bytes bad = good;
    std::memcpy(bad.data() + at, &value, bytes);
    const Status status = CheckDeltas(bad, kValues);
    ASSERT_FALSE(status) << words;
    EXPECT_NE(status.error().message.find(words), std::string::npos)
        << status.error().message;
    EXPECT_EQ(status.error().offset, offset);
  };
  expect(0, 0xFFFFFFFF, 4, "tensors do not fit", 0);
  expect(4, 65, 4, "sum to 201 instead of 200", 4);
  expect(16, 0x7FC00000, 4, "step 0 is not", 16);
  expect(20, 0x80000000, 4, "step 1 is not", 20);
  expect(30, 25, 1, "Rice parameter 25", 30);
  Bytes longer = good;
  longer.push_back(0);
  EXPECT_EQ(CheckDeltas(longer, kValues).error().offset, 31u);
}

// Nobody would take it, and its integers could be longer than any memory.
TEST(PlainDelta, HugeValuesAreNotEncoded) {
  FrameHeader header;
  header.codec = CodecId::kFloat32;
  header.examples = 1;
  header.plain_kind = PlainKind::kDelta;
  const std::vector<float> update(3);
  const auto encode = [&](float reference, float value) {
    const std::vector<float> references(2, reference), values(2, value);
    EncodeOptions options;
    options.plain_reference = references;
    return EncodeFrame(header, options, update, values);
  };
  for (const float sign : {1.0f, -1.0f}) {
    for (const float huge : {1.001f * 0x1p40f, 1e24f, 1e38f}) {
      EXPECT_EQ(encode(1, sign * huge).error().code, ErrorCode::kNotFinite);
      EXPECT_EQ(encode(sign * huge, 1).error().message,
                "reference value 0 exceeds 2^40");
    }
    const Result<Bytes> largest = encode(-sign * 0x1p40f, sign * 0x1p40f);
    ASSERT_TRUE(largest);
    EXPECT_LT(largest->size(), 200u);
  }
}

// The whole way: a frame, and a server that knows what was sent out.
TEST(PlainDelta, TravelsInAFrame) {
  const Section section(5);
  FrameHeader header;
  header.codec = CodecId::kMrnBinary;
  header.examples = 600;
  header.noise = {NoiseKind::kUniform, 0.01f, 3};
  header.plain_kind = PlainKind::kDelta;
  EncodeOptions options;
  options.plain_segments = kLengths;
  const std::vector<float> update = Normal(1, 500, 0.004f);
  EXPECT_FALSE(EncodeFrame(header, options, update, section.values).ok())
      << "without a reference";
  options.plain_reference = section.reference;
  const Bytes bytes =
      EncodeFrame(header, options, update, section.values).value();
  const FrameView frame = ParseFrame(bytes).value();
  EXPECT_EQ(frame.plain_kind, PlainKind::kDelta);
  std::vector<float> out(kValues), differences(kValues);
  frame.CopyPlain(out, section.reference);
  frame.CopyPlain(differences);
  for (size_t i = 0; i < kValues; ++i) {
    EXPECT_NEAR(out[i], section.reference[i] + differences[i],
                1e-6 * std::fabs(out[i]) + 1e-7);
  }

  RoundSpec spec;
  spec.params = update.size();
  spec.plain_count = kValues;
  spec.noise = NoiseKind::kUniform;
  spec.magnitude = 0.01f;
  spec.variances = {{164, 36}};
  Aggregator ignorant = Aggregator::Create(spec).value();
  EXPECT_EQ(ignorant.Add(bytes).error().code, ErrorCode::kForeign);
  spec.plain_reference = section.reference;
  Aggregator server = Aggregator::Create(spec).value();
  ASSERT_TRUE(server.Add(bytes));
  std::vector<float> weights(update.size()), plain(kValues);
  ASSERT_TRUE(server.Finish(weights, plain));
  for (size_t i = 0; i < kValues; ++i) EXPECT_NEAR(plain[i], out[i], 1e-6);

  // A negative variance is refused, however it travels.
  header.client = 1;
  header.plain_kind = PlainKind::kFloat32;
  std::vector<float> negative = section.values;
  negative[170] = -1e-9f;
  EXPECT_EQ(server.Add(EncodeFrame(header, {}, update, negative).value())
                .error()
                .message,
            "a variance is negative");

  // Damage is found where it is.
  Bytes bad = bytes;
  const size_t plain_at = bytes.size() - 8 - frame.plain.size();
  bad[plain_at] = 0xFF;
  wire::StoreChecksum(bad);
  EXPECT_EQ(ParseFrame(bad).error().offset, plain_at);
}

}  // namespace
}  // namespace fedmrn
