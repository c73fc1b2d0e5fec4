#pragma once

#include <memory>

#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::train {

std::unique_ptr<PlainNetwork> MakePlainCnn(const CnnSpec& spec,
                                           const ImageShape& image,
                                           uint32_t classes, double lr);

}  // namespace fedmrn::train
