#pragma once

#include <vector>

namespace fedmrn::sim {

// The server's model: all that a round starts from and leaves behind.
struct GlobalModel {
  std::vector<float> weights;  // coded parameters; fedpm: their scores
  std::vector<float> plain;
};

}  // namespace fedmrn::sim
