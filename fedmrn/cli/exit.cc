#include "fedmrn/cli/exit.h"

#include <fmt/core.h>

#include <cstdio>

namespace fedmrn::cli {

int ExitCodeOf(const Error& error) {
  return error.code == ErrorCode::kFailed ? kExitFailed : kExitBadInput;
}

int Fail(std::string_view who, const Error& error) {
  std::fflush(stdout);
  fmt::print(stderr, "{}{}{}\n", who, who.empty() ? "" : ": ",
             error.ToString());
  return ExitCodeOf(error);
}

}  // namespace fedmrn::cli
