// Other programs, started without a shell.
#pragma once

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

}  // namespace fedmrn
