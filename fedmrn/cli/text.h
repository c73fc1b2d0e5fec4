// How the verbs write for people on a terminal; numbers: fedmrn/report/text.h.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <string>

#include "fedmrn/report/text.h"

namespace fedmrn::cli {

// Roughly, for what is an estimate: "40 s", "31 min", "2.5 h".
inline std::string AboutDuration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

// 0.8812 -> "88.12"; NaN, what was never measured, -> "-".
inline std::string Percent(double share) {
  return std::isnan(share) ? "-" : fmt::format("{:.2f}", 100 * share);
}

// Of stderr's terminal; 80 x 24 where it does not tell.
inline size_t TerminalWidth() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20
             ? size.ws_col
             : 80;
}
inline size_t TerminalHeight() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 2
             ? size.ws_row
             : 24;
}

}  // namespace fedmrn::cli
