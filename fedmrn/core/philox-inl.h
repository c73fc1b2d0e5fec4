// Vector Philox4x32-10, one block per 64-bit lane. Included once per SIMD
// target (Highway's -inl.h convention), hence the toggled guard.
#if defined(FEDMRN_CORE_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FEDMRN_CORE_PHILOX_INL_H_
#undef FEDMRN_CORE_PHILOX_INL_H_
#else
#define FEDMRN_CORE_PHILOX_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "fedmrn/core/philox.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fedmrn {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR  // which uses the plain definitions

// PhiloxBlocks may write up to this many blocks at once.
inline constexpr size_t kPhiloxBlockGranule = 8;

// The round keys, and the parts of the first three rounds that are the same
// for all blocks of a call: only counter word 0 differs between them.
struct PhiloxSchedule {
  static constexpr uint32_t kM0 = 0xD2511F53u, kM1 = 0xCD9E8D57u;
  static constexpr uint32_t kW0 = 0x9E3779B9u, kW1 = 0xBB67AE85u;

  PhiloxSchedule(const PhiloxStream& stream, uint32_t block_high) {
    uint32_t k0 = static_cast<uint32_t>(stream.seed);
    uint32_t k1 = static_cast<uint32_t>(stream.seed >> 32);
    for (int round = 0; round < 10; ++round, k0 += kW0, k1 += kW1) {
      key0[round] = k0;
      key1[round] = k1;
    }
    // Round 1 multiplies counter word 2, which is constant: x0 and x1 after it
    // are too; so is round 2's product of x0, and x3 after it.
    const uint64_t product1 = uint64_t{kM1} * stream.sub;
    const uint32_t x0 = static_cast<uint32_t>(product1 >> 32) ^ block_high ^
                        static_cast<uint32_t>(key0[0]);
    const uint64_t product2 = uint64_t{kM0} * x0;
    round1_x2 = static_cast<uint32_t>(stream.purpose) ^ key1[0];
    round2_x0 = static_cast<uint32_t>(product1) ^ key0[1];
    round2_x2 = (product2 >> 32) ^ key1[1];
    round3_x2 = static_cast<uint32_t>(product2) ^ key1[2];
  }

  uint64_t key0[10], key1[10];
  uint64_t round1_x2, round2_x0, round2_x2, round3_x2;
};

// kChains vectors of blocks side by side hide the multiplier's latency. Words
// sit in the low halves of 64-bit lanes; the high halves hold garbage, which
// MulEven ignores.
template <size_t kChains, class D64>
HWY_INLINE void PhiloxGroup(const PhiloxSchedule& s, hn::Vec<D64>& product0,
                            uint32_t* HWY_RESTRICT out) {
  const D64 d;
  const hn::RepartitionToNarrow<D64> d32;
  using V = hn::Vec<D64>;
  const size_t lanes = hn::Lanes(d);
  const V m0 = hn::Set(d, PhiloxSchedule::kM0);
  const V m1 = hn::Set(d, PhiloxSchedule::kM1);
  const V advance = hn::Set(d, uint64_t{PhiloxSchedule::kM0} * lanes);
  const auto mul = [&](V a, V b) HWY_ATTR {
    return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b));
  };
  const auto high = [&](V a) HWY_ATTR { return hn::ShiftRight<32>(a); };

  V x0[kChains], x1[kChains], x2[kChains], x3[kChains];
  HWY_UNROLL(8) for (size_t c = 0; c < kChains; ++c) {
    // Rounds 1 to 3. M0 * (block + lanes) is one addition away.
    const V p = product0;
    product0 = hn::Add(product0, advance);
    const V q = mul(m1, hn::Xor(high(p), hn::Set(d, s.round1_x2)));
    const V y0 = hn::Xor(high(q), hn::Set(d, s.round2_x0));
    const V y2 = hn::Xor(p, hn::Set(d, s.round2_x2));
    const V p0 = mul(m0, y0);
    const V p1 = mul(m1, y2);
    x0[c] = hn::Xor(high(p1), hn::Xor(q, hn::Set(d, s.key0[2])));
    x1[c] = p1;
    x2[c] = hn::Xor(high(p0), hn::Set(d, s.round3_x2));
    x3[c] = p0;
  }
  HWY_UNROLL(7) for (size_t round = 3; round < 10; ++round) {
    const V k0 = hn::Set(d, s.key0[round]);
    const V k1 = hn::Set(d, s.key1[round]);
    HWY_UNROLL(8) for (size_t c = 0; c < kChains; ++c) {
      const V p0 = mul(m0, x0[c]);
      const V p1 = mul(m1, x2[c]);
      // The key goes to the word that has waited, off the critical path.
      x0[c] = hn::Xor(high(p1), hn::Xor(x1[c], k0));
      x2[c] = hn::Xor(high(p0), hn::Xor(x3[c], k1));
      x1[c] = p1;
      x3[c] = p0;
    }
  }
  HWY_UNROLL(8) for (size_t c = 0; c < kChains; ++c) {
    const auto pair = [&](V low, V up) HWY_ATTR {
      return hn::BitCast(d, hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(up)),
                                        hn::BitCast(d32, low)));
    };
    hn::StoreInterleaved2(pair(x0[c], x1[c]), pair(x2[c], x3[c]), d,
                          reinterpret_cast<uint64_t*>(out) + 2 * lanes * c);
  }
}

// Blocks one after another, a step at a time.
class PhiloxCursor {
 public:
  static constexpr size_t kChains = 4;
  using D64 = hn::CappedTag<uint64_t, kPhiloxBlockGranule>;
  static constexpr size_t kMaxStepBlocks = kChains * kPhiloxBlockGranule;

  // As for PhiloxBlocks.
  PhiloxCursor(const PhiloxStream& stream, uint64_t first_block)
      : schedule_(stream, static_cast<uint32_t>(first_block >> 32)) {
    const D64 d;
    const hn::RepartitionToNarrow<D64> d32;
    const auto first = hn::Iota(d, first_block & 0xFFFFFFFFu);
    const auto m0 = hn::Set(d, uint64_t{PhiloxSchedule::kM0});
    hn::Store(hn::MulEven(hn::BitCast(d32, first), hn::BitCast(d32, m0)), d,
              product0_);
  }

  static size_t StepBlocks() { return kChains * hn::Lanes(D64()); }

  // Writes the next StepBlocks() blocks.
  HWY_INLINE void Step(uint32_t* HWY_RESTRICT out) { Group<kChains>(out); }
  // Writes the next Lanes(D64) blocks.
  HWY_INLINE void ShortStep(uint32_t* HWY_RESTRICT out) { Group<1>(out); }

 private:
  template <size_t kCount>
  HWY_INLINE void Group(uint32_t* HWY_RESTRICT out) {
    const D64 d;
    auto product0 = hn::Load(d, product0_);
    PhiloxGroup<kCount, D64>(schedule_, product0, out);
    hn::Store(product0, d, product0_);
  }

  PhiloxSchedule schedule_;
  // Counter word 0 times M0: round 1's product, one per lane.
  alignas(64) uint64_t product0_[kPhiloxBlockGranule];
};

// Writes `blocks` blocks, rounded up to a multiple of kPhiloxBlockGranule, of
// 4 words each. `out` is 8-byte aligned. first_block is a multiple of the
// granule, and the range does not cross a multiple of 2^32.
HWY_INLINE void PhiloxBlocks(const PhiloxStream& stream, uint64_t first_block,
                             size_t blocks, uint32_t* HWY_RESTRICT out) {
  const size_t end = (blocks + kPhiloxBlockGranule - 1) / kPhiloxBlockGranule *
                     kPhiloxBlockGranule;
  const size_t step = PhiloxCursor::StepBlocks();
  PhiloxCursor cursor(stream, first_block);
  size_t b = 0;
  for (; b + step <= end; b += step) cursor.Step(out + 4 * b);
  for (; b < end; b += step / PhiloxCursor::kChains) {
    cursor.ShortStep(out + 4 * b);
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
