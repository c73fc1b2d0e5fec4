// LibTorch, in a module that is opened when it is first needed: it takes 0.7 s
// and 160 MB to load, which is no way to start `fedmrn --help`.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "fedmrn/core/result.h"
#include "fedmrn/train/cnn.h"
#include "fedmrn/train/torchscript.h"

namespace fedmrn {

// The same network as plain LibTorch modules with LibTorch's own SGD: what the
// bench compares with.
class PlainCnn {
 public:
  virtual ~PlainCnn() = default;
  // One training step on NCHW images; returns the loss.
  virtual double Step(std::span<const float> x,
                      std::span<const uint16_t> labels) = 0;
};

struct TorchModule {
  Result<std::string> (*make_torchscript)(
      std::span<const TorchScriptTensor> tensors, const std::string& source);
  std::unique_ptr<PlainCnn> (*make_plain_cnn)(const CnnSpec& spec,
                                              const ImageShape& image,
                                              uint32_t classes, double lr);
};

// Thread-safe. The error says which library is missing.
Result<const TorchModule*> LoadTorchModule();

}  // namespace fedmrn
