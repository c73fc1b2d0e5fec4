#include "fedmrn/core/aggregate.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "fedmrn/base/check.h"
#include "fedmrn/base/parallel.h"
#include "fedmrn/core/accumulate.h"
#include "fedmrn/core/coded_mask.h"
#include "fedmrn/core/scan.h"
#include "fedmrn/core/tile.h"

namespace fedmrn {
namespace {

// The sum may grow to 2^62 and one weighted value to 2^50, which leaves room
// for rounding in both int64 and a double's mantissa.
constexpr int kSumBits = 62;
constexpr int kValueBits = 50;
constexpr int kPlainGridBits = 40;

// The least b with value <= 2^b.
int BitsFor(double value) {
  int exponent;
  return std::frexp(value, &exponent) == 0.5 ? exponent - 1 : exponent;
}

// fn(first_tile, end_tile) over all tiles, in `threads` contiguous ranges.
template <typename Fn>
void ParallelTiles(uint64_t params, int threads, Fn fn) {
  const uint64_t tiles = TilesFor(params);
  const uint64_t parts =
      std::clamp<uint64_t>(threads > 0 ? threads : 1, 1, tiles);
  ParallelFor(parts, parts, [&](size_t, size_t p) {
    fn(tiles * p / parts, tiles * (p + 1) / parts);
  });
}

// The length of floats as a frame has them; the same on every machine.
double Norm(ByteView floats, uint64_t count) {
  double squares = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const double value = LoadLe<float>(floats.data() + i * sizeof(float));
    squares += value * value;
  }
  return std::sqrt(squares);
}

Error Foreign(std::string message) {
  return Error{ErrorCode::kForeign, std::move(message)};
}

}  // namespace

Norms LimitOf(double medians, std::vector<Norms> norms) {
  Norms limit;
  if (norms.empty()) return limit;
  for (double Norms::*which : {&Norms::update, &Norms::plain}) {
    const auto middle = norms.begin() + (norms.size() - 1) / 2;
    std::ranges::nth_element(norms, middle, {}, which);
    limit.*which = medians * (*middle).*which;
  }
  return limit;
}

Aggregator::Aggregator(const RoundSpec& spec)
    : spec_(spec),
      codec_(FindCodec(spec.codec)),
      plain_sum_(spec.plain_count),
      beyond_(noise().magnitudes.size()) {
  if (masked()) {
    small_.resize(TilesFor(spec.params));
  } else {
    sum_.resize(spec.params);
  }
  const int limit_bits = BitsFor(spec.max_abs_value);
  grid_bits_ = kValueBits - limit_bits - BitsFor(spec.max_examples);
  const uint64_t room =
      masked()
          ? (uint64_t{1} << kSumBits) /
                static_cast<uint64_t>(MaxOdd(spec.noise))
          : uint64_t{1} << (kSumBits - kValueBits + BitsFor(spec.max_examples));
  // plain_sum_: 2^40 * 2^40 * 2^46 stays below 2^127.
  max_weight_ = std::min(room, uint64_t{1} << 46);
}

Result<Aggregator> Aggregator::Create(const RoundSpec& spec) {
  const Codec* codec = FindCodec(spec.codec);
  const auto bad = [](std::string message) {
    return Error{ErrorCode::kBadValue, std::move(message)};
  };
  if (codec == nullptr) return bad("there is no such codec");
  if (spec.params == 0 || spec.params > kMaxParams) {
    return bad("the number of parameters must be 1 to 2^32");
  }
  if (spec.plain_count > kMaxPlainValues) return bad("too many plain values");
  if (spec.examples_per_weight == 0 || spec.max_examples == 0) {
    return bad("examples_per_weight and max_examples must be at least 1");
  }
  if (!(spec.max_abs_value >= 0x1p-60f && spec.max_abs_value <= 0x1p30f)) {
    return bad("max_abs_value must be 2^-60 to 2^30");
  }
  for (const PlainRange& range : spec.variances) {
    if (range.first > spec.plain_count ||
        range.count > spec.plain_count - range.first) {
      return bad("a variance is not among the plain values");
    }
  }
  if (codec->uses_noise) {
    const MagnitudesView magnitudes(spec.magnitudes);
    float most = spec.magnitude;
    for (size_t t = 0; t < magnitudes.size(); ++t) {
      most = std::max(most, magnitudes[t].magnitude);
    }
    if (!IsValid({spec.noise, spec.magnitude, 0, magnitudes}) ||
        (!magnitudes.empty() && magnitudes.params() != spec.params)) {
      return bad("the round's noise is not valid");
    }
    if (static_cast<float>(MaxOdd(spec.noise)) * NoiseUnit(spec.noise, most) >
        spec.max_abs_value) {
      return bad("the round's noise exceeds max_abs_value");
    }
  } else if (spec.noise != NoiseKind::kNone || spec.magnitude != 0 ||
             !spec.magnitudes.empty()) {
    return bad("this codec takes no noise");
  }
  return Aggregator(spec);
}

uint64_t Aggregator::WeightOf(const FrameView& frame) const {
  const uint64_t weight =
      (uint64_t{frame.examples} + spec_.examples_per_weight - 1) /
      spec_.examples_per_weight;
  return spec_.max_weight == 0 ? weight : std::min(weight, spec_.max_weight);
}

Status Aggregator::Admit(const FrameView& frame) const {
  if (frame.run != spec_.run) return Foreign("the frame is of another run");
  if (frame.round != spec_.round) {
    return Error{ErrorCode::kStale,
                 "the frame is of round " + std::to_string(frame.round) +
                     ", this is round " + std::to_string(spec_.round)};
  }
  if (frame.broadcast) return Foreign("a model broadcast is not an update");
  if (frame.fingerprint != spec_.fingerprint || frame.params != spec_.params ||
      frame.plain_count != spec_.plain_count) {
    return Foreign("the frame is of another model");
  }
  if (frame.codec != spec_.codec) {
    return Foreign("the frame's codec is " +
                   std::string(FindCodec(frame.codec)->name) +
                   ", this round's is " + std::string(codec_->name));
  }
  if (frame.noise.kind != spec_.noise ||
      frame.noise.magnitude != spec_.magnitude ||
      frame.noise.magnitudes != noise().magnitudes) {
    return Foreign("the frame's noise is not this round's");
  }
  if (codec_->uses_seed && spec_.run_seed.has_value() &&
      frame.noise.seed !=
          ClientSeed(*spec_.run_seed, spec_.round, frame.client)) {
    return Foreign("the frame's seed is not its client's in this round");
  }
  if (seen_.contains(frame.client)) {
    return Error{
        ErrorCode::kDuplicate,
        "client " + std::to_string(frame.client) + " has been added already"};
  }
  if (!spec_.examples.empty()) {
    const auto asked = spec_.examples.find(frame.client);
    if (asked == spec_.examples.end()) {
      return Foreign("client " + std::to_string(frame.client) +
                     " was not asked in this round");
    }
    if (frame.examples != asked->second) {
      return Error{ErrorCode::kBadValue,
                   "client " + std::to_string(frame.client) + " says it has " +
                       std::to_string(frame.examples) + " examples; it has " +
                       std::to_string(asked->second)};
    }
  }
  if (frame.examples > spec_.max_examples) {
    return Error{ErrorCode::kBadValue,
                 std::to_string(frame.examples) +
                     " examples exceed this round's limit of " +
                     std::to_string(spec_.max_examples)};
  }
  if (total_weight_ + WeightOf(frame) > max_weight_) {
    return Error{ErrorCode::kFull, "the round's total weight is exhausted"};
  }
  if (frame.plain_kind == PlainKind::kDelta &&
      spec_.plain_reference.size() != frame.plain_count) {
    return Foreign("the frame has differences to a model that is not known");
  }
  return Ok();
}

std::vector<float> Aggregator::PlainOf(const FrameView& frame) const {
  std::vector<float> plain(frame.plain_count);
  frame.CopyPlain(plain, spec_.plain_reference);
  return plain;
}

double Aggregator::PlainNorm(std::span<const float> plain) const {
  if (spec_.plain_reference.size() != plain.size()) return 0;
  double squares = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    const double moved = double{plain[i]} - spec_.plain_reference[i];
    squares += moved * moved;
  }
  return std::sqrt(squares);
}

Result<Norms> Aggregator::NormsOf(const FrameView& frame) {
  FEDMRN_TRY(Admit(frame));
  return Norms{
      masked() ? 0 : Norm(codec_->addend(frame, scratch_), frame.params),
      PlainNorm(PlainOf(frame))};
}

Status Aggregator::Take(const FrameView& frame, const Norms& most,
                        Batch& batch) {
  FEDMRN_TRY(Admit(frame));
  std::vector<float> plain = PlainOf(frame);
  FEDMRN_TRY(CheckPlain(plain));
  if (const double norm = PlainNorm(plain); norm > most.plain) {
    const double share = most.plain / norm;
    for (size_t i = 0; i < plain.size(); ++i) {
      const double from = spec_.plain_reference[i];
      plain[i] = static_cast<float>(from + (plain[i] - from) * share);
    }
  }
  const uint64_t weight = WeightOf(frame);
  const ByteView addend = codec_->addend(frame, scratch_);
  if (masked()) {
    CountBeyond(*codec_->mask, frame.noise, addend.data(), beyond_);
    batch.masked.push_back({frame.noise, addend.data(), weight});
  } else {
    if (!AllWithin(addend.data(), spec_.params, spec_.max_abs_value)) {
      return Error{ErrorCode::kBadValue,
                   "a value of the update exceeds this round's limit of " +
                       std::to_string(spec_.max_abs_value)};
    }
    double share = 1;
    if (std::isfinite(most.update)) {
      const double norm = Norm(addend, spec_.params);
      if (norm > most.update) share = most.update / norm;
    }
    batch.floats.push_back(
        {addend.data(),
         share * std::ldexp(static_cast<double>(weight), grid_bits_)});
  }
  AddPlain(plain, weight);
  total_weight_ += weight;
  seen_.insert(frame.client);
  return Ok();
}

Status Aggregator::CheckPlain(std::span<const float> plain) const {
  if (!AllWithin(reinterpret_cast<const uint8_t*>(plain.data()), plain.size(),
                 kMaxPlainValue)) {
    return Error{ErrorCode::kBadValue, "a plain value exceeds 2^40"};
  }
  for (const PlainRange& range : spec_.variances) {
    for (float variance : plain.subspan(range.first, range.count)) {
      if (variance < 0) {
        return Error{ErrorCode::kBadValue, "a variance is negative"};
      }
    }
  }
  return Ok();
}

void Aggregator::AddPlain(std::span<const float> plain, uint64_t weight) {
  for (size_t i = 0; i < plain.size(); ++i) {
    plain_sum_[i] += static_cast<Int128>(std::nearbyint(
                         std::ldexp(double{plain[i]}, kPlainGridBits))) *
                     static_cast<Int128>(weight);
  }
}

void Aggregator::AddBatch(Batch& batch, int threads) {
  if (!batch.masked.empty()) AddMaskedUpdates(batch.masked, threads);
  if (!batch.floats.empty()) {
    ParallelTiles(spec_.params, threads, [&](uint64_t first, uint64_t end) {
      AddFloats(batch.floats, first, end, sum_);
    });
  }
  batch = {};
}

Result<FrameView> Aggregator::Parse(ByteView bytes) {
  return ParseFrame(bytes, {spec_.params, &scratch_});
}

Status Aggregator::Add(ByteView bytes, int threads) {
  return Add(FEDMRN_TRY(Parse(bytes)), threads);
}

Status Aggregator::Add(const FrameView& frame, int threads) {
  return Add(frame, threads, Norms{});
}

Status Aggregator::Add(const FrameView& frame, int threads, const Norms& most) {
  Batch batch;
  FEDMRN_TRY(Take(frame, most, batch));
  AddBatch(batch, threads);
  return Ok();
}

std::vector<Status> Aggregator::AddAll(std::span<const ByteView> frames,
                                       int threads) {
  std::vector<Status> verdicts;
  Batch batch;
  const auto take = [&](ByteView bytes) -> Status {
    return Take(FEDMRN_TRY(Parse(bytes)), Norms{}, batch);
  };
  for (const ByteView& bytes : frames) {
    verdicts.push_back(take(bytes));
    // `scratch_` serves one frame at a time.
    if (!scratch_.empty()) AddBatch(batch, threads);
  }
  AddBatch(batch, threads);
  return verdicts;
}

Status Aggregator::AddSoon(ByteView bytes, int threads) {
  const FrameView frame = FEDMRN_TRY(Parse(bytes));
  Batch batch;
  FEDMRN_TRY(Take(frame, Norms{}, batch));
  if (masked() && waiting_bits_.empty()) {
    const MaskedUpdate& update = batch.masked[0];
    waiting_bits_.assign(update.bits, update.bits + BytesForBits(spec_.params));
    waiting_seed_ = update.noise.seed;
    waiting_weight_ = update.weight;
    return Ok();
  }
  Settle(batch, threads);
  return Ok();
}

void Aggregator::Settle(int threads) {
  Batch none;
  Settle(none, threads);
}

void Aggregator::Settle(Batch& batch, int threads) {
  if (!waiting_bits_.empty()) {
    Noise own = noise();
    own.seed = waiting_seed_;
    batch.masked.push_back({own, waiting_bits_.data(), waiting_weight_});
  }
  AddBatch(batch, threads);
  waiting_bits_.clear();
}

void Aggregator::Drain(int64_t factor, int threads) {
  sum_.resize(spec_.params);
  ParallelTiles(spec_.params, threads, [&](uint64_t first, uint64_t end) {
    DrainMasked(spec_.noise, factor, first, end, small_, sum_);
  });
  small_weight_ = 0;
}

void Aggregator::AddMaskedUpdates(std::span<const MaskedUpdate> updates,
                                  int threads) {
  const uint64_t room = MaxSmallWeight(spec_.noise);
  const auto add = [&](std::span<const MaskedUpdate> some) {
    ParallelTiles(spec_.params, threads, [&](uint64_t first, uint64_t end) {
      AddMasked(*codec_->mask, some, first, end, spec_.params, small_);
    });
  };
  for (size_t k = 0; k < updates.size();) {
    if (updates[k].weight > room) {
      // Too heavy for int32: on its own, with the weight as a factor.
      if (small_weight_ > 0) Drain(1, threads);
      MaskedUpdate unweighted = updates[k];
      unweighted.weight = 1;
      add({&unweighted, 1});
      Drain(static_cast<int64_t>(updates[k].weight), threads);
      ++k;
      continue;
    }
    size_t end = k;
    while (end < updates.size() &&
           small_weight_ + updates[end].weight <= room) {
      small_weight_ += updates[end++].weight;
    }
    add(updates.subspan(k, end - k));
    if (end < updates.size()) Drain(1, threads);
    k = end;
  }
}

Status Aggregator::Finish(std::span<float> weights, std::span<float> plain,
                          int threads) const {
  FEDMRN_CHECK(weights.size() == spec_.params);
  FEDMRN_CHECK(plain.size() == spec_.plain_count);
  FEDMRN_CHECK(waiting_bits_.empty(), "Settle comes first");
  if (seen_.empty()) {
    return Error{ErrorCode::kBadValue, "no frame has been added"};
  }
  const auto weight = static_cast<double>(total_weight_);
  const double grid_unit = std::ldexp(1.0, -grid_bits_);
  ParallelTiles(spec_.params, threads, [&](uint64_t first, uint64_t end) {
    UnitTiles units(noise());
    for (uint64_t tile = first; tile < end; ++tile) {
      const size_t at = tile * kTile;
      const size_t count = std::min<size_t>(kTile, weights.size() - at);
      int64_t total[kTile] = {};
      if (!sum_.empty()) std::copy_n(sum_.data() + at, count, total);
      if (masked()) {
        SmallTile copy = small_[tile];
        DrainMasked(spec_.noise, 1, 0, 1, {&copy, 1}, {total, kTile});
      }
      const auto add = [&](size_t i, double unit) {
        weights[at + i] =
            static_cast<float>(double{weights[at + i]} +
                               static_cast<double>(total[i]) * (unit / weight));
      };
      const float* unit = units.At(tile);
      for (size_t i = 0; masked() && i < count; ++i) add(i, unit[i]);
      for (size_t i = 0; !masked() && i < count; ++i) add(i, grid_unit);
    }
  });
  const double plain_scale =
      std::ldexp(1 / static_cast<double>(total_weight_), -kPlainGridBits);
  for (size_t i = 0; i < plain.size(); ++i) {
    plain[i] =
        static_cast<float>(static_cast<double>(plain_sum_[i]) * plain_scale);
  }
  return Ok();
}

}  // namespace fedmrn
