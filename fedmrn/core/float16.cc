#include "fedmrn/core/float16.h"

#include "fedmrn/base/bytes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/core/float16.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fedmrn {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
// Highway's one-lane fallback lacks most operations: use the definition.
using ref::Float16sFromFloats;
using ref::FloatsFromFloat16s;
#else

using D = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<D>;
using D16 = hn::Rebind<uint16_t, D>;

// Both are the definition's steps, lane by lane.

void Float16sFromFloats(std::span<const float> values, uint8_t* halves) {
  const D d;
  const DI di;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    const auto bits = hn::BitCast(di, hn::LoadU(d, values.data() + i));
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7FFFFFFF));
    const auto rebased = hn::Sub(magnitude, hn::Set(di, 0x38000000));
    const auto odd = hn::And(hn::ShiftRight<13>(rebased), hn::Set(di, 1));
    const auto normal =
        hn::ShiftRight<13>(hn::Add(rebased, hn::Add(hn::Set(di, 0xFFF), odd)));
    const auto steps =
        hn::Add(hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p24f)),
                hn::Set(d, 0x1p23f));
    const auto subnormal =
        hn::And(hn::BitCast(di, steps), hn::Set(di, 0x7FFFFF));
    auto half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x38800000)),
                               subnormal, normal);
    half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x477FF000)), half,
                          hn::Set(di, 0x7C00));
    half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7F800000)),
                          hn::Set(di, 0x7E00), half);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(di, 0x8000));
    hn::StoreU(hn::DemoteTo(D16(), hn::Or(sign, half)), D16(),
               reinterpret_cast<uint16_t*>(halves + 2 * i));
  }
  ref::Float16sFromFloats(values.subspan(i), halves + 2 * i);
}

void FloatsFromFloat16s(const uint8_t* halves, std::span<float> values) {
  const D d;
  const DI di;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    const auto half = hn::PromoteTo(
        di,
        hn::LoadU(D16(), reinterpret_cast<const uint16_t*>(halves + 2 * i)));
    const auto rest = hn::And(half, hn::Set(di, 0x7FFF));
    const auto shifted = hn::ShiftLeft<13>(rest);
    const auto subnormal =
        hn::BitCast(di, hn::Mul(hn::ConvertTo(d, rest), hn::Set(d, 0x1p-24f)));
    auto magnitude = hn::IfThenElse(hn::Lt(rest, hn::Set(di, 0x400)), subnormal,
                                    hn::Add(shifted, hn::Set(di, 0x38000000)));
    // Infinite or NaN.
    magnitude = hn::IfThenElse(hn::Lt(rest, hn::Set(di, 0x7C00)), magnitude,
                               hn::Or(shifted, hn::Set(di, 0x7F800000)));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(half, rest));
    hn::StoreU(hn::BitCast(d, hn::Or(sign, magnitude)), d, values.data() + i);
  }
  ref::FloatsFromFloat16s(halves + 2 * i, values.subspan(i));
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn {

HWY_EXPORT(Float16sFromFloats);
HWY_EXPORT(FloatsFromFloat16s);

void Float16sFromFloats(std::span<const float> values, uint8_t* halves) {
  HWY_DYNAMIC_DISPATCH(Float16sFromFloats)(values, halves);
}

void FloatsFromFloat16s(const uint8_t* halves, std::span<float> values) {
  HWY_DYNAMIC_DISPATCH(FloatsFromFloat16s)(halves, values);
}

namespace ref {

void Float16sFromFloats(std::span<const float> values, uint8_t* halves) {
  for (size_t i = 0; i < values.size(); ++i) {
    StoreLe(Float16FromFloat(values[i]), halves + 2 * i);
  }
}

void FloatsFromFloat16s(const uint8_t* halves, std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = FloatFromFloat16(LoadLe<uint16_t>(halves + 2 * i));
  }
}

}  // namespace ref
}  // namespace fedmrn
#endif  // HWY_ONCE
