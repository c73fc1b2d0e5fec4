// How the verbs write for people on a terminal; numbers: fedmrn/report/text.h.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstddef>

#include "fedmrn/report/text.h"

namespace fedmrn::cli {

// Of stderr's terminal.
inline size_t TerminalWidth() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20
             ? size.ws_col
             : 80;
}

}  // namespace fedmrn::cli
