#include "fedmrn/cli/exit.h"

#include <fmt/core.h>

#include <cstdio>
#include <string>

#include "fedmrn/cli/arguments.h"

namespace fedmrn::cli {

int ExitCodeOf(const Error& error) {
  return error.code == ErrorCode::kFailed ? kExitFailed : kExitBadInput;
}

int Fail(std::string_view who, const Error& error) {
  std::fflush(stdout);
  fmt::print(stderr, "{}{}\n",
             who.empty() ? "" : AsTyped(std::string(who) + ": "),
             AsTyped(error.ToString()));
  return ExitCodeOf(error);
}

}  // namespace fedmrn::cli
