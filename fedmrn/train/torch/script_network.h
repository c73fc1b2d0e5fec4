#pragma once

#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::train {

Result<Model> MakeScriptModel(const ScriptSpec& spec, const Data& data);
Result<std::vector<NamedTensor>> ReadTensors(const std::string& file,
                                             const std::string& contents);

}  // namespace fedmrn::train
