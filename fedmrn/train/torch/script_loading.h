// A file's TorchScript module as a model: what forward must be, which tensors
// are trained, and the trained module as a file again.
#pragma once

#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::train {

Result<Model> MakeScriptModel(const ScriptSpec& spec, const Data& data);

}  // namespace fedmrn::train
