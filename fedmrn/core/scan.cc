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

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn {

HWY_EXPORT(LargestMagnitude);

uint32_t LargestMagnitude(const uint8_t* values, uint64_t count) {
  return HWY_DYNAMIC_DISPATCH(LargestMagnitude)(values, count);
}

namespace ref {

uint32_t LargestMagnitude(const uint8_t* values, uint64_t count) {
  uint32_t largest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    largest = std::max(largest, LoadLe<uint32_t>(values + 4 * i) & 0x7FFFFFFF);
  }
  return largest;
}

}  // namespace ref
}  // namespace fedmrn
#endif  // HWY_ONCE
