#include "fedmrn/core/pack.h"

#include <algorithm>
#include <cmath>

#include "fedmrn/base/check.h"
#include "fedmrn/core/draws.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/core/pack.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fedmrn {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
// Highway's one-lane fallback lacks most operations: use the definition.
using ref::CountBits;
using ref::PackAbove;
using ref::PackCentred;
using ref::PackFarther;
using ref::PackUniform;
using ref::PackUniformFarther;
using ref::SelectByBits;
using ref::SelectTrits;
#else

// A byte of bits is half a vector, one or two.
using D = hn::CappedTag<float, 16>;
constexpr size_t kStepBits = 16;

// The bits of compare(i), a mask for the floats from i on, for as many whole
// steps as `count` bits have. Returns where these end.
template <class Compare>
HWY_INLINE size_t PackSteps(size_t count, Compare compare, uint8_t* bits) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + kStepBits <= count; i += kStepBits) {
    unsigned packed = 0;
    for (size_t part = 0; part < kStepBits; part += lanes) {
      uint8_t set[8] = {};
      hn::StoreMaskBits(d, compare(i + part), set);
      packed |= unsigned{LoadLe<uint16_t>(set)} << part;
    }
    StoreLe(static_cast<uint16_t>(packed), bits + i / 8);
  }
  return i;
}

void PackAbove(std::span<const float> x, float threshold, uint8_t* bits) {
  const auto limit = hn::Set(D(), threshold);
  const size_t done = PackSteps(
      x.size(),
      [&](size_t i)
          HWY_ATTR { return hn::Gt(hn::LoadU(D(), x.data() + i), limit); },
      bits);
  ref::PackAbove(x.subspan(done), threshold, bits + done / 8);
}

void PackFarther(std::span<const float> x, float threshold, uint8_t* bits) {
  const auto limit = hn::Set(D(), threshold);
  const size_t done = PackSteps(
      x.size(),
      [&](size_t i) HWY_ATTR {
        return hn::Gt(hn::Abs(hn::LoadU(D(), x.data() + i)), limit);
      },
      bits);
  ref::PackFarther(x.subspan(done), threshold, bits + done / 8);
}

// UniformFromWord of a vector of words, times scales.
HWY_INLINE hn::Vec<D> ScaledUniform(const uint32_t* words,
                                    const float* scales) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto k = hn::ShiftRight<10>(hn::LoadU(du, words));
  const auto odd = hn::BitCast(di, hn::Or(hn::Add(k, k), hn::Set(du, 1)));
  return hn::Mul(hn::Mul(hn::ConvertTo(d, odd), hn::Set(d, 0x1p-23f)),
                 hn::LoadU(d, scales));
}

void PackUniform(const uint32_t* words, const float* scales,
                 std::span<const float> x, uint8_t* bits) {
  const size_t done = PackSteps(
      x.size(),
      [&](size_t i) HWY_ATTR {
        return hn::Lt(ScaledUniform(words + i, scales + i),
                      hn::LoadU(D(), x.data() + i));
      },
      bits);
  ref::PackUniform(words + done, scales + done, x.subspan(done),
                   bits + done / 8);
}

void PackUniformFarther(const uint32_t* words, const float* scales,
                        std::span<const float> x, uint8_t* bits) {
  const size_t done = PackSteps(
      x.size(),
      [&](size_t i) HWY_ATTR {
        return hn::Lt(ScaledUniform(words + i, scales + i),
                      hn::Abs(hn::LoadU(D(), x.data() + i)));
      },
      bits);
  ref::PackUniformFarther(words + done, scales + done, x.subspan(done),
                          bits + done / 8);
}

void PackCentred(const uint32_t* words, const float* scales,
                 std::span<const float> x, uint8_t* bits) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> d16;
  const auto* halves = reinterpret_cast<const uint16_t*>(words);
  const size_t done = PackSteps(
      x.size(),
      [&](size_t i) HWY_ATTR {
        const auto k = hn::PromoteTo(di, hn::LoadU(d16, halves + i));
        const auto odd = hn::Or(hn::Add(k, k), hn::Set(di, 1));
        const auto centred =
            hn::Sub(hn::Mul(hn::ConvertTo(d, odd), hn::Set(d, 0x1p-16f)),
                    hn::Set(d, 1));
        return hn::Lt(hn::Mul(centred, hn::LoadU(d, scales + i)),
                      hn::LoadU(d, x.data() + i));
      },
      bits);
  static_assert(kStepBits % 2 == 0);
  ref::PackCentred(words + done / 2, scales + done, x.subspan(done),
                   bits + done / 8);
}

// The mask of the lanes that have a bit among the lower ones of `packed`.
HWY_INLINE hn::Mask<D> MaskOf(unsigned packed) {
  uint8_t set[8] = {};
  StoreLe(static_cast<uint16_t>(packed), set);
  return hn::LoadMaskBits(D(), set);
}

void SelectByBits(const uint8_t* bits, uint64_t first, float zero, float one,
                  std::span<float> out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const auto zeros = hn::Set(d, zero), ones = hn::Set(d, one);
  size_t i = std::min<size_t>((8 - first % 8) % 8, out.size());
  ref::SelectByBits(bits, first, zero, one, out.first(i));
  for (; i + kStepBits <= out.size(); i += kStepBits) {
    const unsigned packed = LoadLe<uint16_t>(bits + (first + i) / 8);
    for (size_t part = 0; part < kStepBits; part += lanes) {
      hn::StoreU(hn::IfThenElse(MaskOf(packed >> part), ones, zeros), d,
                 out.data() + i + part);
    }
  }
  ref::SelectByBits(bits, first + i, zero, one, out.subspan(i));
}

void SelectTrits(const uint8_t* kept, const uint8_t* positive, uint64_t first,
                 float scale, std::span<float> out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const auto plus = hn::Set(d, scale), minus = hn::Set(d, -scale);
  size_t i = std::min<size_t>((8 - first % 8) % 8, out.size());
  ref::SelectTrits(kept, positive, first, scale, out.first(i));
  for (; i + kStepBits <= out.size(); i += kStepBits) {
    const size_t byte = (first + i) / 8;
    const unsigned kept_bits = LoadLe<uint16_t>(kept + byte);
    const unsigned positive_bits = LoadLe<uint16_t>(positive + byte);
    for (size_t part = 0; part < kStepBits; part += lanes) {
      const auto value =
          hn::IfThenElse(MaskOf(positive_bits >> part), plus, minus);
      hn::StoreU(hn::IfThenElseZero(MaskOf(kept_bits >> part), value), d,
                 out.data() + i + part);
    }
  }
  ref::SelectTrits(kept, positive, first + i, scale, out.subspan(i));
}

uint64_t CountBits(const uint8_t* bits, uint64_t from, uint64_t to) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint8_t, decltype(d)> d8;
  const uint64_t lanes = hn::Lanes(d8), first = (from + 7) / 8, last = to / 8;
  if (first + lanes > last) return ref::CountBits(bits, from, to);
  auto sums = hn::Zero(d);
  uint64_t byte = first;
  for (; byte + lanes <= last; byte += lanes) {
    sums = hn::Add(
        sums, hn::PopulationCount(hn::BitCast(d, hn::LoadU(d8, bits + byte))));
  }
  return hn::GetLane(hn::SumOfLanes(d, sums)) +
         ref::CountBits(bits, from, 8 * first) +
         ref::CountBits(bits, 8 * byte, to);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn {

HWY_EXPORT(CountBits);
HWY_EXPORT(PackAbove);
HWY_EXPORT(PackFarther);
HWY_EXPORT(PackUniform);
HWY_EXPORT(PackUniformFarther);
HWY_EXPORT(PackCentred);
HWY_EXPORT(SelectByBits);
HWY_EXPORT(SelectTrits);

void PackAbove(std::span<const float> x, float threshold, uint8_t* bits) {
  HWY_DYNAMIC_DISPATCH(PackAbove)(x, threshold, bits);
}

void PackFarther(std::span<const float> x, float threshold, uint8_t* bits) {
  HWY_DYNAMIC_DISPATCH(PackFarther)(x, threshold, bits);
}

void PackUniform(const uint32_t* words, const float* scales,
                 std::span<const float> x, uint8_t* bits) {
  HWY_DYNAMIC_DISPATCH(PackUniform)(words, scales, x, bits);
}

void PackUniformFarther(const uint32_t* words, const float* scales,
                        std::span<const float> x, uint8_t* bits) {
  HWY_DYNAMIC_DISPATCH(PackUniformFarther)(words, scales, x, bits);
}

void PackCentred(const uint32_t* words, const float* scales,
                 std::span<const float> x, uint8_t* bits) {
  HWY_DYNAMIC_DISPATCH(PackCentred)(words, scales, x, bits);
}

void SelectByBits(const uint8_t* bits, uint64_t first, float zero, float one,
                  std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(SelectByBits)(bits, first, zero, one, out);
}

void SelectTrits(const uint8_t* kept, const uint8_t* positive, uint64_t first,
                 float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(SelectTrits)(kept, positive, first, scale, out);
}

uint64_t CountBits(const uint8_t* bits, uint64_t from, uint64_t to) {
  return HWY_DYNAMIC_DISPATCH(CountBits)(bits, from, to);
}

namespace ref {
namespace {

template <class Test>
void Pack(size_t count, Test test, uint8_t* bits) {
  std::fill_n(bits, BytesForBits(count), uint8_t{0});
  for (size_t i = 0; i < count; ++i) {
    if (test(i)) bits[i / 8] |= static_cast<uint8_t>(1u << i % 8);
  }
}

}  // namespace

void PackAbove(std::span<const float> x, float threshold, uint8_t* bits) {
  Pack(
      x.size(), [&](size_t i) { return x[i] > threshold; }, bits);
}

void PackFarther(std::span<const float> x, float threshold, uint8_t* bits) {
  Pack(
      x.size(), [&](size_t i) { return std::fabs(x[i]) > threshold; }, bits);
}

void PackUniform(const uint32_t* words, const float* scales,
                 std::span<const float> x, uint8_t* bits) {
  Pack(
      x.size(),
      [&](size_t i) { return UniformFromWord(words[i]) * scales[i] < x[i]; },
      bits);
}

void PackUniformFarther(const uint32_t* words, const float* scales,
                        std::span<const float> x, uint8_t* bits) {
  Pack(
      x.size(),
      [&](size_t i) {
        return UniformFromWord(words[i]) * scales[i] < std::fabs(x[i]);
      },
      bits);
}

void PackCentred(const uint32_t* words, const float* scales,
                 std::span<const float> x, uint8_t* bits) {
  Pack(
      x.size(),
      [&](size_t i) {
        const uint32_t half_word = words[i / 2] >> (i % 2 * 16) & 0xFFFF;
        return CentredFromHalfWord(half_word) * scales[i] < x[i];
      },
      bits);
}

void SelectByBits(const uint8_t* bits, uint64_t first, float zero, float one,
                  std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = TestBit(bits, first + i) ? one : zero;
  }
}

void SelectTrits(const uint8_t* kept, const uint8_t* positive, uint64_t first,
                 float scale, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = !TestBit(kept, first + i)      ? 0.0f
             : TestBit(positive, first + i) ? scale
                                            : -scale;
  }
}

uint64_t CountBits(const uint8_t* bits, uint64_t from, uint64_t to) {
  uint64_t ones = 0;
  for (; from < to; ++from) ones += TestBit(bits, from);
  return ones;
}

}  // namespace ref
}  // namespace fedmrn
#endif  // HWY_ONCE
