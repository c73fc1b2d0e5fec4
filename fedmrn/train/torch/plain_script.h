#pragma once

#include <memory>
#include <string>

#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::train {

std::unique_ptr<PlainNetwork> MakePlainScript(const std::string& contents,
                                              double lr);

}  // namespace fedmrn::train
