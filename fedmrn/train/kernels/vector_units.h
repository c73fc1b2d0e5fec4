// Which vector instructions this process computes with. On others oneDNN and
// our kernels add in another order, so sums are rounded differently.
#pragma once

#include <string>

#include "fedmrn/base/result.h"

namespace fedmrn::train {

// Highway's name of the target that kernels run on: "AVX2".
std::string SimdTarget();

// The same with oneDNN's: "AVX2 (oneDNN 0x7)". Where it differs, models do.
std::string VectorUnits();

// Computes with this target alone, for Highway, oneDNN and LibTorch; to be
// called before anything is computed. The error lists what this CPU has.
Status UseSimdTarget(const std::string& name);

}  // namespace fedmrn::train
