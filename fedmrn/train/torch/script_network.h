#pragma once

#include "fedmrn/train/torch_module.h"

namespace fedmrn {

Result<Model> MakeScriptModel(const ScriptSpec& spec, const Data& data);
Result<std::vector<NamedTensor>> ReadTensors(const std::string& file,
                                             const std::string& contents);

}  // namespace fedmrn
