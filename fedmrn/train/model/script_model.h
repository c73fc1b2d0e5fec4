// What the models that LibTorch computes share.
#pragma once

#include <string>

#include "fedmrn/base/result.h"
#include "fedmrn/train/data/data.h"
#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::train {

Result<std::string> ReadModelFile(const std::string& path);

// `name` is that of ModelSettings; `usual` is taken for "auto" or none.
Result<ScriptLoss> FindScriptLoss(const std::string& name, ScriptLoss usual,
                                  const Data& data);

}  // namespace fedmrn::train
