#pragma once

#include <string>

#include "fedmrn/base/bytes.h"

namespace fedmrn {

// 64 lower-case digits.
std::string Sha256Hex(ByteView bytes);

}  // namespace fedmrn
