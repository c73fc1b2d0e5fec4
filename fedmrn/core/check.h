// FEDMRN_CHECK: for our own mistakes (a caller broke a documented
// precondition), never for what comes from outside. Stays on in every build.
#pragma once

#include <cstdlib>

#define FEDMRN_CHECK(condition) \
  do {                          \
    if (!(condition)) {         \
      std::abort();             \
    }                           \
  } while (0)
