#pragma once

#include <vector>

#include "fedmrn/base/bytes.h"

namespace fedmrn::sim {

// What the server's optimizer keeps from round to round: of each weight, then
// of each trainable plain value. Empty before its first step.
struct Moments {
  std::vector<float> first, second;
};

// The server's model: all that a round starts from and leaves behind.
struct GlobalModel {
  std::vector<float> weights;  // coded parameters; fedpm: their scores
  std::vector<float> plain;
  // The next round's noise has these, as frames hold them
  // (fedmrn/core/magnitude.h); none unless method.magnitude is "auto".
  Bytes magnitudes = {};
  Moments moments = {};
};

}  // namespace fedmrn::sim
