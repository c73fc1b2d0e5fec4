// LibTorch, in a module that is opened when it is first needed: it takes 0.7 s
// and 160 MB to load, which is no way to start `fedmrn --help`.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/train/model/cnn.h"
#include "fedmrn/train/model/model.h"
#include "fedmrn/train/model/torchscript.h"

namespace fedmrn::train {

// A network as users of LibTorch write it, with LibTorch's autograd and SGD:
// what the bench compares with.
class PlainNetwork {
 public:
  virtual ~PlainNetwork() = default;
  // One training step; returns the loss. Images are NCHW.
  virtual double Step(const Batch& batch) = 0;
};

// A TorchScript module that is to be trained.
struct ScriptSpec {
  std::string name;                         // in messages: its file
  std::string contents;                     // of that
  std::string coded;                        // as in ModelSettings
  LossKind loss = LossKind::kCrossEntropy;  // never kAuto
  double variance = 1;                      // of the test targets, for R2
  uint32_t threads = 1;                     // as in ModelSettings
  // By which a tensor's gradient is multiplied; null: 1.
  std::function<float(const std::string& tensor)> gradient_scale;
};

struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

struct TorchModule {
  std::unique_ptr<PlainNetwork> (*make_plain_cnn)(const CnnSpec& spec,
                                                  const ImageShape& image,
                                                  uint32_t classes, double lr);
  std::unique_ptr<PlainNetwork> (*make_plain_lstm)(uint32_t vocabulary,
                                                   uint32_t classes, double lr);
  // A module that takes images, from the contents of a file that was loaded
  // before; its outputs are classes, of images or of all pixels.
  std::unique_ptr<PlainNetwork> (*make_plain_script)(
      const std::string& contents, double lr);
  // Its initial values are those in the file. The error names the file, what is
  // wrong with it and what to do. A network throws std::runtime_error with such
  // a sentence where the module fails or gives what `data` cannot be compared
  // with.
  Result<Model> (*make_script_model)(const ScriptSpec& spec, const Data& data);
  // The float tensors in a file of torch.jit.save, or of torch.save with a
  // dictionary of them, such as a state_dict; dictionaries may be nested.
  // `file` is its name, for the error.
  Result<std::vector<NamedTensor>> (*read_tensors)(const std::string& file,
                                                   const std::string& contents);
  // The headers have it; LibTorch cannot tell itself.
  std::string (*version)();
};

// Thread-safe. The error says which library is missing.
Result<const TorchModule*> LoadTorchModule();

}  // namespace fedmrn::train
