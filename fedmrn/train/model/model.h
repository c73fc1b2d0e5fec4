// Networks: a table of them, and what each is to the rest of the program.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/base/settings.h"
#include "fedmrn/core/layout.h"
#include "fedmrn/core/philox.h"
#include "fedmrn/train/data/data.h"
#include "fedmrn/train/model/loss.h"
#include "fedmrn/train/model/torchscript.h"

namespace fedmrn::train {

// One worker's copy of a network, with its buffers. Not thread-safe. Results
// do not depend on what it computed before. The parameters are two flat buffers
// of the caller: see task.h.
class Network {
 public:
  virtual ~Network() = default;

  // Mean loss of the batch and its gradient; updates the statistics in
  // `plain`. `draws` feeds what is random about it (dropout).
  virtual BatchScore Gradient(const Batch& batch, const PhiloxStream& draws,
                              std::span<const float> coded,
                              std::span<float> plain,
                              std::span<float> coded_gradient,
                              std::span<float> plain_gradient) = 0;

  // As a deployed model would do: running statistics, no dropout.
  virtual Score Evaluate(const Batch& batch, std::span<const float> coded,
                         std::span<const float> plain) = 0;
};

// What stands between a convolution and its ReLU.
enum class Norm { kBatch, kGroup, kNone };

struct ModelSettings {
  std::string name;              // of its row
  std::string torchscript = {};  // file of a module, for the model of that name
  std::string coded = {};  // patterns of tensor names, commas between; empty:
                           // all of more than one dimension
  LossKind loss = LossKind::kAuto;
  std::string init = {};      // file of tensors to start from, or empty
  Norm norm = Norm::kBatch;   // cnn4, cnn8
  std::string backbone = {};  // file of pre-trained tensors, or empty
  double head_lr = 10;   // bisenetv2: the heads learn faster by this factor
  uint32_t threads = 1;  // that one network computes on
  // Numbers of networks that other programs register, by names of their own.
  std::map<std::string, double> own = {};

  bool operator==(const ModelSettings&) const = default;
};
using ModelKey = Key<ModelSettings>;
// All keys of the program's own networks, in the config's order.
std::span<const ModelKey> ModelKeys();

// A network for one data set. Immutable and thread-safe.
struct Model {
  ModelLayout layout;
  uint32_t threads = 1;             // that one network computes on
  uint32_t library_threads = 1;     // of these, what oneDNN and LibTorch start
  uint64_t trainable_plain = 0;     // the first values of `plain`; see task.h
  uint64_t local_values = 0;        // of tensors beside the layout's; same
  const char* metric = "accuracy";  // what Score::metric adds up
  std::function<void(uint64_t seed, std::span<float> coded,
                     std::span<float> plain)>
      initialize;
  std::function<std::unique_ptr<Network>()> make_network;
  // The contents of a TorchScript file, for torch.jit.load.
  std::function<Result<std::string>(std::span<const float> coded,
                                    std::span<const float> plain)>
      torchscript;
};

struct ModelRow {
  std::string_view name;
  std::string_view summary;
  // Refuses data that the network cannot take, naming both.
  Result<Model> (*make)(const ModelSettings& settings, const Data& data);
  // What suits this network, for all methods that train weights, and of binary
  // masks' noise; 0: the method's own, which suits the image sets.
  double lr = 0;
  double magnitude = 0;
  // Whether the network itself is a file of the user's, model.torchscript.
  bool is_file = false;
  // The keys that it reads. A network from outside may bring its own, with a
  // place in ModelSettings::own.
  std::vector<const ModelKey*> keys = {};
};

const std::deque<ModelRow>& Models();
const ModelRow* FindModel(std::string_view name);  // null if there is none
// Another row, before the first config is parsed.
void RegisterModel(const ModelRow& model);

// For models' files: a model's tensors as TorchScript files hold them.
std::vector<TorchScriptTensor> TensorsOf(const ModelLayout& layout,
                                         uint64_t trainable_plain,
                                         std::span<const float> coded,
                                         std::span<const float> plain);

// Rows of the table.
Result<Model> MakeCnn(const ModelSettings& settings, const Data& data);
Result<Model> MakeCharLstm(const ModelSettings& settings, const Data& data);
Result<Model> MakeBiSeNetV2(const ModelSettings& settings, const Data& data);
Result<Model> MakeTorchScriptModel(const ModelSettings& settings,
                                   const Data& data);

}  // namespace fedmrn::train
