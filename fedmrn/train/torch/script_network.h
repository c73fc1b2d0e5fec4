#pragma once

#include "fedmrn/train/torch_module.h"

namespace fedmrn {

Result<Model> MakeScriptModel(const ScriptSpec& spec, const Data& data);

}  // namespace fedmrn
