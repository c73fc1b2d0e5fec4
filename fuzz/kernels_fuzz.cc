// One input, every SIMD target of this CPU and the plain-loop definition: equal
// answers, bit for bit (any NaN equals any other).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <span>
#include <type_traits>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/core/accumulate.h"
#include "fedmrn/core/coded_mask.h"
#include "fedmrn/core/float16.h"
#include "fedmrn/core/hadamard.h"
#include "fedmrn/core/mask.h"
#include "fedmrn/core/noise.h"
#include "fedmrn/core/pack.h"
#include "fedmrn/core/philox.h"
#include "fedmrn/core/scan.h"
#include "fedmrn/core/tile.h"
#include "hwy/targets.h"

namespace fedmrn {
namespace {

constexpr size_t kMaxLength = 5000;  // some tiles; the definitions are slow

// Takes an input apart. Past its end everything is zero.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  template <typename T>
  T Take() {
    T value{};
    const size_t count = std::min(sizeof(T), size_ - at_);
    if (count > 0) std::memcpy(&value, data_ + at_, count);
    at_ += count;
    return value;
  }
  uint32_t TakeBelow(uint32_t end) { return Take<uint16_t>() % end; }
  bool TakeBool() { return (Take<uint8_t>() & 1) != 0; }

  // The words of a small input come round again, changed.
  uint32_t PoolWord(size_t i) const {
    const size_t words = (size_ - at_) / 4;
    if (words == 0) return static_cast<uint32_t>(i) * 0x9E3779B9u;
    return LoadLe<uint32_t>(data_ + at_ + i % words * 4) ^
           static_cast<uint32_t>(i / words) * 0x9E3779B9u;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

// Raw bits (NaN, infinities and denormals among them), or values around `near`,
// where comparisons with the noise are close; some zeros.
float PoolFloat(const Input& in, size_t i, float near, uint8_t style) {
  const uint32_t word = in.PoolWord(i);
  if (style % 4 == 0 || (style % 4 == 1 && word % 8 == 0)) {
    return std::bit_cast<float>(word);
  }
  const auto part = static_cast<int16_t>(word >> 16);
  return word % 16 == 1 ? 0.0f : static_cast<float>(part) * 0x1p-14f * near;
}

// Every span starts at an odd place of a buffer that ends where it ends.
template <typename T>
class Buffer {
 public:
  Buffer(size_t size, size_t shift) : values_(size + shift), shift_(shift) {}
  std::span<T> span() { return std::span(values_).subspan(shift_); }

 private:
  std::vector<T> values_;
  size_t shift_;
};

template <typename T>
bool SameBits(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  } else {
    return a == b;
  }
}

template <typename T>
void ExpectSame(const char* what, int64_t target, std::span<const T> got,
                std::span<const T> want) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (SameBits(got[i], want[i])) continue;
    std::fprintf(stderr, "%s on %s differs at %zu of %zu: %.9g, not %.9g\n",
                 what, hwy::TargetName(target), i, want.size(),
                 static_cast<double>(got[i]), static_cast<double>(want[i]));
    std::abort();
  }
}

// run(target) on each target in turn.
template <typename Run>
void ForEachTarget(Run run) {
  static const std::vector<int64_t> targets =
      hwy::SupportedAndGeneratedTargets();
  for (int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    run(target);
  }
  hwy::SetSupportedTargetsForTest(0);
}

size_t TakeLength(Input& in) {
  // Half of them below some vectors, where the edges are.
  return in.TakeBool() ? in.TakeBelow(140) : in.TakeBelow(kMaxLength + 1);
}

Noise TakeNoise(Input& in) {
  constexpr NoiseKind kKinds[] = {NoiseKind::kUniform, NoiseKind::kGaussian,
                                  NoiseKind::kBernoulli};
  const NoiseKind kind = kKinds[in.TakeBelow(3)];
  const int exponent = static_cast<int>(in.TakeBelow(74)) - 64;
  const auto fraction = static_cast<float>(in.Take<uint16_t>()) * 0x1p-16f;
  const float magnitude = std::ldexp(1 + fraction, exponent);
  return {kind, magnitude, in.Take<uint64_t>()};
}

Masking TakeMasking(Input& in) {
  Masking masking;
  masking.kind = in.TakeBool() ? MaskKind::kSigned : MaskKind::kBinary;
  masking.stochastic = in.TakeBool();
  masking.progressive = in.TakeBool();
  masking.noise = TakeNoise(in);
  masking.draw_seed = in.Take<uint64_t>();
  return masking;
}

void TryPhiloxWords(Input& in) {
  const PhiloxStream stream{in.Take<uint64_t>(),
                            static_cast<Purpose>(in.TakeBelow(4)),
                            in.Take<uint32_t>()};
  // Half of them right below a carry into the counter's second word.
  const uint64_t base =
      in.TakeBool() ? in.Take<uint64_t>() : uint64_t{in.TakeBelow(3)} << 32;
  const uint64_t first_block = base - in.TakeBelow(kMaxLength / 4);
  const size_t size = TakeLength(in);
  const size_t shift = in.TakeBelow(4);
  std::vector<uint32_t> want(size);
  ref::PhiloxWords(stream, first_block, want);
  ForEachTarget([&](int64_t target) {
    Buffer<uint32_t> got(size, shift);
    PhiloxWords(stream, first_block, got.span());
    ExpectSame<uint32_t>("PhiloxWords", target, got.span(), want);
  });
}

void TryNoiseOdds(Input& in) {
  const Noise noise = TakeNoise(in);
  const uint64_t first = in.Take<uint64_t>() >> (16 + in.TakeBelow(48));
  const size_t size = TakeLength(in);
  const size_t shift = in.TakeBelow(4);
  std::vector<int16_t> want(size);
  ref::NoiseOdds(noise, first, want);
  ForEachTarget([&](int64_t target) {
    Buffer<int16_t> got(size, shift);
    NoiseOdds(noise, first, got.span());
    ExpectSame<int16_t>("NoiseOdds", target, got.span(), want);
  });
}

void TryMaskedStep(Input& in) {
  const Masking masking = TakeMasking(in);
  LocalStep at;
  at.total_steps = 1 + in.TakeBelow(1000);
  at.step = 1 + in.TakeBelow(at.total_steps);
  at.learning_rate =
      in.TakeBool() ? 0.1f : std::bit_cast<float>(in.Take<uint32_t>());
  const bool has_gradient = in.TakeBool(), in_place = in.TakeBool();
  const uint8_t style = in.Take<uint8_t>();
  const size_t size = TakeLength(in);
  const size_t shift = in.TakeBelow(4);

  const float near = masking.noise.magnitude;
  std::vector<float> weights(size), gradient(size), update(size);
  for (size_t i = 0; i < size; ++i) {
    weights[i] = PoolFloat(in, 3 * i, near, style);
    gradient[i] = PoolFloat(in, 3 * i + 1, near, style);
    update[i] = PoolFloat(in, 3 * i + 2, near, style);
  }
  std::vector<float> want_update = update, want(size);
  ref::MaskedStep(masking, at, weights,
                  has_gradient ? std::span<const float>(gradient)
                               : std::span<const float>(),
                  want_update, want);
  ForEachTarget([&](int64_t target) {
    Buffer<float> w(size, shift), g(size, shift), u(size, shift),
        e(size, shift);
    std::copy(weights.begin(), weights.end(), w.span().begin());
    std::copy(gradient.begin(), gradient.end(), g.span().begin());
    std::copy(update.begin(), update.end(), u.span().begin());
    const std::span<float> effective = in_place ? g.span() : e.span();
    MaskedStep(masking, at, w.span(),
               has_gradient ? g.span() : std::span<float>(), u.span(),
               effective);
    ExpectSame<float>("MaskedStep's update", target, u.span(), want_update);
    ExpectSame<float>("MaskedStep", target, effective, want);
    ExpectSame<float>("MaskedStep's weights", target, w.span(), weights);
  });
}

void TryFinalMask(Input& in) {
  const Masking masking = TakeMasking(in);
  const uint8_t style = in.Take<uint8_t>();
  const size_t size = TakeLength(in);
  const size_t shift = in.TakeBelow(4);
  std::vector<float> update(size);
  for (size_t i = 0; i < size; ++i) {
    update[i] = PoolFloat(in, i, masking.noise.magnitude, style);
  }
  Bytes want(BytesForBits(size));
  ref::FinalMask(masking, update, want);
  ForEachTarget([&](int64_t target) {
    Buffer<float> u(size, shift);
    std::copy(update.begin(), update.end(), u.span().begin());
    Buffer<uint8_t> got(want.size(), shift);
    FinalMask(masking, u.span(), got.span());
    ExpectSame<uint8_t>("FinalMask", target, got.span(), want);
  });
}

// A drawn mask, coded and decoded: the same bytes on every target, and the same
// mask again.
void TryCodedMask(Input& in) {
  const Masking masking = TakeMasking(in);
  const uint8_t style = in.Take<uint8_t>();
  const size_t size = std::max<size_t>(TakeLength(in), 1);
  const auto first = static_cast<uint32_t>(in.TakeBelow(16) * size / 16);
  std::vector<uint32_t> tensors;
  if (first > 0) tensors.push_back(first);
  tensors.push_back(static_cast<uint32_t>(size) - first);
  std::vector<float> update(size);
  for (size_t i = 0; i < size; ++i) {
    update[i] = PoolFloat(in, i, masking.noise.magnitude, style);
  }
  Bytes bits(BytesForBits(size)), want;
  ref::FinalMask(masking, update, bits);
  AppendCodedMask(masking.kind, masking.noise, tensors, bits, want);
  ForEachTarget([&](int64_t target) {
    Bytes coded, decoded(bits.size());
    AppendCodedMask(masking.kind, masking.noise, tensors, bits, coded);
    ExpectSame<uint8_t>("AppendCodedMask", target, coded, want);
    FEDMRN_CHECK(
        DecodeMask(masking.kind, masking.noise, size, coded, decoded).ok());
    ExpectSame<uint8_t>("DecodeMask", target, decoded, bits);
  });
}

void TryHadamard(Input& in) {
  const size_t size = size_t{1} << in.TakeBelow(15);
  const size_t shift = in.TakeBelow(4);
  const uint8_t style = in.Take<uint8_t>();
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) {
    const float value = PoolFloat(in, i, 1, style);
    values[i] = std::isfinite(value) ? value : 1.0f;
  }
  std::vector<float> want = values;
  ref::Hadamard(want);
  ForEachTarget([&](int64_t target) {
    Buffer<float> got(size, shift);
    std::copy(values.begin(), values.end(), got.span().begin());
    Hadamard(got.span());
    ExpectSame<float>("Hadamard", target, got.span(), want);
  });
}

// The part [first, end) of a length's tiles.
struct TileRange {
  uint64_t first, end;
};
TileRange TakeTiles(Input& in, size_t size) {
  const auto tiles = static_cast<uint32_t>(TilesFor(size));
  if (in.TakeBool()) return {0, tiles};
  const uint64_t a = in.TakeBelow(tiles + 1), b = in.TakeBelow(tiles + 1);
  return {std::min(a, b), std::max(a, b)};
}

void TryAddMasked(Input& in) {
  const MaskKind mask = in.TakeBool() ? MaskKind::kSigned : MaskKind::kBinary;
  const Noise noise = TakeNoise(in);
  const size_t size = TakeLength(in);
  const size_t shift = in.TakeBelow(8);
  const size_t clients = in.TakeBelow(6);
  const int64_t factor = in.TakeBool() ? 1 : 1 + in.Take<uint32_t>();
  const TileRange range = TakeTiles(in, size);
  std::vector<Buffer<uint8_t>> masks;
  std::vector<MaskedUpdate> updates;
  uint64_t room = MaxSmallWeight(noise.kind) / 2;  // everything is added twice
  for (size_t k = 0; k < clients; ++k) {
    const uint64_t weight = std::min<uint64_t>(in.TakeBelow(32768), room);
    room -= weight;
    masks.emplace_back(BytesForBits(size), shift);
    Noise own = noise;
    own.seed += k;
    updates.push_back({own, masks[k].span().data(), weight});
  }
  for (size_t k = 0; k < clients; ++k) {
    const std::span<uint8_t> bits = masks[k].span();
    for (size_t i = 0; i < bits.size(); ++i) {
      bits[i] = static_cast<uint8_t>(in.PoolWord(k + i * clients) >> 8);
    }
  }
  std::vector<int64_t> start(size), want(size);
  for (size_t i = 0; i < size; ++i) start[i] = static_cast<int16_t>(i * 40503);
  ref::AddMasked(mask, updates, range.first, range.end, want);
  for (size_t i = 0; i < size; ++i) want[i] = start[i] + 2 * factor * want[i];
  ForEachTarget([&](int64_t target) {
    std::vector<SmallTile> small(TilesFor(size));
    std::vector<int64_t> got = start;
    for (int time = 0; time < 2; ++time) {
      AddMasked(mask, updates, range.first, range.end, size, small);
    }
    // The second drain finds nothing.
    for (int time = 0; time < 2; ++time) {
      DrainMasked(noise.kind, factor, 0, small.size(), small, got);
    }
    ExpectSame<int64_t>("AddMasked", target, got, want);
  });
}

void TryAddFloats(Input& in) {
  const size_t size = TakeLength(in);
  const size_t shift = in.TakeBelow(8);  // bytes: floats at any address
  const size_t clients = in.TakeBelow(4);
  const uint8_t style = in.Take<uint8_t>();
  const TileRange range = TakeTiles(in, size);
  std::vector<Buffer<uint8_t>> values;
  std::vector<FloatUpdate> updates;
  for (size_t k = 0; k < clients; ++k) {
    const double scale = std::ldexp(1 + in.TakeBelow(1000),
                                    static_cast<int>(in.TakeBelow(100)) - 50);
    values.emplace_back(4 * size, shift);
    updates.push_back({values[k].span().data(), scale});
  }
  for (size_t k = 0; k < clients; ++k) {
    const double scale = updates[k].scale;
    const auto near = static_cast<float>(0x1p40 / scale);
    for (size_t i = 0; i < size; ++i) {
      const float value = PoolFloat(in, k + i * clients, near, style);
      const bool fits = std::fabs(value * scale) < 0x1p51;
      StoreLe(fits ? value : 0.0f, values[k].span().data() + 4 * i);
    }
  }
  std::vector<int64_t> start(size);
  for (size_t i = 0; i < size; ++i) start[i] = static_cast<int16_t>(i * 40503);
  std::vector<int64_t> want = start;
  ref::AddFloats(updates, range.first, range.end, want);
  ForEachTarget([&](int64_t target) {
    std::vector<int64_t> got = start;
    AddFloats(updates, range.first, range.end, got);
    ExpectSame<int64_t>("AddFloats", target, got, want);
  });
}

void TryLargestMagnitude(Input& in) {
  const size_t size = TakeLength(in);
  const uint8_t style = in.Take<uint8_t>();
  Buffer<uint8_t> values(4 * size, in.TakeBelow(8));
  for (size_t i = 0; i < size; ++i) {
    StoreLe(PoolFloat(in, i, 1, style), values.span().data() + 4 * i);
  }
  const uint32_t want = ref::LargestMagnitude(values.span().data(), size);
  ForEachTarget([&](int64_t target) {
    const uint32_t got = LargestMagnitude(values.span().data(), size);
    ExpectSame<uint32_t>("LargestMagnitude", target, {&got, 1}, {&want, 1});
  });
}

void TryMagnitudesBetween(Input& in) {
  const size_t size = TakeLength(in);
  const uint8_t style = in.Take<uint8_t>();
  const uint32_t a = in.Take<uint32_t>() >> 1, b = in.Take<uint32_t>() >> 1;
  const uint32_t low = std::min(a, b), high = std::max(a, b);
  Buffer<float> values(size, in.TakeBelow(4));
  for (size_t i = 0; i < size; ++i) {
    values.span()[i] = PoolFloat(in, i, 1, style);
  }
  size_t want_above = 0;
  std::vector<uint32_t> want(size + 16);
  want.resize(ref::MagnitudesBetween(values.span(), low, high, want.data(),
                                     want_above));
  ForEachTarget([&](int64_t target) {
    size_t above = 0;
    std::vector<uint32_t> got(size + 16);
    got.resize(MagnitudesBetween(values.span(), low, high, got.data(), above));
    const size_t counts[] = {got.size(), above},
                 want_counts[] = {want.size(), want_above};
    ExpectSame<size_t>("MagnitudesBetween's counts", target, counts,
                       want_counts);
    ExpectSame<uint32_t>("MagnitudesBetween", target, got, want);
  });
}

void TryFloat16s(Input& in) {
  const size_t size = TakeLength(in);
  const uint8_t style = in.Take<uint8_t>();
  const size_t shift = in.TakeBelow(4);
  Buffer<float> values(size, shift);
  for (size_t i = 0; i < size; ++i) {
    values.span()[i] = PoolFloat(in, i, 1, style);
  }
  Bytes want(2 * size);
  ref::Float16sFromFloats(values.span(), want.data());
  std::vector<float> want_again(size);
  ref::FloatsFromFloat16s(want.data(), want_again);
  ForEachTarget([&](int64_t target) {
    Buffer<uint8_t> halves(2 * size, shift);
    Buffer<float> again(size, shift);
    Float16sFromFloats(values.span(), halves.span().data());
    ExpectSame<uint8_t>("Float16sFromFloats", target, halves.span(), want);
    FloatsFromFloat16s(halves.span().data(), again.span());
    ExpectSame<float>("FloatsFromFloat16s", target, again.span(), want_again);
  });
}

void TryPack(Input& in) {
  const size_t size = TakeLength(in);
  const uint8_t style = in.Take<uint8_t>();
  const size_t shift = in.TakeBelow(4);
  const float threshold = PoolFloat(in, size, 1, style);
  Buffer<float> values(size, shift), scales(size, in.TakeBelow(4));
  Buffer<uint32_t> words(size, in.TakeBelow(4));
  for (size_t i = 0; i < size; ++i) {
    values.span()[i] = PoolFloat(in, i, 1, style);
    scales.span()[i] = std::fabs(PoolFloat(in, i + size, 1, style));
    words.span()[i] = in.PoolWord(i);
  }
  const auto try_bits = [&](const char* name, const auto& kernel,
                            const auto& definition) {
    Bytes want(BytesForBits(size));
    definition(want.data());
    ForEachTarget([&](int64_t target) {
      Buffer<uint8_t> got(want.size(), shift);
      kernel(got.span().data());
      ExpectSame<uint8_t>(name, target, got.span(), want);
    });
    return want;
  };
  const std::span<const float> x = values.span();
  const Bytes above = try_bits(
      "PackAbove", [&](uint8_t* to) { PackAbove(x, threshold, to); },
      [&](uint8_t* to) { ref::PackAbove(x, threshold, to); });
  const Bytes farther = try_bits(
      "PackFarther", [&](uint8_t* to) { PackFarther(x, threshold, to); },
      [&](uint8_t* to) { ref::PackFarther(x, threshold, to); });
  struct Drawn {
    const char* name;
    decltype(&PackUniform) kernel, definition;
  };
  for (const auto& [name, kernel, definition] :
       {Drawn{"PackUniform", PackUniform, ref::PackUniform},
        Drawn{"PackUniformFarther", PackUniformFarther,
              ref::PackUniformFarther},
        Drawn{"PackCentred", PackCentred, ref::PackCentred}}) {
    const auto call = [&](auto pack) {
      return [&, pack](uint8_t* to) {
        pack(words.span().data(), scales.span().data(), x, to);
      };
    };
    try_bits(name, call(kernel), call(definition));
  }
  const uint64_t first = size == 0 ? 0 : in.TakeBelow(64) % size;
  std::vector<float> want(size - first);
  ref::SelectTrits(farther.data(), above.data(), first, threshold, want);
  ForEachTarget([&](int64_t target) {
    Buffer<float> got(want.size(), shift);
    SelectTrits(farther.data(), above.data(), first, threshold, got.span());
    ExpectSame<float>("SelectTrits", target, got.span(), want);
  });
}

// make_corpus.cc numbers them too.
constexpr void (*kKernels[])(Input&) = {
    TryPhiloxWords, TryNoiseOdds,         TryMaskedStep, TryFinalMask,
    TryHadamard,    TryAddMasked,         TryAddFloats,  TryLargestMagnitude,
    TryCodedMask,   TryMagnitudesBetween, TryFloat16s,   TryPack,
};

}  // namespace
}  // namespace fedmrn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fedmrn::Input in(data, size);
  fedmrn::kKernels[in.Take<uint8_t>() % std::size(fedmrn::kKernels)](in);
  return 0;
}
