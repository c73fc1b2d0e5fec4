#pragma once

#include <cstddef>

namespace fedmrn::train {

// Our own matrix products have right-hand sides and results in panels: 16
// columns, row after row, so that one row of a panel is one cache line.
inline constexpr size_t kPanel = 16;

}  // namespace fedmrn::train
