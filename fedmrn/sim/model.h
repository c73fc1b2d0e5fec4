#pragma once

#include <vector>

#include "fedmrn/base/bytes.h"

namespace fedmrn::sim {

// The server's model: all that a round starts from and leaves behind.
struct GlobalModel {
  std::vector<float> weights;  // coded parameters; fedpm: their scores
  std::vector<float> plain;
  // Of the next round's noise, as frames have them (fedmrn/core/magnitude.h);
  // none unless method.magnitude is "auto".
  Bytes magnitudes = {};
};

}  // namespace fedmrn::sim
