// Shared objects of the program's own, opened when they are first needed: what
// they link need not be there for the rest of the program to start.
#pragma once

#include <string>

#include "fedmrn/base/result.h"

namespace fedmrn {

// The function `door` of the module in `file`, which lies beside the program
// or, once installed, in ../lib; or wherever the system looks. kUnavailable if
// there is no such file, kFailed if it cannot be opened: then the error names
// the library that is missing. A module stays open.
Result<void*> OpenModule(const std::string& file, const std::string& door);

}  // namespace fedmrn
