#include "fedmrn/core/coded_mask.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/core/bit_context.h"
#include "fedmrn/core/pack.h"
#include "fedmrn/core/tile.h"

namespace fedmrn {
namespace {

// All contexts' probabilities, from the bytes of a table, which may be none.
ContextOnes ReadTable(ByteView bytes) {
  constexpr uint8_t kHalf = 127;
  static_assert(OnesOfByte(kHalf) == kRansScale / 2);
  ContextOnes table;
  const size_t first = kBitContexts - bytes.size();
  for (size_t c = 0; c < kBitContexts; ++c) {
    const uint8_t byte =
        bytes.empty() ? kHalf : bytes[c < first ? 0 : c - first];
    table.Set(c, OnesOfByte(byte));
  }
  return table;
}

// ---- Encoding ----

// -log2(ones / 4096) in 1/65536 bits, in integers lest machines disagree.
constexpr uint64_t CodeLength(uint32_t ones) {
  uint32_t whole = 0;
  uint64_t mantissa = ones;  // with 31 bits behind the point
  while (mantissa < uint64_t{kRansScale}) {
    mantissa <<= 1;
    ++whole;
  }
  mantissa <<= 31 - 12;
  uint64_t fraction = 0;
  for (int bit = 0; bit < 16; ++bit) {
    mantissa = mantissa * mantissa >> 31;
    fraction <<= 1;
    if (mantissa >= uint64_t{1} << 32) {
      mantissa >>= 1;
      fraction |= 1;
    }
  }
  return (uint64_t{whole} << 16) - fraction;
}

struct ByteCosts {
  uint64_t of_one, of_zero;  // in 1/65536 bits
};
constexpr std::array<ByteCosts, 256> kByteCosts = [] {
  std::array<ByteCosts, 256> costs{};
  for (size_t byte = 0; byte < costs.size(); ++byte) {
    const uint32_t ones = OnesOfByte(static_cast<uint8_t>(byte));
    costs[byte] = {CodeLength(ones), CodeLength(kRansScale - ones)};
  }
  return costs;
}();

struct BitCounts {
  uint64_t zeros = 0, ones = 0;
};

// For each byte, its bits as bytes.
constexpr std::array<uint64_t, 256> kBitsAsBytes = [] {
  std::array<uint64_t, 256> table{};
  for (size_t byte = 0; byte < table.size(); ++byte) {
    for (size_t j = 0; j < 8; ++j) {
      table[byte] |= uint64_t{byte >> j & 1} << 8 * j;
    }
  }
  return table;
}();

// Zeros and ones of each context, of fewer than 2^32 bits.
class ContextCounts {
 public:
  void Add(const uint8_t* contexts, const uint8_t* bits, size_t begin,
           size_t end) {
    const auto count = [&](size_t set, size_t at) { ++counts_[set][at]; };
    const auto count_one = [&](size_t i) {
      count(0, size_t{2} * contexts[i] + TestBit(bits, i));
    };
    size_t i = begin;
    for (; i < end && i % 8 != 0; ++i) count_one(i);
    for (; i + 8 <= end; i += 8) {
      // Contexts are below 128: doubled they stay within their bytes.
      static_assert(kBitContexts <= 128);
      const uint64_t at =
          2 * LoadLe<uint64_t>(contexts + i) | kBitsAsBytes[bits[i / 8]];
      // Written out: as a loop that the compiler keeps, it takes twice as long.
      [&]<size_t... kJ>(std::index_sequence<kJ...>) {
        (count(kJ, at >> 8 * kJ & 0xFF), ...);
      }
      (std::make_index_sequence<kSets>());
    }
    for (; i < end; ++i) count_one(i);
  }
  // All of them in context 0.
  void AddAlike(uint64_t zeros, uint64_t ones) {
    alike_.zeros += zeros;
    alike_.ones += ones;
  }
  std::array<BitCounts, kBitContexts> Sums() const {
    std::array<BitCounts, kBitContexts> sums{};
    sums[0] = alike_;
    for (const auto& set : counts_) {
      for (size_t c = 0; c < kBitContexts; ++c) {
        sums[c].zeros += set[2 * c];
        sums[c].ones += set[2 * c + 1];
      }
    }
    return sums;
  }

 private:
  // Several sets of counters, lest an addition waits for the one before.
  static constexpr size_t kSets = 8;
  uint32_t counts_[kSets][2 * kBitContexts] = {};
  BitCounts alike_;
};

struct Choice {
  uint8_t byte;
  uint64_t cost;  // of the counted bits, in 1/65536 bits
};
// The cheapest byte for some bits: one of the two next to their share of ones.
Choice BestByte(const BitCounts& counts) {
  const auto cost = [&](uint8_t byte) {
    return counts.ones * kByteCosts[byte].of_one +
           counts.zeros * kByteCosts[byte].of_zero;
  };
  uint8_t low = 0, high = 255;
  while (high - low > 1) {
    const auto middle = static_cast<uint8_t>((low + high) / 2);
    const uint64_t share = OnesOfByte(middle);
    if (share * (counts.ones + counts.zeros) <= kRansScale * counts.ones) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return cost(high) < cost(low) ? Choice{high, cost(high)}
                                : Choice{low, cost(low)};
}

// The bytes of the cheapest table for a tensor.
Bytes BestTable(const ContextCounts& context_counts) {
  constexpr uint64_t kBit = 1 << 16, kByte = 8 * kBit;
  const std::array<BitCounts, kBitContexts> counts = context_counts.Sums();
  std::array<Choice, kBitContexts> single;
  for (size_t c = 0; c < kBitContexts; ++c) single[c] = BestByte(counts[c]);
  // Contexts 0 to `first` share a byte, those above have their own.
  BitCounts shared = {};
  uint64_t above = std::accumulate(
      single.begin(), single.end(), uint64_t{0},
      [](uint64_t sum, const Choice& choice) { return sum + choice.cost; });
  uint64_t least = 0;
  Choice best_shared = {};
  size_t best_first = kBitContexts;
  for (size_t first = 0; first < kBitContexts; ++first) {
    shared.zeros += counts[first].zeros;
    shared.ones += counts[first].ones;
    above -= single[first].cost;
    const Choice choice = BestByte(shared);
    const uint64_t cost = choice.cost + above + (kBitContexts - first) * kByte;
    if (best_first == kBitContexts || cost < least) {
      least = cost;
      best_shared = choice;
      best_first = first;
    }
  }
  if (least >= (shared.ones + shared.zeros) * kBit) return {};
  Bytes table = {best_shared.byte};
  for (size_t c = best_first + 1; c < kBitContexts; ++c) {
    table.push_back(single[c].byte);
  }
  return table;
}

// The bits of a tensor that are counted, more or less: enough for probabilities
// that cost less than a thousandth more than those of all bits.
constexpr uint32_t kEnough = 1 << 19;

// The "beyond" bits of a tile and their contexts.
struct Tile {
  BitContexts known;
  uint8_t bits[kTile / 8];
  size_t count;

  Tile(MaskKind mask, const Noise& noise, uint64_t tile, uint64_t params,
       ByteView mask_bits)
      : count(std::min<size_t>(kTile, params - tile * kTile)) {
    BitContextsOf(mask, noise, tile, known);
    const uint8_t* from = mask_bits.data() + tile * (kTile / 8);
    for (size_t i = 0; i < BytesForBits(count); ++i) {
      bits[i] = from[i] ^ known.flips[i];
    }
  }
};

// The tiles of a mask. Those that are counted are kept, to be coded.
class Tiles {
 public:
  Tiles(MaskKind mask, const Noise& noise, uint64_t params, ByteView bits)
      : mask_(mask),
        noise_(noise),
        params_(params),
        bits_(bits),
        kept_(TilesFor(params)) {}

  const Tile& Keep(uint64_t tile) {
    if (!kept_[tile]) kept_[tile] = Make(tile);
    return *kept_[tile];
  }
  std::unique_ptr<const Tile> Take(uint64_t tile) {
    return kept_[tile] ? std::move(kept_[tile]) : Make(tile);
  }

 private:
  std::unique_ptr<const Tile> Make(uint64_t tile) const {
    return std::make_unique<const Tile>(mask_, noise_, tile, params_, bits_);
  }

  MaskKind mask_;
  const Noise& noise_;
  uint64_t params_;
  ByteView bits_;
  std::vector<std::unique_ptr<const Tile>> kept_;
};

// ---- Decoding ----

Error At(size_t offset, ErrorCode code, std::string message) {
  return Error{code, std::move(message), offset};
}

// Where the parts of a coded mask are, once they are known to be there.
struct Parts {
  uint32_t tensors;
  const uint8_t* lengths;
  const uint8_t* tables;
  size_t coded_at;
};

Result<Parts> FindParts(uint64_t params, ByteView coded) {
  if (coded.size() < 4) {
    return At(coded.size(), ErrorCode::kTruncated,
              "the payload ends before its tensor count");
  }
  Parts parts;
  parts.tensors = CodedTensors(coded);
  // A tensor has a length and the first byte of a table.
  if (parts.tensors == 0 || parts.tensors > (coded.size() - 4) / 5) {
    return At(
        0, ErrorCode::kBadFormat,
        std::to_string(parts.tensors) + " tensors do not fit the payload");
  }
  parts.lengths = coded.data() + 4;
  uint64_t sum = 0;
  for (uint32_t t = 0; t < parts.tensors; ++t) {
    const auto length = LoadLe<uint32_t>(parts.lengths + size_t{4} * t);
    if (length == 0) {
      return At(4 + size_t{4} * t, ErrorCode::kBadValue,
                "tensor " + std::to_string(t) + " is empty");
    }
    sum += length;
  }
  if (sum != params) {
    return At(4, ErrorCode::kBadFormat,
              "the tensors sum to " + std::to_string(sum) + " instead of " +
                  std::to_string(params));
  }
  size_t at = 4 + size_t{4} * parts.tensors;
  parts.tables = coded.data() + at;
  for (uint32_t t = 0; t < parts.tensors; ++t) {
    if (at == coded.size()) {
      return At(
          at, ErrorCode::kTruncated,
          "the payload ends before the table of tensor " + std::to_string(t));
    }
    const size_t bytes = coded[at];
    if (bytes > kBitContexts || bytes > coded.size() - at - 1) {
      return At(at, ErrorCode::kBadValue,
                "the table of tensor " + std::to_string(t) + " has " +
                    std::to_string(bytes) +
                    " bytes: more than 64, or more than are left");
    }
    at += 1 + bytes;
  }
  parts.coded_at = at;
  return parts;
}

// Walks over the tensors of a coded mask.
class TensorWalk {
 public:
  explicit TensorWalk(const Parts& parts)
      : length_(parts.lengths), table_(parts.tables) {}

  // The probabilities of the next contexts.size() bits, of which there must be
  // as many.
  void Ones(std::span<const uint8_t> contexts, RansOnes* ones) {
    for (size_t i = 0; i < contexts.size();) {
      if (left_ == 0) {
        left_ = LoadLe<uint32_t>(length_);
        length_ += 4;
        table_ones_ = ReadTable({table_ + 1, *table_});
        table_ += 1 + *table_;
      }
      const size_t count = std::min<size_t>(left_, contexts.size() - i);
      OnesOfContexts(table_ones_, contexts.subspan(i, count), ones + i);
      left_ -= count;
      i += count;
    }
  }

 private:
  const uint8_t* length_;
  const uint8_t* table_;
  uint64_t left_ = 0;  // of the tensor that the walk is in
  ContextOnes table_ones_ = {};
};

}  // namespace

uint8_t BestTableByte(uint64_t zeros, uint64_t ones) {
  return BestByte({zeros, ones}).byte;
}

void AppendCodedMask(MaskKind mask, const Noise& noise,
                     std::span<const uint32_t> tensors, ByteView bits,
                     Bytes& out) {
  const uint64_t params =
      std::accumulate(tensors.begin(), tensors.end(), uint64_t{0});
  FEDMRN_CHECK(bits.size() == BytesForBits(params));

  // First count, from which the tables follow.
  Tiles tiles(mask, noise, params, bits);
  std::vector<ContextOnes> tables;
  Bytes table_bytes;
  uint64_t first = 0;
  for (const uint32_t length : tensors) {
    const uint64_t end = first + length;
    ContextCounts counts;
    if (HasContexts(mask, noise)) {
      for (uint64_t t = first / kTile; t * kTile < end; ++t) {
        const uint64_t from = std::max(first, t * kTile);
        const uint64_t to = std::min(end, (t + 1) * kTile);
        if (to - from == kTile && t % (length / kEnough + 1) != 0) continue;
        const Tile& tile = tiles.Keep(t);
        counts.Add(tile.known.contexts, tile.bits, from % kTile,
                   to - t * kTile);
      }
    } else {
      const uint64_t ones = CountBits(bits.data(), first, end);
      counts.AddAlike(length - ones, ones);
    }
    const Bytes table = BestTable(counts);
    table_bytes.push_back(static_cast<uint8_t>(table.size()));
    table_bytes.insert(table_bytes.end(), table.begin(), table.end());
    tables.push_back(ReadTable(table));
    first = end;
  }
  AppendLe(static_cast<uint32_t>(tensors.size()), out);
  AppendLe(tensors, out);
  out.insert(out.end(), table_bytes.begin(), table_bytes.end());

  // Then code, from the last bit to the first.
  RansEncoder encoder;
  size_t tensor = tensors.size() - 1;
  uint64_t left = tensors[tensor];
  for (uint64_t t = TilesFor(params); t-- > 0;) {
    const std::unique_ptr<const Tile> tile = tiles.Take(t);
    RansOnes ones[kTile];
    for (size_t end = tile->count; end > 0;) {
      const size_t begin = end - std::min<size_t>(left, end);
      left -= end - begin;
      OnesOfContexts(tables[tensor],
                     {tile->known.contexts + begin, end - begin}, ones + begin);
      end = begin;
      if (left == 0 && tensor > 0) left = tensors[--tensor];
    }
    encoder.Put(t * kTile, {ones, tile->count}, tile->bits);
  }
  encoder.Finish(out);
}

void CountBeyond(MaskKind mask, const Noise& noise, const uint8_t* bits,
                 std::span<uint64_t> beyond) {
  FEDMRN_CHECK(beyond.size() == noise.magnitudes.size());
  const uint64_t params = noise.magnitudes.params();
  const ByteView all(bits, BytesForBits(params));
  uint64_t first = 0;
  for (size_t t = 0; t < beyond.size(); ++t) {
    const uint64_t end = first + noise.magnitudes[t].length;
    for (uint64_t tile = first / kTile; tile * kTile < end; ++tile) {
      const size_t from = std::max(first, tile * kTile) - tile * kTile;
      const size_t to = std::min<uint64_t>(kTile, end - tile * kTile);
      uint8_t flipped[kTile / 8];
      const uint8_t* tile_bits = all.data() + tile * (kTile / 8);
      if (mask == MaskKind::kSigned) {
        std::copy_n(Tile(mask, noise, tile, params, all).bits, BytesForBits(to),
                    flipped);
        tile_bits = flipped;
      }
      beyond[t] += CountBits(tile_bits, from, to);
    }
    first = end;
  }
}

uint32_t CodedTensors(ByteView coded) { return LoadLe<uint32_t>(coded.data()); }

Result<uint64_t> DecodeMask(MaskKind mask, const Noise& noise, uint64_t params,
                            ByteView coded, std::span<uint8_t> bits) {
  FEDMRN_CHECK(bits.empty() || bits.size() == BytesForBits(params));
  const Parts parts = FEDMRN_TRY(FindParts(params, coded));
  Result<RansDecoder> decoder =
      RansDecoder::Create(coded.subspan(parts.coded_at));
  if (!decoder) {
    const Error& error = decoder.error();
    return At(parts.coded_at + error.offset, error.code, error.message);
  }
  TensorWalk walk(parts);
  uint64_t mask_ones = 0;
  BitContexts known;
  RansOnes ones[kTile];
  uint8_t tile_bits[kTile / 8];
  for (uint64_t tile = 0; tile < TilesFor(params); ++tile) {
    const size_t count = std::min<uint64_t>(kTile, params - tile * kTile);
    const size_t bytes = BytesForBits(count);
    BitContextsOf(mask, noise, tile, known);
    walk.Ones({known.contexts, count}, ones);
    uint8_t* const out =
        bits.empty() ? tile_bits : bits.data() + tile * (kTile / 8);
    if (!decoder->Get({ones, count}, {out, bytes})) {
      return At(coded.size(), ErrorCode::kTruncated,
                "the coded bits end before the mask does, by parameter " +
                    std::to_string(tile * kTile + count));
    }
    if (mask == MaskKind::kSigned) {
      for (size_t i = 0; i < bytes; ++i) out[i] ^= known.flips[i];
      if (count % 8 != 0) {
        out[bytes - 1] &= static_cast<uint8_t>((1u << count % 8) - 1);
      }
    }
    mask_ones += CountBits(out, 0, count);
  }
  if (!decoder->AtEnd()) {
    return At(parts.coded_at, ErrorCode::kBadFormat,
              "the coded bits do not end where the mask does");
  }
  return mask_ones;
}

}  // namespace fedmrn
