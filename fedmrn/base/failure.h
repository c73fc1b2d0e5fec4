// Exceptions as errors.
#pragma once

#include <exception>
#include <new>

#include "fedmrn/base/result.h"

namespace fedmrn {

// What an exception says: kFailed if memory has run out, which is nobody's bad
// input, else `otherwise`.
inline Error ErrorOf(const std::exception& error, ErrorCode otherwise) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {ErrorCode::kFailed, "out of memory"};
  }
  return {otherwise, error.what()};
}

}  // namespace fedmrn
