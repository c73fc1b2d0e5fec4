// A client that wants to do harm, by frames that any parser accepts: a wrapper
// that trains as an honest one does and then sends something else. Who is
// hostile is a pure function of seed and client, so such runs repeat to the
// bit.
#pragma once

#include "fedmrn/client/client.h"
#include "fedmrn/client/fault_settings.h"

namespace fedmrn::client {

// Whether this client is hostile in a run of this seed.
bool IsHostile(const FaultSettings& faults, uint64_t seed, uint32_t client);

// As client.Answer, but with the frame of an attack.
Result<Answer> HostileAnswer(Attack attack, uint64_t seed, Client& client,
                             const Order& order, ByteView broadcast,
                             const AfterStep& after_step);

}  // namespace fedmrn::client
