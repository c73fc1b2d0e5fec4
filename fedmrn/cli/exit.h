// How a verb ends: its exit code, and the word on stderr where it gives up.
#pragma once

#include <string_view>

#include "fedmrn/base/result.h"

namespace fedmrn::cli {

// All verbs: done; the work failed (a full disk, a lost connection, a program
// that is missing); the input was wrong; stopped by Ctrl-C, as shells have it.
inline constexpr int kExitOk = 0, kExitFailed = 1, kExitBadInput = 2,
                     kExitStopped = 130;

int ExitCodeOf(const Error& error);

// Writes "WHO: what is wrong" to stderr, after what stdout holds back, and
// returns the exit code. An empty `who` is for errors that begin with a file.
int Fail(std::string_view who, const Error& error);

}  // namespace fedmrn::cli
