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

// One vector of blocks on its way through the rounds. Words sit in the low
// halves of 64-bit lanes; the high halves hold garbage, which MulEven ignores.
template <class D64>
struct PhiloxChain {
  hn::Vec<D64> x0, x1, x2, x3;
};

// Low half times low half, in each 64-bit lane.
template <class D64>
HWY_INLINE hn::Vec<D64> MulLow(D64 /*d*/, hn::Vec<D64> a, hn::Vec<D64> b) {
  const hn::RepartitionToNarrow<D64> d32;
  return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b));
}

// Rounds 1 to 3. `product0` is M0 * block: the next one is an addition away.
template <class D64>
HWY_INLINE PhiloxChain<D64> FirstThreeRounds(const PhiloxSchedule& s,
                                             hn::Vec<D64>& product0) {
  const D64 d;
  const auto m0 = hn::Set(d, PhiloxSchedule::kM0);
  const auto m1 = hn::Set(d, PhiloxSchedule::kM1);
  const auto p = product0;
  product0 = hn::Add(product0,
                     hn::Set(d, uint64_t{PhiloxSchedule::kM0} * hn::Lanes(d)));
  const auto q =
      MulLow(d, m1, hn::Xor(hn::ShiftRight<32>(p), hn::Set(d, s.round1_x2)));
  const auto p0 =
      MulLow(d, m0, hn::Xor(hn::ShiftRight<32>(q), hn::Set(d, s.round2_x0)));
  const auto p1 = MulLow(d, m1, hn::Xor(p, hn::Set(d, s.round2_x2)));
  return {hn::Xor(hn::ShiftRight<32>(p1), hn::Xor(q, hn::Set(d, s.key0[2]))),
          p1, hn::Xor(hn::ShiftRight<32>(p0), hn::Set(d, s.round3_x2)), p0};
}

template <class D64>
HWY_INLINE void OneRound(hn::Vec<D64> m0, hn::Vec<D64> m1, hn::Vec<D64> k0,
                         hn::Vec<D64> k1, PhiloxChain<D64>& c) {
  const D64 d;
  const auto p0 = MulLow(d, m0, c.x0);
  const auto p1 = MulLow(d, m1, c.x2);
  // The key goes to the word that has waited, off the critical path.
  c.x0 = hn::Xor(hn::ShiftRight<32>(p1), hn::Xor(c.x1, k0));
  c.x2 = hn::Xor(hn::ShiftRight<32>(p0), hn::Xor(c.x3, k1));
  c.x1 = p1;
  c.x3 = p0;
}

// The remaining rounds. Several chains side by side hide the multiplier's
// latency; they are named one by one, not an array, because g++ keeps an array
// of vectors in memory.
template <size_t kRounds, class D64, class... Chains>
HWY_INLINE void OtherRounds(const PhiloxSchedule& s, Chains&... chains) {
  const D64 d;
  const auto m0 = hn::Set(d, PhiloxSchedule::kM0);
  const auto m1 = hn::Set(d, PhiloxSchedule::kM1);
  HWY_UNROLL(7) for (size_t round = 3; round < kRounds; ++round) {
    const auto k0 = hn::Set(d, s.key0[round]);
    const auto k1 = hn::Set(d, s.key1[round]);
    (OneRound<D64>(m0, m1, k0, k1, chains), ...);
  }
}

// The low halves of two vectors as one.
template <class D64>
HWY_INLINE hn::Vec<D64> JoinWords(D64 d, hn::Vec<D64> low, hn::Vec<D64> up) {
  const hn::RepartitionToNarrow<D64> d32;
  return hn::BitCast(d, hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(up)),
                                    hn::BitCast(d32, low)));
}

// Writes a chain's blocks, four words each, and returns where they end.
template <class D64>
HWY_INLINE uint32_t* StoreChain(const PhiloxChain<D64>& c, uint32_t* out) {
  const D64 d;
  hn::StoreInterleaved2(JoinWords(d, c.x0, c.x1), JoinWords(d, c.x2, c.x3), d,
                        reinterpret_cast<uint64_t*>(out));
  return out + 4 * hn::Lanes(d);
}

// Blocks one after another, a step at a time. kRounds is RoundsFor the stream's
// purpose.
template <size_t kRounds>
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

  // Writes the next StepBlocks() blocks. Long enough to be called: inlined
  // everywhere it costs minutes of compilation and gains nothing.
  HWY_NOINLINE void Step(uint32_t* HWY_RESTRICT out) {
    static_assert(kChains == 4);
    const D64 d;
    auto product0 = hn::Load(d, product0_);
    auto c0 = FirstThreeRounds<D64>(schedule_, product0);
    auto c1 = FirstThreeRounds<D64>(schedule_, product0);
    auto c2 = FirstThreeRounds<D64>(schedule_, product0);
    auto c3 = FirstThreeRounds<D64>(schedule_, product0);
    hn::Store(product0, d, product0_);
    OtherRounds<kRounds, D64>(schedule_, c0, c1, c2, c3);
    StoreChain(c3, StoreChain(c2, StoreChain(c1, StoreChain(c0, out))));
  }
  // Writes the next Lanes(D64) blocks.
  HWY_INLINE void ShortStep(uint32_t* HWY_RESTRICT out) {
    const D64 d;
    auto product0 = hn::Load(d, product0_);
    auto chain = FirstThreeRounds<D64>(schedule_, product0);
    hn::Store(product0, d, product0_);
    OtherRounds<kRounds, D64>(schedule_, chain);
    StoreChain(chain, out);
  }

 private:
  PhiloxSchedule schedule_;
  // Counter word 0 times M0: round 1's product, one per lane.
  alignas(64) uint64_t product0_[kPhiloxBlockGranule];
};

// Writes `blocks` blocks, rounded up to a multiple of kPhiloxBlockGranule, of
// 4 words each. `out` is 8-byte aligned. first_block is a multiple of the
// granule, and the range does not cross a multiple of 2^32.
template <size_t kRounds = 10>
HWY_INLINE void PhiloxBlocks(const PhiloxStream& stream, uint64_t first_block,
                             size_t blocks, uint32_t* HWY_RESTRICT out) {
  using Cursor = PhiloxCursor<kRounds>;
  const size_t end = (blocks + kPhiloxBlockGranule - 1) / kPhiloxBlockGranule *
                     kPhiloxBlockGranule;
  const size_t step = Cursor::StepBlocks();
  Cursor cursor(stream, first_block);
  size_t b = 0;
  for (; b + step <= end; b += step) cursor.Step(out + 4 * b);
  for (; b < end; b += step / Cursor::kChains) cursor.ShortStep(out + 4 * b);
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
