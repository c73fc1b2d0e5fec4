#pragma once

#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::train {

Result<Model> MakeScriptModel(const ScriptSpec& spec, const Data& data);

}  // namespace fedmrn::train
