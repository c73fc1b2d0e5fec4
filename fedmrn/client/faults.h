// Faults of clients, injected: a wrapper that keeps a client from answering, or
// from answering well. Whether and how it fails is a pure function of seed,
// round, attempt and client, so runs with faults repeat to the bit.
#pragma once

#include <functional>

#include "fedmrn/client/client.h"
#include "fedmrn/client/fault_settings.h"

namespace fedmrn::client {

class FaultyClient {
 public:
  // All references outlive it. `sleep` waits for so many seconds, or less if
  // nobody waits for the answer any more.
  FaultyClient(const FaultSettings& faults, uint64_t seed, Client& client,
               std::function<void(double seconds)> sleep);

  // As Client::Answer, unless a fault is due.
  Result<client::Answer> Answer(const Order& order, ByteView broadcast,
                                const AfterStep& after_step);

 private:
  const FaultSettings& faults_;
  uint64_t seed_;
  Client& client_;
  std::function<void(double seconds)> sleep_;
};

}  // namespace fedmrn::client
