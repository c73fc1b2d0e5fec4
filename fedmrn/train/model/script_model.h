// What the models that LibTorch computes share.
#pragma once

#include <string>

#include "fedmrn/base/result.h"
#include "fedmrn/train/data/data.h"
#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::train {

Result<std::string> ReadModelFile(const std::string& path);

// `wanted`, or `usual` for LossKind::kAuto. Refuses one that the data does not
// suit.
Result<LossKind> ChooseLoss(LossKind wanted, LossKind usual, const Data& data);

}  // namespace fedmrn::train
