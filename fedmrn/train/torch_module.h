// LibTorch, in a module that is opened when it is first needed: it takes 0.7 s
// and 160 MB to load, which is no way to start `fedmrn --help`.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "fedmrn/core/result.h"
#include "fedmrn/train/cnn.h"
#include "fedmrn/train/data.h"
#include "fedmrn/train/torchscript.h"

namespace fedmrn {

// A network as users of LibTorch write it, with LibTorch's autograd and SGD:
// what the bench compares with.
class PlainNetwork {
 public:
  virtual ~PlainNetwork() = default;
  // One training step; returns the loss. Images are NCHW.
  virtual double Step(const Batch& batch) = 0;
};

struct TorchModule {
  Result<std::string> (*make_torchscript)(
      std::span<const TorchScriptTensor> tensors, const std::string& source);
  std::unique_ptr<PlainNetwork> (*make_plain_cnn)(const CnnSpec& spec,
                                                  const ImageShape& image,
                                                  uint32_t classes, double lr);
  std::unique_ptr<PlainNetwork> (*make_plain_lstm)(uint32_t vocabulary,
                                                   uint32_t classes, double lr);
};

// Thread-safe. The error says which library is missing.
Result<const TorchModule*> LoadTorchModule();

}  // namespace fedmrn
