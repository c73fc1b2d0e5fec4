#pragma once

#include <memory>

#include "fedmrn/train/torch_module.h"

namespace fedmrn {

std::unique_ptr<PlainNetwork> MakePlainCnn(const CnnSpec& spec,
                                           const ImageShape& image,
                                           uint32_t classes, double lr);

}  // namespace fedmrn
