#include "fedmrn/core/plain_delta.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/core/draws.h"

namespace fedmrn {
namespace {

constexpr uint32_t kStepsPerRms = 8;
constexpr uint32_t kMaxRice = 24;
constexpr float kMaxStep = 0x1p40f;
constexpr size_t kBytesPerTensor = 4 + 4 + 1;

Error At(size_t offset, ErrorCode code, std::string message) {
  return Error{code, std::move(message), offset};
}

// d_j for j = 0, 1, ..., in (-1/2, 1/2).
class Dither {
 public:
  explicit Dither(uint64_t seed) : words_({seed, Purpose::kPlainDither, 0}) {}
  double Next() {
    const uint32_t half =
        upper_ ? word_ >> 16 : (word_ = words_.Next()) & 0xFFFF;
    upper_ = !upper_;
    return static_cast<double>(2 * half + 1) * 0x1p-17 - 0.5;
  }

 private:
  DrawReader words_;
  uint32_t word_ = 0;
  bool upper_ = false;
};

float Value(float reference, int64_t q, double dither, float step) {
  return static_cast<float>(double{reference} +
                            (static_cast<double>(q) - dither) * double{step});
}

uint64_t ZigZag(int64_t q) {
  return q >= 0 ? 2 * static_cast<uint64_t>(q)
                : 2 * static_cast<uint64_t>(-q) - 1;
}

int64_t UnZigZag(uint64_t z) {
  const auto half = static_cast<int64_t>(z / 2);
  return z % 2 == 0 ? half : -half - 1;
}

uint32_t BestRice(std::span<const uint64_t> zs) {
  uint64_t least = ~uint64_t{0};
  uint32_t best = 0;
  for (uint32_t p = 0; p <= kMaxRice; ++p) {
    uint64_t bits = zs.size() * (uint64_t{p} + 1);
    for (uint64_t z : zs) bits += z >> p;
    if (bits < least) {
      least = bits;
      best = p;
    }
  }
  return best;
}

// A section's parts, which must be there.
struct Parts {
  explicit Parts(ByteView section)
      : tensors(LoadLe<uint32_t>(section.data())),
        lengths(section.data() + 4),
        steps(lengths + size_t{4} * tensors),
        rice(steps + size_t{4} * tensors),
        code(section.subspan(4 + kBytesPerTensor * tensors)) {}

  uint32_t length(uint32_t t) const {
    return LoadLe<uint32_t>(lengths + size_t{4} * t);
  }
  float step(uint32_t t) const { return LoadLe<float>(steps + size_t{4} * t); }

  uint32_t tensors;
  const uint8_t* lengths;
  const uint8_t* steps;
  const uint8_t* rice;
  ByteView code;
};

// False if the bits end early.
bool ReadZ(BitReader& bits, uint32_t p, uint64_t& z) {
  uint64_t quotient = 0;
  while (bits.Get(1) == 1) ++quotient;
  z = quotient << p | bits.Get(static_cast<int>(p));
  return !bits.overrun();
}

}  // namespace

void AppendDeltas(uint64_t dither_seed, std::span<const uint32_t> tensors,
                  std::span<const float> reference,
                  std::span<const float> values, Bytes& out) {
  FEDMRN_CHECK(reference.size() == values.size());
  Dither dither(dither_seed);
  std::vector<float> steps;
  Bytes rice;
  std::vector<uint64_t> zs;
  size_t first = 0, first_z = 0;
  for (const uint32_t length : tensors) {
    FEDMRN_CHECK(length <= values.size() - first);
    double squares = 0;
    bool positive = true;
    for (size_t i = first; i < first + length; ++i) {
      const double delta = double{values[i]} - double{reference[i]};
      squares += delta * delta;
      positive = positive && values[i] > 0 && reference[i] > 0;
    }
    const double rms = length == 0 ? 0 : std::sqrt(squares / length);
    const float step =
        std::min(kMaxStep, static_cast<float>(rms / kStepsPerRms));
    for (size_t i = first; i < first + length; ++i) {
      const double d = dither.Next();
      const double delta = double{values[i]} - double{reference[i]};
      auto q =
          step == 0
              ? int64_t{0}
              : static_cast<int64_t>(std::nearbyint(delta / double{step} + d));
      // The value is above 0 and the error at most half a step.
      while (positive && !(Value(reference[i], q, d, step) > 0)) ++q;
      zs.push_back(ZigZag(q));
    }
    steps.push_back(step);
    rice.push_back(
        static_cast<uint8_t>(BestRice(std::span(zs).subspan(first_z))));
    first += length;
    first_z = zs.size();
  }
  FEDMRN_CHECK(first == values.size());

  AppendLe(static_cast<uint32_t>(tensors.size()), out);
  AppendLe(tensors, out);
  AppendLe(std::span<const float>(steps), out);
  out.insert(out.end(), rice.begin(), rice.end());
  BitWriter bits(out);
  size_t at = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (size_t i = 0; i < tensors[t]; ++i) {
      const uint64_t z = zs[at++];
      for (uint64_t ones = z >> rice[t]; ones > 0; --ones) bits.Put(1, 1);
      bits.Put(0, 1);
      bits.Put(static_cast<uint32_t>(z & ((uint64_t{1} << rice[t]) - 1)),
               rice[t]);
    }
  }
}

Status CheckDeltas(ByteView section, uint64_t count) {
  if (section.size() < 4) {
    return At(section.size(), ErrorCode::kTruncated,
              "the plain section ends before its tensor count");
  }
  const auto tensors = LoadLe<uint32_t>(section.data());
  if (tensors > (section.size() - 4) / kBytesPerTensor) {
    return At(
        0, ErrorCode::kBadFormat,
        std::to_string(tensors) + " tensors do not fit the plain section");
  }
  const Parts parts(section);
  const auto offset = [&](const uint8_t* part) {
    return static_cast<size_t>(part - section.data());
  };
  uint64_t sum = 0;
  for (uint32_t t = 0; t < tensors; ++t) {
    sum += parts.length(t);
    const float step = parts.step(t);
    if (!(step >= 0 && step <= kMaxStep) || std::signbit(step)) {
      return At(offset(parts.steps) + size_t{4} * t, ErrorCode::kBadValue,
                "step " + std::to_string(t) + " is not 0 to 2^40");
    }
    if (parts.rice[t] > kMaxRice) {
      return At(
          offset(parts.rice) + t, ErrorCode::kBadValue,
          "Rice parameter " + std::to_string(parts.rice[t]) + " exceeds 24");
    }
  }
  if (sum != count) {
    return At(4, ErrorCode::kBadFormat,
              "the plain tensors sum to " + std::to_string(sum) +
                  " instead of " + std::to_string(count));
  }
  BitReader bits(parts.code);
  for (uint32_t t = 0; t < tensors; ++t) {
    for (uint32_t i = 0; i < parts.length(t); ++i) {
      uint64_t z;
      if (!ReadZ(bits, parts.rice[t], z)) {
        return At(section.size(), ErrorCode::kTruncated,
                  "the plain section ends within tensor " + std::to_string(t));
      }
    }
  }
  if (BytesForBits(bits.position()) != parts.code.size() ||
      !PaddingIsZero(parts.code, bits.position())) {
    return At(offset(parts.code.data()), ErrorCode::kBadFormat,
              "the plain section's integers do not end where it does");
  }
  return Ok();
}

void ReadDeltas(uint64_t dither_seed, ByteView section,
                std::span<const float> reference, std::span<float> values) {
  FEDMRN_CHECK(reference.empty() || reference.size() == values.size());
  const Parts parts(section);
  Dither dither(dither_seed);
  BitReader bits(parts.code);
  size_t j = 0;
  for (uint32_t t = 0; t < parts.tensors; ++t) {
    for (uint32_t i = 0; i < parts.length(t); ++i, ++j) {
      const double d = dither.Next();
      const float from = reference.empty() ? 0.0f : reference[j];
      uint64_t z = 0;
      FEDMRN_CHECK(ReadZ(bits, parts.rice[t], z));
      values[j] = Value(from, UnZigZag(z), d, parts.step(t));
    }
  }
}

}  // namespace fedmrn
