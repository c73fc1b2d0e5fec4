// What the program asks of LibTorch, and the door to it.
#include <torch/version.h>

#include "fedmrn/train/torch/plain_cnn.h"
#include "fedmrn/train/torch/plain_lstm.h"
#include "fedmrn/train/torch/plain_script.h"
#include "fedmrn/train/torch/script_loading.h"
#include "fedmrn/train/torch/torch_file.h"
#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::train {
namespace {

std::string Version() { return TORCH_VERSION; }

}  // namespace
}  // namespace fedmrn::train

extern "C" __attribute__((visibility("default")))
const fedmrn::train::TorchModule*
fedmrn_torch_module() {
  static constexpr fedmrn::train::TorchModule kModule{
      fedmrn::train::MakePlainCnn,    fedmrn::train::MakePlainLstm,
      fedmrn::train::MakePlainScript, fedmrn::train::MakeScriptModel,
      fedmrn::train::ReadTensors,     fedmrn::train::Version};
  return &kModule;
}
