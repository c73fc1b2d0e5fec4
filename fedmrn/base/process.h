// Other programs, started without a shell, and work that may not survive.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/base/result.h"

namespace fedmrn {

struct Finished {
  // As shells have it: 128 + the signal's number if one ended it.
  int exit_code = 0;
  std::string out, err;  // what it wrote to stdout and stderr
};

// Runs a program, found in PATH, to its end: `arguments` are its name and what
// it is given, `input` is its stdin. kUnavailable if there is no such program,
// kFailed if it cannot be started.
Result<Finished> RunProgram(const std::vector<std::string>& arguments,
                            std::string_view input = "");

// Does the work in a copy of this process first, to see whether it lives: for
// libraries that crash on bad input. What the copy computes, throws or writes
// to stdout and stderr is lost. The error, kBadValue, is how it died. Work
// that is still at it after a minute counts as alive: in the copy of a process
// with threads it may wait for one that is not there.
Status TryInChild(const std::function<void()>& work);

}  // namespace fedmrn
