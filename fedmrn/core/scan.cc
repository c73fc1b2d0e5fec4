#include "fedmrn/core/scan.h"

#include <algorithm>

#include "fedmrn/base/bytes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/core/scan.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

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

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn {

HWY_EXPORT(LargestMagnitude);
HWY_EXPORT(MagnitudesBetween);

uint32_t LargestMagnitude(const uint8_t* values, uint64_t count) {
  return HWY_DYNAMIC_DISPATCH(LargestMagnitude)(values, count);
}

size_t MagnitudesBetween(std::span<const float> values, uint32_t low,
                         uint32_t high, uint32_t* between, size_t& above) {
  return HWY_DYNAMIC_DISPATCH(MagnitudesBetween)(values, low, high, between,
                                                 above);
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

}  // namespace ref
}  // namespace fedmrn
#endif  // HWY_ONCE
