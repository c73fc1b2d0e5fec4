#include "fedmrn/client/hostile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "fedmrn/core/random.h"

namespace fedmrn::client {
namespace {

// A server's usual limits (RoundSpec): what exceeds them is refused, so it does
// no harm.
constexpr float kMostOfAnUpdate = 16;
constexpr uint32_t kMostExamples = 1 << 20;
// Batch norm is spoilt by far less than the 2^40 that a plain value may be.
constexpr float kPlainFactor = 0x1p20f;

float LargestOf(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// Each value is what `with` makes of it.
template <typename With>
void Replace(std::span<float> values, With with) {
  for (float& value : values) value = with(value);
}

// The opposite of what was learned: of masks' probabilities as well.
void Flip(const Codec& codec, std::span<float> update) {
  Replace(update,
          [&](float u) { return codec.encodes_probabilities ? 1 - u : -u; });
}

void Randomise(const Codec& codec, uint64_t seed, const Order& order,
               std::span<float> update) {
  Random random({SeedsOf(seed, order.round, order.client).draw, Purpose::kFault,
                 order.round});
  double squares = 0;
  for (const float u : update) squares += double{u} * u;
  const double size = std::sqrt(squares / static_cast<double>(update.size()));
  Replace(update, [&](float) {
    return static_cast<float>(codec.encodes_probabilities
                                  ? random.Uniform()
                                  : size * random.Normal());
  });
}

// As large as it can be without being refused: where the codec has scales,
// decoded values are larger than the update's, so it goes down until they fit.
Result<Bytes> Inflated(Client& client, const Codec& codec,
                       const FrameHeader& header) {
  train::LocalModel& local = client.trained();
  std::vector<float> no_state, decoded(local.update.size());
  const std::vector<float> learned = local.update;
  const float largest = std::max(LargestOf(learned), 1e-30f);
  if (codec.encodes_probabilities) {
    Replace(local.update, [](float) { return 1.0f; });
  }
  Replace(local.plain, [](float v) {
    return std::clamp(v * kPlainFactor, -0x1p39f, 0x1p39f);
  });
  for (float most = kMostOfAnUpdate;; most /= 2) {
    if (!codec.encodes_probabilities) {
      for (size_t i = 0; i < learned.size(); ++i) {
        local.update[i] = learned[i] / largest * most;
      }
      local.scales.assign(client.task().model.layout.segments().size(), most);
    }
    Bytes frame = FEDMRN_TRY(client.Encode(header, no_state));
    DecodeUpdate(FEDMRN_TRY(ParseFrame(frame)), decoded);
    if (LargestOf(decoded) <= kMostOfAnUpdate) return frame;
  }
}

}  // namespace

bool IsHostile(const FaultSettings& faults, uint64_t seed, uint32_t client) {
  // Rounds count from 1, so these are no round's draws.
  std::array<uint32_t, 4> words;
  PhiloxWords({seed, Purpose::kFault, 0}, client, words);
  return words[0] * 0x1p-32 < faults.hostile;
}

Result<Answer> HostileAnswer(Attack attack, uint64_t seed, Client& client,
                             const Order& order, ByteView broadcast,
                             const AfterStep& after_step) {
  Answer answer = FEDMRN_TRY(client.Answer(order, broadcast, after_step));
  FrameHeader header = client.HeaderOf(order);
  const Codec& codec = *FindCodec(header.codec);
  train::LocalModel& local = client.trained();
  switch (attack) {
    case Attack::kFlip:
      Flip(codec, local.update);
      break;
    case Attack::kInflate:
      answer.frame = FEDMRN_TRY(Inflated(client, codec, header));
      return answer;
    case Attack::kRandom:
      Randomise(codec, seed, order, local.update);
      break;
    case Attack::kReplay:
      // What it, or another one, would have sent before.
      order.round % 2 == 0 ? --header.round : ++header.client;
      break;
    case Attack::kSeed:
      if (codec.uses_seed) ++header.noise.seed;
      break;
    case Attack::kWeight:
      header.examples = kMostExamples;
      break;
    case Attack::kVariance:
      for (const PlainRange& range : client.task().model.layout.variances()) {
        Replace(std::span(local.plain).subspan(range.first, range.count),
                [](float) { return -1.0f; });
      }
      break;
  }
  std::vector<float> no_state;
  answer.frame = FEDMRN_TRY(client.Encode(header, no_state));
  return answer;
}

}  // namespace fedmrn::client
