// What the models that LibTorch computes share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/train/data/data.h"
#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::train {

Result<std::string> ReadModelFile(const std::string& path);

std::string ShapeText(const std::vector<int64_t>& shape);  // "[10, 256]"

// `wanted`, or `usual` for LossKind::kAuto. Refuses one that the data does not
// suit.
Result<LossKind> ChooseLoss(LossKind wanted, LossKind usual, const Data& data);

}  // namespace fedmrn::train
