#pragma once

#include "fedmrn/base/settings.h"

namespace fedmrn::client {

// What a hostile client sends in frames that are well-formed.
enum class Attack {
  kFlip,      // the opposite of what it has learned
  kInflate,   // values as large as a server lets through
  kRandom,    // values of the usual size that mean nothing
  kReplay,    // a frame of the round before, or of another client
  kSeed,      // noise of its own choice
  kWeight,    // more examples than it has
  kVariance,  // negative variances
};
inline constexpr Choice kAttacks[] = {
    {"flip", Attack::kFlip},
    {"inflate", Attack::kInflate},
    {"random", Attack::kRandom},
    {"replay", Attack::kReplay},
    {"seed", Attack::kSeed},
    {"weight", Attack::kWeight},
    {"nan-variance", Attack::kVariance},
};

// A client's chance, per round, to fail in this way.
struct FaultSettings {
  double drop = 0;     // never answers
  double crash = 0;    // stops in the middle of its training
  double corrupt = 0;  // its frame arrives damaged
  double delay = 0;    // answers late, by delay_s
  double delay_s = 1;
  // A client's chance to be hostile, from the first round to the last.
  double hostile = 0;
  Attack attack = Attack::kFlip;
};

}  // namespace fedmrn::client
