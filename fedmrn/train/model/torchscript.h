// model.pt: the trained network as a TorchScript file, which Python's
// torch.jit.load runs, and trains on, without any of our code.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fedmrn/base/result.h"

namespace fedmrn::train {

struct TorchScriptTensor {
  std::string name;  // "conv1.weight": the tensor `weight` of module `conv1`
  std::vector<int64_t> shape;
  std::span<const float> values;
  bool trainable = true;  // false: a buffer, such as running statistics
};

// The contents of a file that holds a module in evaluation mode, whose
// state_dict() has exactly `tensors` and whose methods are `source`: functions
// in TorchScript that take self, one of them forward. The same arguments give
// the same bytes. Nothing compiles the source here: torch.jit.load does, and
// says what is wrong with it. Thread-safe.
Result<std::string> MakeTorchScript(std::span<const TorchScriptTensor> tensors,
                                    const std::string& source);

// A method for networks of images, whose channels were normalised by `mean` and
// `std`:
//   normalise(pixels)  what forward takes, from bytes 0 to 255, NCHW
// so that m(m.normalise(pixels)) classifies.
std::string NormaliseSource(std::span<const float> mean,
                            std::span<const float> std);

// The methods of a CNN of pool_after.size() blocks, each conv{i} (3x3, padding
// 1, no bias), its norm, ReLU and, if pool_after[i - 1], max-pooling by 2, and
// then `fc` (no bias):
//   forward(x)  class scores of normalised float images, NCHW
// and normalise, as above. The norm is a line of TorchScript that makes x of x,
// for block {0}; see BatchNormSource and GroupNormSource. Empty: none.
std::string CnnSource(const std::vector<bool>& pool_after,
                      const std::string& norm, std::span<const float> mean,
                      std::span<const float> std);
std::string BatchNormSource();            // bn{i}
std::string GroupNormSource(int groups);  // gn{i}

}  // namespace fedmrn::train
