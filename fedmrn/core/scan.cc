#include "fedmrn/core/scan.h"

#include <algorithm>

#include "fedmrn/base/bytes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/core/scan.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

// Shared by all targets.
#ifndef FEDMRN_CORE_SCAN_CC_SHARED_
#define FEDMRN_CORE_SCAN_CC_SHARED_
namespace fedmrn {

inline constexpr size_t kSumLanes = 8;

inline double SumOfLanes(const double* lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

template <class Term>
void AddTerms(std::span<const float> values, Term term, double* lanes) {
  for (size_t i = 0; i < values.size(); ++i) {
    lanes[i % kSumLanes] += term(double{values[i]});
  }
}

}  // namespace fedmrn
#endif

HWY_BEFORE_NAMESPACE();
namespace fedmrn {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

uint32_t LargestMagnitude(const uint8_t* values, uint64_t count) {
  const hn::ScalableTag<int32_t> d;  // without its sign bit never negative
  const size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(d, 0x7FFFFFFF);
  auto largest = hn::Zero(d), largest2 = largest;
  uint64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto* at = reinterpret_cast<const int32_t*>(values + 4 * i);
    largest = hn::Max(largest, hn::And(hn::LoadU(d, at), magnitude));
    largest2 = hn::Max(largest2, hn::And(hn::LoadU(d, at + lanes), magnitude));
  }
  const int32_t most =
      hn::GetLane(hn::MaxOfLanes(d, hn::Max(largest, largest2)));
  return std::max(static_cast<uint32_t>(most),
                  ref::LargestMagnitude(values + 4 * i, count - i));
}

size_t MagnitudesBetween(std::span<const float> values, uint32_t low,
                         uint32_t high, uint32_t* between, size_t& above) {
  const hn::CappedTag<int32_t, 16> d;
  const size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(d, 0x7FFFFFFF);
  const auto from = hn::Set(d, static_cast<int32_t>(low)),
             to = hn::Set(d, static_cast<int32_t>(high));
  auto* out = reinterpret_cast<int32_t*>(between);
  // Minus the number of those above, in each lane; flushed before it overflows.
  auto minus_above = hn::Zero(d);
  const auto flush = [&]() HWY_ATTR {
    above += static_cast<size_t>(-hn::GetLane(hn::SumOfLanes(d, minus_above)));
    minus_above = hn::Zero(d);
  };
  constexpr size_t kFlushEach = size_t{1} << 20;
  size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    const auto* at = reinterpret_cast<const int32_t*>(values.data() + i);
    const auto m = hn::And(hn::LoadU(d, at), magnitude);
    const auto below = hn::Lt(m, to);
    const auto few = hn::AndNot(hn::Lt(m, from), below);
    minus_above = hn::Add(minus_above, hn::VecFromMask(d, hn::Not(below)));
    if (!hn::AllFalse(d, few)) out += hn::CompressStore(m, few, d, out);
    if (i % kFlushEach == 0) flush();
  }
  flush();
  out += ref::MagnitudesBetween(values.subspan(i), low, high,
                                reinterpret_cast<uint32_t*>(out), above);
  return static_cast<size_t>(out - reinterpret_cast<int32_t*>(between));
}

#if HWY_TARGET == HWY_SCALAR
// Highway's one-lane fallback lacks some operations: use the definition.
using ref::LaneSum;
using ref::LaneSumOfMagnitudes;
using ref::LaneSumOfSquares;
#else

using D64 = hn::CappedTag<double, kSumLanes>;
using V64 = hn::Vec<D64>;

// The sum of terms, `term` for vectors and `plain_term` for what is left.
template <class Term, class PlainTerm>
HWY_INLINE double SumTerms(std::span<const float> values, Term term,
                           PlainTerm plain_term) {
  const D64 d;
  const hn::Rebind<float, D64> df;
  const size_t lanes = hn::Lanes(d);
  const auto terms = [&](size_t i) HWY_ATTR {
    return term(hn::PromoteTo(d, hn::LoadU(df, values.data() + i)));
  };
  // Named one by one, not an array, because g++ keeps an array of vectors in
  // memory.
  V64 s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  size_t i = 0;
  for (; i + kSumLanes <= values.size(); i += kSumLanes) {
    s0 = hn::Add(s0, terms(i));
    if (lanes <= 4) s1 = hn::Add(s1, terms(i + lanes));
    if (lanes <= 2) {
      s2 = hn::Add(s2, terms(i + 2 * lanes));
      s3 = hn::Add(s3, terms(i + 3 * lanes));
    }
  }
  alignas(64) double sums[kSumLanes];
  hn::StoreU(s0, d, sums);
  if (lanes <= 4) hn::StoreU(s1, d, sums + lanes);
  if (lanes <= 2) {
    hn::StoreU(s2, d, sums + 2 * lanes);
    hn::StoreU(s3, d, sums + 3 * lanes);
  }
  AddTerms(values.subspan(i), plain_term, sums);
  return SumOfLanes(sums);
}

double LaneSum(std::span<const float> values) {
  return SumTerms(
      values, [](V64 x) HWY_ATTR { return x; }, [](double x) { return x; });
}

double LaneSumOfMagnitudes(std::span<const float> values) {
  return SumTerms(
      values, [](V64 x) HWY_ATTR { return hn::Abs(x); },
      [](double x) { return std::fabs(x); });
}

double LaneSumOfSquares(std::span<const float> values, double centre) {
  const V64 middle = hn::Set(D64(), centre);
  return SumTerms(
      values,
      [&](V64 x) HWY_ATTR {
        const V64 off = hn::Sub(x, middle);
        return hn::Mul(off, off);
      },
      [&](double x) { return (x - centre) * (x - centre); });
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn {

HWY_EXPORT(LargestMagnitude);
HWY_EXPORT(MagnitudesBetween);
HWY_EXPORT(LaneSum);
HWY_EXPORT(LaneSumOfMagnitudes);
HWY_EXPORT(LaneSumOfSquares);

uint32_t LargestMagnitude(const uint8_t* values, uint64_t count) {
  return HWY_DYNAMIC_DISPATCH(LargestMagnitude)(values, count);
}

size_t MagnitudesBetween(std::span<const float> values, uint32_t low,
                         uint32_t high, uint32_t* between, size_t& above) {
  return HWY_DYNAMIC_DISPATCH(MagnitudesBetween)(values, low, high, between,
                                                 above);
}

double LaneSum(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(LaneSum)(values);
}

double LaneSumOfMagnitudes(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(LaneSumOfMagnitudes)(values);
}

double LaneSumOfSquares(std::span<const float> values, double centre) {
  return HWY_DYNAMIC_DISPATCH(LaneSumOfSquares)(values, centre);
}

namespace ref {

uint32_t LargestMagnitude(const uint8_t* values, uint64_t count) {
  uint32_t largest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    largest = std::max(largest, LoadLe<uint32_t>(values + 4 * i) & 0x7FFFFFFF);
  }
  return largest;
}

size_t MagnitudesBetween(std::span<const float> values, uint32_t low,
                         uint32_t high, uint32_t* between, size_t& above) {
  size_t count = 0;
  for (const float value : values) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7FFFFFFF;
    if (magnitude >= high) {
      ++above;
    } else if (magnitude >= low) {
      between[count++] = magnitude;
    }
  }
  return count;
}

double LaneSum(std::span<const float> values) {
  double lanes[kSumLanes] = {};
  AddTerms(
      values, [](double x) { return x; }, lanes);
  return SumOfLanes(lanes);
}

double LaneSumOfMagnitudes(std::span<const float> values) {
  double lanes[kSumLanes] = {};
  AddTerms(
      values, [](double x) { return std::fabs(x); }, lanes);
  return SumOfLanes(lanes);
}

double LaneSumOfSquares(std::span<const float> values, double centre) {
  double lanes[kSumLanes] = {};
  AddTerms(
      values, [&](double x) { return (x - centre) * (x - centre); }, lanes);
  return SumOfLanes(lanes);
}

}  // namespace ref
}  // namespace fedmrn
#endif  // HWY_ONCE
