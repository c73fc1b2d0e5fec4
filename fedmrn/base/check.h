// FEDMRN_CHECK: for our own mistakes (a caller broke a documented
// precondition), never for what comes from outside. Stays on in every build.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace fedmrn {

[[noreturn]] inline void CheckFailed(const char* file, int line,
                                     const char* condition,
                                     const char* message = "") {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s%s%s\n", file, line, condition,
               *message == '\0' ? "" : ": ", message);
  std::abort();
}

}  // namespace fedmrn

// FEDMRN_CHECK(condition) or FEDMRN_CHECK(condition, "what it means").
#define FEDMRN_CHECK(condition, ...)                                \
  do {                                                              \
    if (!(condition)) {                                             \
      ::fedmrn::CheckFailed(__FILE_NAME__, __LINE__,                \
                            #condition __VA_OPT__(, ) __VA_ARGS__); \
    }                                                               \
  } while (0)
