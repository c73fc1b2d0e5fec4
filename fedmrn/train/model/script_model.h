// What the models that LibTorch computes share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/train/data/data.h"
#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::train {

Result<std::string> ReadModelFile(const std::string& path);

// Whether LibTorch lives through the work with this file, which is done in a
// copy of this process: it crashes on some files that are damaged.
Status TryWithLibTorch(const std::string& file,
                       const std::function<void()>& work);

std::string ShapeText(const std::vector<int64_t>& shape);  // "[10, 256]"

// `wanted`, or `usual` for LossKind::kAuto. Refuses one that the data does not
// suit.
Result<LossKind> ChooseLoss(LossKind wanted, LossKind usual, const Data& data);

}  // namespace fedmrn::train
