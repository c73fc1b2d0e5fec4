// Which classes a run's last test took for which.
#pragma once

#include "fedmrn/report/tables.h"
#include "fedmrn/results/confusion.h"

namespace fedmrn::report {

// More do not fit a page; run.json has them.
inline constexpr size_t kTableClasses = 30;

// A row for each class of the truth, with the share of its examples that was
// right. The larger a class's share of a row, the darker.
Table ClassTable(const results::Confusion& confusion);

}  // namespace fedmrn::report
