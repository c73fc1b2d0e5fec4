#include "fedmrn/client/faults.h"

#include <array>
#include <utility>

#include "fedmrn/client/hostile.h"
#include "fedmrn/core/random.h"

namespace fedmrn::client {
namespace {

enum class Fault { kNone, kDrop, kCrash, kCorrupt, kDelay };

struct Injected {
  Fault fault = Fault::kNone;
  double where = 0;  // in [0, 1): how far into the training, or the frame
};

Injected FaultOf(const FaultSettings& faults, uint64_t seed,
                 const Order& order) {
  std::array<uint32_t, 4> words;
  PhiloxWords({seed, Purpose::kFault, order.round},
              uint64_t{order.attempt} << 32 | order.client, words);
  Injected injected;
  injected.where = words[1] * 0x1p-32;
  double chance = words[0] * 0x1p-32;
  for (const auto& [fault, probability] : {std::pair{Fault::kDrop, faults.drop},
                                           {Fault::kCrash, faults.crash},
                                           {Fault::kCorrupt, faults.corrupt},
                                           {Fault::kDelay, faults.delay}}) {
    if (chance < probability) {
      injected.fault = fault;
      break;
    }
    chance -= probability;
  }
  return injected;
}

}  // namespace

FaultyClient::FaultyClient(const FaultSettings& faults, uint64_t seed,
                           Client& client,
                           std::function<void(double seconds)> sleep)
    : faults_(faults), seed_(seed), client_(client), sleep_(std::move(sleep)) {}

Result<Answer> FaultyClient::Answer(const Order& order, ByteView broadcast,
                                    const AfterStep& after_step) {
  const Injected injected = FaultOf(faults_, seed_, order);
  if (injected.fault == Fault::kDrop) {
    return Error{ErrorCode::kUnavailable, "dropped (injected)"};
  }
  const auto steps_left = static_cast<uint64_t>(
      injected.where * static_cast<double>(client_.steps()));
  uint64_t step = 0;
  bool crashed = false;
  const AfterStep until_crash = [&](size_t examples) {
    crashed = injected.fault == Fault::kCrash && ++step > steps_left;
    return after_step(examples) && !crashed;
  };
  Result<client::Answer> answer =
      IsHostile(faults_, seed_, order.client)
          ? HostileAnswer(faults_.attack, seed_, client_, order, broadcast,
                          until_crash)
          : client_.Answer(order, broadcast, until_crash);
  if (crashed) {
    return Error{ErrorCode::kUnavailable, "crashed (injected)"};
  }
  if (!answer) return answer;
  if (injected.fault == Fault::kCorrupt) {
    Bytes& frame = answer->frame;
    frame[static_cast<size_t>(injected.where *
                              static_cast<double>(frame.size()))] ^= 0x40;
  }
  if (injected.fault == Fault::kDelay) sleep_(faults_.delay_s);
  return answer;
}

}  // namespace fedmrn::client
