#include "fedmrn/core/philox.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fedmrn/core/philox.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "fedmrn/core/philox-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fedmrn {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
// Highway's one-lane fallback lacks most operations: use the definition.
using ref::PhiloxWords;
#else

template <size_t kRounds>
void WordsOf(const PhiloxStream& stream, uint64_t first_block,
             std::span<uint32_t> words) {
  // The bulk goes straight to the output; what is left over at either end, and
  // an output that is not 8-byte aligned, through a small buffer.
  constexpr size_t kBufferBlocks = 256;
  constexpr uint64_t kGranule = kPhiloxBlockGranule;
  alignas(64) uint32_t buffer[4 * kBufferBlocks];
  uint64_t block = first_block;
  size_t done = 0;
  while (done < words.size()) {
    uint32_t* out = words.data() + done;
    const size_t left_blocks = (words.size() - done) / 4;
    const uint64_t to_wrap = (uint64_t{1} << 32) - (block & 0xFFFFFFFFu);
    if (block % kGranule == 0 && left_blocks >= kGranule &&
        reinterpret_cast<uintptr_t>(out) % 8 == 0) {
      size_t blocks = left_blocks / kGranule * kGranule;
      if (blocks > to_wrap) blocks = static_cast<size_t>(to_wrap);
      PhiloxBlocks<kRounds>(stream, block, blocks, out);
      done += 4 * blocks;
      block += blocks;
      continue;
    }
    const size_t skip = block % kGranule;
    size_t blocks = kBufferBlocks - skip;
    if (blocks > to_wrap) blocks = static_cast<size_t>(to_wrap);
    if (blocks > left_blocks + 1) blocks = left_blocks + 1;
    PhiloxBlocks<kRounds>(stream, block - skip, skip + blocks, buffer);
    size_t count = 4 * blocks;
    if (count > words.size() - done) count = words.size() - done;
    std::copy_n(buffer + 4 * skip, count, out);
    done += count;
    block += blocks;
  }
}

void PhiloxWords(const PhiloxStream& stream, uint64_t first_block,
                 std::span<uint32_t> words) {
  const auto fill = RoundsFor(stream.purpose) == 7 ? WordsOf<7> : WordsOf<10>;
  fill(stream, first_block, words);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace fedmrn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fedmrn {

HWY_EXPORT(PhiloxWords);

void PhiloxWords(const PhiloxStream& stream, uint64_t first_block,
                 std::span<uint32_t> words) {
  HWY_DYNAMIC_DISPATCH(PhiloxWords)(stream, first_block, words);
}

namespace ref {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> x,
                                   std::array<uint32_t, 2> key, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * x[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * x[2];
    x = {static_cast<uint32_t>(p1 >> 32) ^ x[1] ^ key[0],
         static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ x[3] ^ key[1],
         static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return x;
}

void PhiloxWords(const PhiloxStream& stream, uint64_t first_block,
                 std::span<uint32_t> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const uint64_t block = first_block + i / 4;
    words[i] = Philox4x32(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
         stream.sub, static_cast<uint32_t>(stream.purpose)},
        {static_cast<uint32_t>(stream.seed),
         static_cast<uint32_t>(stream.seed >> 32)},
        RoundsFor(stream.purpose))[i % 4];
  }
}

}  // namespace ref
}  // namespace fedmrn
#endif  // HWY_ONCE
