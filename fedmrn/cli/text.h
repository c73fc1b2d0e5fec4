// How the verbs write numbers for people.
#pragma once

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <string>

namespace fedmrn::cli {

// 1234567 -> "1,234,567", whatever the locale.
inline std::string Grouped(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t left = digits.size(); left > 3;) {
    left -= 3;
    digits.insert(left, 1, ',');
  }
  return digits;
}

// 5642000 -> "5.64 MB".
inline std::string Megabytes(uint64_t bytes) {
  return fmt::format("{:.2f} MB", static_cast<double>(bytes) / 1e6);
}

// "42 s", "3 min 20 s", "1 h 05 min".
inline std::string Duration(double seconds) {
  const auto s = static_cast<uint64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

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
