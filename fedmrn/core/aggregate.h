// The server's side of a round (paper, Eq. 5):
//
//   w <- w + sum_k p'_k * u_hat_k,   p'_k = weight_k / sum of weights,
//
// straight from frames, in O(d) memory whatever the number of clients. The sum
// is kept in integers, so it is the same to the bit for any order of arrival,
// any grouping into calls and any number of threads: masked noise is summed
// exactly, in units of the noise; other updates' values are rounded once each
// to a fixed grid. Which of the two it is, and where a frame has its bits or
// values, is the codec's to say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/core/accumulate.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/layout.h"

namespace fedmrn {

// What a round's frames must look like. A frame that differs is refused, so
// that one client can neither spoil the sum nor outweigh the others.
struct RoundSpec {
  uint64_t run = 0;
  uint32_t round = 0;
  // If it is known, the seed of a client's frame must be the ClientSeed of it.
  std::optional<uint64_t> run_seed = std::nullopt;
  uint64_t fingerprint = 0;
  uint64_t params = 0;
  uint32_t plain_count = 0;
  CodecId codec = CodecId::kMrnBinary;
  NoiseKind noise = NoiseKind::kNone;  // the mrn codecs: every client's noise
  float magnitude = 0;
  // Instead: that of each tensor, as the broadcast has them (magnitude.h).
  Bytes magnitudes = {};
  // Weight = examples / examples_per_weight, rounded up. 1: the paper's share
  // of the data; the batch size: the authors' share of the mini-batches.
  uint32_t examples_per_weight = 1;
  // The broadcast's plain section, for frames that carry differences to it;
  // without one they are refused.
  std::vector<float> plain_reference = {};
  // Which plain values must not be negative: variances.
  std::vector<PlainRange> variances = {};
  // The server's own record of who was asked and how many examples each has, if
  // it keeps one: nobody else is counted, and no other number is believed.
  std::map<uint64_t, uint32_t> examples = {};
  // The most that one client weighs; 0: whatever follows from its examples.
  uint64_t max_weight = 0;
  // Hostile values end here.
  uint32_t max_examples = 1 << 20;
  float max_abs_value = 16;  // of an update, masked or not
};

// How far a frame moves the model: the Euclidean norms of its update and of the
// difference of its plain section to the broadcast's.
struct Norms {
  double update = std::numeric_limits<double>::infinity();
  double plain = std::numeric_limits<double>::infinity();
};

// So many times the medians of what a round's clients sent (of two in the
// middle the lesser): what nobody may exceed.
Norms LimitOf(double medians, std::vector<Norms> norms);

// Not thread-safe, but uses as many threads of its own as it is told.
class Aggregator {
 public:
  // Fails on a spec that no frame can meet.
  static Result<Aggregator> Create(const RoundSpec& spec);

  // ParseFrame, with this round's limits. What it unpacks lasts until the next
  // call.
  Result<FrameView> Parse(ByteView bytes);

  // Adds one frame, in bytes or as either parse gave it. On an error the sum is
  // untouched and the frame may be dropped and forgotten.
  Status Add(ByteView bytes, int threads = 1);
  Status Add(const FrameView& frame, int threads = 1);
  // The same, with what exceeds `most` scaled down to it.
  Status Add(const FrameView& frame, int threads, const Norms& most);
  // The frame is one that Add would take; masked noise, which no client can
  // make longer than the noise, counts as 0.
  Result<Norms> NormsOf(const FrameView& frame);

  // Adds several frames; one verdict each, in their order. Faster than one by
  // one: the sum is read and written once for all of them.
  std::vector<Status> AddAll(std::span<const ByteView> frames, int threads);

  // Adds one frame, of which a mask is checked and counted now but may wait, in
  // a copy, for the next: two are summed together faster than one by one.
  // Settle sums what waits; Finish needs that nothing does.
  Status AddSoon(ByteView bytes, int threads);
  void Settle(int threads);

  size_t clients() const { return seen_.size(); }
  uint64_t total_weight() const { return total_weight_; }
  // For each tensor with a magnitude of its own, how many updates of all
  // clients lay beyond their thresholds: what SteerMagnitudes goes by.
  std::span<const uint64_t> beyond() const { return beyond_; }

  // weights <- weights + mean update; plain <- mean plain section. Fails, and
  // changes nothing, if no frame has been added. The sum stays as it is.
  Status Finish(std::span<float> weights, std::span<float> plain,
                int threads = 1) const;

 private:
  __extension__ using Int128 = __int128;

  // Updates that are summed together, all of one kind.
  struct Batch {
    std::vector<MaskedUpdate> masked;
    std::vector<FloatUpdate> floats;
  };

  explicit Aggregator(const RoundSpec& spec);
  // The checks that depend on this round.
  Status Admit(const FrameView& frame) const;
  uint64_t WeightOf(const FrameView& frame) const;
  // The plain section and the norm of its difference to the broadcast's; 0
  // without one.
  std::vector<float> PlainOf(const FrameView& frame) const;
  double PlainNorm(std::span<const float> plain) const;
  bool masked() const { return codec_->mask.has_value(); }
  // Every client's, but for the seed.
  Noise noise() const {
    return {spec_.noise, spec_.magnitude, 0, MagnitudesView(spec_.magnitudes)};
  }
  // Checks a frame and counts it in; its update waits in `batch` to be summed.
  Status Take(const FrameView& frame, const Norms& most, Batch& batch);
  Status CheckPlain(std::span<const float> plain) const;
  void AddPlain(std::span<const float> plain, uint64_t weight);
  // Sums what is in the batch, and empties it.
  void AddBatch(Batch& batch, int threads);
  // The same, with the mask that waits.
  void Settle(Batch& batch, int threads);
  void AddMaskedUpdates(std::span<const MaskedUpdate> updates, int threads);
  void Drain(int64_t factor, int threads);

  RoundSpec spec_;
  const Codec* codec_;
  int grid_bits_ = 0;        // other codecs: sum_ counts in 2^-grid_bits_
  uint64_t max_weight_ = 0;  // the most that sum_ has room for
  uint64_t total_weight_ = 0;
  std::unordered_set<uint64_t> seen_;
  std::vector<int64_t> sum_;       // masked: empty until small_ is first full
  std::vector<SmallTile> small_;   // masked: where updates are added first
  uint64_t small_weight_ = 0;      // in small_
  std::vector<Int128> plain_sum_;  // in 2^-40
  std::vector<uint64_t> beyond_;
  Bytes scratch_;  // what the codec had to unpack of one frame
  // AddSoon: the mask that waits, if there are bits of one.
  Bytes waiting_bits_;
  uint64_t waiting_seed_ = 0, waiting_weight_ = 0;
};

}  // namespace fedmrn
