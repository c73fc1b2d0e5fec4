#pragma once

namespace fedmrn::client {

// A client's chance, per round, to fail in this way.
struct FaultSettings {
  double drop = 0;     // never answers
  double crash = 0;    // stops in the middle of its training
  double corrupt = 0;  // its frame arrives damaged
  double delay = 0;    // answers late, by delay_s
  double delay_s = 1;
};

}  // namespace fedmrn::client
