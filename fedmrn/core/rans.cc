#include "fedmrn/core/rans.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "fedmrn/base/check.h"
#include "fedmrn/core/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/core/rans.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

// Shared by all targets.
#ifndef FEDMRN_CORE_RANS_CC_SHARED_
#define FEDMRN_CORE_RANS_CC_SHARED_
namespace fedmrn {

// States in the longest vector.
inline constexpr size_t kRansVector = 8;

// For each set of lanes: bytes that a vector's shuffle takes words by, of which
// kNoWord takes none.
using ShuffleTable = std::array<std::array<uint8_t, 2 * kRansVector>, 256>;
inline constexpr uint8_t kNoWord = 0x80;

struct Word {
  size_t from, to;
};
constexpr void Take(Word word, std::array<uint8_t, 2 * kRansVector>& shuffle) {
  for (size_t byte = 0; byte < 2; ++byte) {
    shuffle[2 * word.to + byte] = static_cast<uint8_t>(2 * word.from + byte);
  }
}

// Each lane of the set takes the next word, others none.
inline constexpr ShuffleTable kNextWords = [] {
  ShuffleTable table{};
  for (size_t set = 0; set < table.size(); ++set) {
    table[set].fill(kNoWord);
    size_t next = 0;
    for (size_t lane = 0; lane < kRansVector; ++lane) {
      if ((set >> lane & 1) != 0) Take({next++, lane}, table[set]);
    }
  }
  return table;
}();

// The words of the set's lanes, of `lanes` lanes, as the last ones of a vector.
constexpr ShuffleTable WordsLast(size_t lanes) {
  ShuffleTable table{};
  for (size_t set = 0; set < size_t{1} << lanes; ++set) {
    table[set].fill(kNoWord);
    size_t at = lanes;
    for (size_t lane = lanes; lane-- > 0;) {
      if ((set >> lane & 1) != 0) Take({lane, --at}, table[set]);
    }
  }
  return table;
}
inline constexpr ShuffleTable kWordsLast4 = WordsLast(4),
                              kWordsLast8 = WordsLast(8);

}  // namespace fedmrn
#endif

HWY_BEFORE_NAMESPACE();
namespace fedmrn {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
// Highway's one-lane fallback lacks most operations: use the definition.
using ref::RansDecodeSteps;
using ref::RansEncodeSteps;
#else

// States and all that is done with them stay below 2^31: signed numbers will
// do, for which every target has comparisons and conversions.
using D = hn::CappedTag<int32_t, kRansVector>;
using V = hn::Vec<D>;
using D16 = hn::Rebind<uint16_t, D>;

template <class M>
HWY_INLINE uint8_t SetOf(M mask) {
  uint8_t set[8] = {};
  hn::StoreMaskBits(D(), mask, set);
#if defined(__SANITIZE_THREAD__)
  // With the thread sanitizer g++ 12 keeps the byte in a mask register of
  // AVX-512 and takes bits above it for its own. Reading all eight bytes takes
  // it through memory.
  return static_cast<uint8_t>(LoadLe<uint64_t>(set));
#else
  return set[0];
#endif
}

HWY_INLINE hn::Vec<D16> Shuffle(hn::Vec<D16> words, const ShuffleTable& table,
                                uint8_t set) {
  const hn::Repartition<uint8_t, D16> d8;
  return hn::BitCast(D16(),
                     hn::TableLookupBytesOr0(hn::BitCast(d8, words),
                                             hn::LoadU(d8, table[set].data())));
}

HWY_INLINE V LoadOnes(const RansOnes* ones) {
  return hn::PromoteTo(D(), hn::LoadU(D16(), ones));
}

// Decodes a vector of bits and returns them. A state waits for the one before
// it, and little else is to be done meanwhile: what counts is the longest chain
// of operations, not their number.
HWY_INLINE uint32_t DecodeVector(const RansOnes* ones, const uint8_t*& words,
                                 V& x) {
  const D d;
  const V share_of_ones = LoadOnes(ones);
  const V slot = hn::And(x, hn::Set(d, kRansScale - 1));
  const auto bit = hn::Lt(slot, share_of_ones);
  // (4096 - ones) * (x div 4096) + slot - ones is x without its ones.
  const V of_ones = hn::Mul(share_of_ones, hn::ShiftRight<12>(x));
  x = hn::IfThenElse(bit, hn::Add(of_ones, slot),
                     hn::Sub(hn::Sub(x, share_of_ones), of_ones));
  const auto low = hn::Lt(x, hn::Set(d, kRansLow));
  const uint8_t low_set = SetOf(low);
  const auto next =
      Shuffle(hn::LoadU(D16(), reinterpret_cast<const uint16_t*>(words)),
              kNextWords, low_set);
  x = hn::Or(hn::IfThenElse(low, hn::ShiftLeft<16>(x), x),
             hn::PromoteTo(d, next));
  words += 2 * std::popcount(low_set);
  return SetOf(bit);
}

size_t RansDecodeSteps(std::span<uint32_t, kRansStates> states,
                       std::span<const RansOnes> ones, const uint8_t* words,
                       uint8_t* bits) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  int32_t* const state = reinterpret_cast<int32_t*>(states.data());
  const uint8_t* from = words;
  const RansOnes* const end = ones.data() + ones.size();
  if (lanes == kRansVector) {
    // Named one by one, not an array, because g++ keeps an array of vectors in
    // memory.
    static_assert(kRansStates == 4 * kRansVector);
    V x0 = hn::LoadU(d, state), x1 = hn::LoadU(d, state + 8),
      x2 = hn::LoadU(d, state + 16), x3 = hn::LoadU(d, state + 24);
    for (const RansOnes* o = ones.data(); o < end; o += kRansStates) {
      uint32_t packed = DecodeVector(o, from, x0);
      packed |= DecodeVector(o + 8, from, x1) << 8;
      packed |= DecodeVector(o + 16, from, x2) << 16;
      packed |= DecodeVector(o + 24, from, x3) << 24;
      StoreLe(packed, bits);
      bits += 4;
    }
    hn::StoreU(x0, d, state);
    hn::StoreU(x1, d, state + 8);
    hn::StoreU(x2, d, state + 16);
    hn::StoreU(x3, d, state + 24);
  } else {
    for (const RansOnes* o = ones.data(); o < end; o += kRansStates) {
      uint32_t packed = 0;
      for (size_t first = 0; first < kRansStates; first += lanes) {
        V x = hn::LoadU(d, state + first);
        packed |= DecodeVector(o + first, from, x) << first;
        hn::StoreU(x, d, state + first);
      }
      StoreLe(packed, bits);
      bits += 4;
    }
  }
  return static_cast<size_t>(from - words) / 2;
}

// States in a vector of the encoder, which is short of operations per cycle as
// much as of time: AVX-512 has 16.
using DE = hn::CappedTag<int32_t, 2 * kRansVector>;
using VE = hn::Vec<DE>;

// The lower half words of those lanes of x that are in the set, in front of
// `words`, which moves there.
HWY_INLINE void PutWords(hn::Vec<D16> lower, uint8_t set, uint8_t*& words) {
  const size_t lanes = hn::Lanes(D16());
  hn::StoreU(
      Shuffle(lower, lanes == kRansVector ? kWordsLast8 : kWordsLast4, set),
      D16(), reinterpret_cast<uint16_t*>(words - 2 * lanes));
  words -= 2 * std::popcount(set);
}
// A template, so that one vector is halved only where there are such.
template <class DI>
HWY_INLINE void PutWordsOf(DI d, hn::Vec<DI> x, hn::Mask<DI> full,
                           uint8_t*& words) {
  const auto lower =
      hn::DemoteTo(hn::Rebind<uint16_t, DI>(), hn::And(x, hn::Set(d, 0xFFFF)));
  if constexpr (hn::MaxLanes(DI()) > kRansVector) {
    uint8_t set[8] = {};
    hn::StoreMaskBits(d, full, set);
    PutWords(hn::UpperHalf(D16(), lower), set[1], words);
    PutWords(hn::LowerHalf(D16(), lower), set[0], words);
  } else {
    PutWords(lower, SetOf(full), words);
  }
}

// Codes a vector of bits. As in decoding, what counts is the longest chain of
// operations from a state to the next; whatever depends on bits and
// probabilities alone is beside it.
HWY_INLINE void EncodeVector(const RansOnes* ones, const uint8_t* bits,
                             uint8_t*& words, VE& x) {
  const DE d;
  const hn::RebindToFloat<DE> df;
  const hn::Repartition<uint16_t, DE> d16;
  const auto bit = hn::LoadMaskBits(d, bits);
  const VE share_of_ones =
      hn::PromoteTo(d, hn::LoadU(hn::Rebind<uint16_t, DE>(), ones));
  const VE scale = hn::Set(d, kRansScale);
  const VE share =
      hn::IfThenElse(bit, share_of_ones, hn::Sub(scale, share_of_ones));
  const VE most = hn::Sub(hn::ShiftLeft<19>(share), hn::Set(d, 1));
  const auto per_share =
      hn::Div(hn::Set(df, 1 - 0x1p-21f), hn::ConvertTo(df, share));

  const auto full = hn::Gt(x, most);
  PutWordsOf(d, x, full, words);
  x = hn::IfThenElse(full, hn::ShiftRight<16>(x), x);

  // x / share is 8 to 2^19. Three roundings make it wrong by less than 2^-22 of
  // itself, so that less 2^-21 of itself it is too small, by less than 3/8.
  // Half less, rounded to the nearest integer, it is right or one too small,
  // fused or not; and a float of 2^23 and more has the integer in its lower
  // bits.
  const VE quotient = hn::BitCast(d, hn::MulAdd(hn::ConvertTo(df, x), per_share,
                                                hn::Set(df, 0x1p23f - 0.5f)));
  // The rest is below 2 * share, and needs the lower half words alone.
  const VE rest = hn::And(
      hn::BitCast(
          d, hn::Sub(hn::BitCast(d16, x), hn::Mul(hn::BitCast(d16, quotient),
                                                  hn::BitCast(d16, share)))),
      hn::Set(d, 0xFFFF));
  const VE right = hn::BroadcastSignBit(hn::Sub(rest, share));
  // One more: 4096 more, and a share less. The shift leaves the quotient alone.
  const VE next = hn::Add(hn::Add(hn::ShiftLeft<12>(quotient),
                                  hn::IfThenZeroElse(bit, share_of_ones)),
                          rest);
  x = hn::Add(next, hn::AndNot(right, hn::Sub(scale, share)));
}

size_t RansEncodeSteps(std::span<uint32_t, kRansStates> states,
                       std::span<const RansOnes> ones, const uint8_t* bits,
                       uint8_t* words_end) {
  const DE d;
  const size_t lanes = hn::Lanes(d);
  int32_t* const state = reinterpret_cast<int32_t*>(states.data());
  uint8_t* to = words_end;
  if (lanes >= kRansVector) {
    VE x0 = hn::LoadU(d, state), x1 = hn::LoadU(d, state + lanes);
    VE x2 = x0, x3 = x1;
    const bool four = lanes == kRansVector;
    if (four) {
      x2 = hn::LoadU(d, state + 2 * lanes);
      x3 = hn::LoadU(d, state + 3 * lanes);
    }
    for (size_t i = ones.size(); i > 0;) {
      i -= kRansStates;
      const RansOnes* const o = ones.data() + i;
      // Whole words: a target may read more than a mask's bits.
      uint8_t b[8 + 4] = {};
      std::memcpy(b, bits + i / 8, 4);
      if (four) {
        EncodeVector(o + 3 * lanes, b + 3 * lanes / 8, to, x3);
        EncodeVector(o + 2 * lanes, b + 2 * lanes / 8, to, x2);
      }
      EncodeVector(o + lanes, b + lanes / 8, to, x1);
      EncodeVector(o, b, to, x0);
    }
    hn::StoreU(x0, d, state);
    hn::StoreU(x1, d, state + lanes);
    if (four) {
      hn::StoreU(x2, d, state + 2 * lanes);
      hn::StoreU(x3, d, state + 3 * lanes);
    }
  } else {
    for (size_t i = ones.size(); i > 0;) {
      i -= kRansStates;
      const auto packed = LoadLe<uint32_t>(bits + i / 8);
      for (size_t first = kRansStates; first > 0;) {
        first -= lanes;
        const uint8_t b[8] = {static_cast<uint8_t>(packed >> first & 0xF)};
        auto x = hn::LoadU(d, state + first);
        EncodeVector(ones.data() + i + first, b, to, x);
        hn::StoreU(x, d, state + first);
      }
    }
  }
  return static_cast<size_t>(words_end - to) / 2;
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn {
namespace {

// Bits that are coded at a time.
constexpr size_t kRunBits = kTile;
// Room for their words, and for a vector of words more.
constexpr size_t kRunBytes = 2 * (kRunBits + kRansVector);

}  // namespace

void RansEncoder::Put(size_t first, std::span<const RansOnes> ones,
                      const uint8_t* bits) {
  FEDMRN_CHECK(first % kRansStates == 0);
  for (size_t end = ones.size(); end > 0;) {
    const size_t odd = end % kRansStates;
    const size_t count = odd > 0 ? odd : std::min(end, kRunBits);
    if (unused_ < kRunBytes) {
      const size_t more = words_.size() + kRunBytes;
      words_.insert(words_.begin(), more, uint8_t{0});
      unused_ += more;
    }
    const size_t begin = end - count;
    const auto encode = odd > 0 ? ref::RansEncodeSteps : RansEncodeSteps;
    unused_ -= 2 * encode(states_, ones.subspan(begin, count), bits + begin / 8,
                          words_.data() + unused_);
    end = begin;
  }
}

void RansEncoder::Finish(Bytes& out) const {
  AppendLe(std::span<const uint32_t>(states_), out);
  out.insert(out.end(), words_.begin() + static_cast<ptrdiff_t>(unused_),
             words_.end());
}

Result<RansDecoder> RansDecoder::Create(ByteView coded) {
  if (coded.size() < kRansStateBytes) {
    return Error{ErrorCode::kTruncated,
                 "the coded bits end before their 32 states", coded.size()};
  }
  if (coded.size() % 2 != 0) {
    return Error{ErrorCode::kBadFormat, "the coded bits end in half a word",
                 coded.size() - 1};
  }
  RansDecoder decoder;
  for (size_t i = 0; i < kRansStates; ++i) {
    const auto x = LoadLe<uint32_t>(coded.data() + 4 * i);
    if (x < kRansLow || x >= kRansHigh) {
      return Error{ErrorCode::kBadValue,
                   "state " + std::to_string(i) + " is not 2^15 to 2^31 - 1",
                   4 * i};
    }
    decoder.states_[i] = x;
  }
  decoder.words_ = coded.subspan(kRansStateBytes);
  return decoder;
}

bool RansDecoder::Get(std::span<const RansOnes> ones, std::span<uint8_t> bits) {
  FEDMRN_CHECK(bits.size() == BytesForBits(ones.size()));
  for (size_t i = 0; i < ones.size();) {
    const size_t left = ones.size() - i;
    const size_t run = std::min(left, kRunBits) / kRansStates * kRansStates;
    const size_t count = run > 0 ? run : left;
    // A bit takes at most one word. Where fewer are left, zeros stand in, and
    // their use is seen afterwards.
    uint8_t last_words[kRunBytes];
    const uint8_t* words = words_.data();
    if (words_.size() < kRunBytes) {
      std::fill(std::begin(last_words), std::end(last_words), uint8_t{0});
      if (!words_.empty()) {
        std::memcpy(last_words, words_.data(), words_.size());
      }
      words = last_words;
    }
    const auto decode = run > 0 ? RansDecodeSteps : ref::RansDecodeSteps;
    const size_t used =
        decode(states_, ones.subspan(i, count), words, bits.data() + i / 8);
    if (2 * used > words_.size()) return false;
    words_ = words_.subspan(2 * used);
    i += count;
  }
  return true;
}

bool RansDecoder::AtEnd() const {
  return words_.empty() &&
         std::all_of(states_.begin(), states_.end(),
                     [](uint32_t x) { return x == kRansLow; });
}

HWY_EXPORT(RansDecodeSteps);
HWY_EXPORT(RansEncodeSteps);

size_t RansDecodeSteps(std::span<uint32_t, kRansStates> states,
                       std::span<const RansOnes> ones, const uint8_t* words,
                       uint8_t* bits) {
  FEDMRN_CHECK(ones.size() % kRansStates == 0);
  return HWY_DYNAMIC_DISPATCH(RansDecodeSteps)(states, ones, words, bits);
}

size_t RansEncodeSteps(std::span<uint32_t, kRansStates> states,
                       std::span<const RansOnes> ones, const uint8_t* bits,
                       uint8_t* words_end) {
  FEDMRN_CHECK(ones.size() % kRansStates == 0);
  return HWY_DYNAMIC_DISPATCH(RansEncodeSteps)(states, ones, bits, words_end);
}

namespace ref {

size_t RansDecodeSteps(std::span<uint32_t, kRansStates> states,
                       std::span<const RansOnes> ones, const uint8_t* words,
                       uint8_t* bits) {
  const uint8_t* from = words;
  std::fill_n(bits, BytesForBits(ones.size()), uint8_t{0});
  for (size_t i = 0; i < ones.size(); ++i) {
    uint32_t& x = states[i % kRansStates];
    const uint32_t slot = x % kRansScale;
    if (slot < ones[i]) {
      bits[i / 8] |= static_cast<uint8_t>(1u << i % 8);
      x = ones[i] * (x / kRansScale) + slot;
    } else {
      x = (kRansScale - ones[i]) * (x / kRansScale) + slot - ones[i];
    }
    if (x < kRansLow) {
      x = x << 16 | LoadLe<uint16_t>(from);
      from += 2;
    }
  }
  return static_cast<size_t>(from - words) / 2;
}

size_t RansEncodeSteps(std::span<uint32_t, kRansStates> states,
                       std::span<const RansOnes> ones, const uint8_t* bits,
                       uint8_t* words_end) {
  uint8_t* to = words_end;
  for (size_t i = ones.size(); i-- > 0;) {
    uint32_t& x = states[i % kRansStates];
    const bool bit = TestBit(bits, i);
    const uint32_t share = bit ? ones[i] : kRansScale - ones[i];
    if (x >> 19 >= share) {
      to -= 2;
      StoreLe(static_cast<uint16_t>(x), to);
      x >>= 16;
    }
    x = x / share * kRansScale + x % share + (bit ? 0 : ones[i]);
  }
  return static_cast<size_t>(words_end - to) / 2;
}

}  // namespace ref
}  // namespace fedmrn
#endif  // HWY_ONCE
