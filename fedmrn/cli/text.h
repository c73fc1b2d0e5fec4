// How the verbs write for people on a terminal; numbers: fedmrn/report/text.h.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "fedmrn/report/text.h"

namespace fedmrn::cli {

// Roughly, for what is an estimate: "40 s", "31 min", "2.5 h".
inline std::string AboutDuration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

// "88.12" or "0.8812", as the metric has it; what was never measured: "-".
inline std::string ScoreNumber(std::string_view metric, double score) {
  const report::ScoreUnit unit = report::UnitOf(metric);
  return std::isnan(score) ? "-"
                           : report::Decimals(unit.scale * score, unit.digits);
}

// "88.12 %" or "0.8812".
inline std::string ScoreText(std::string_view metric, double score) {
  return ScoreNumber(metric, score) +
         (std::isnan(score) ? "" : report::UnitOf(metric).unit);
}

// The number of characters in UTF-8: all bytes but those that continue one.
inline size_t Characters(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// As many whole characters as fit.
inline std::string CutTo(std::string_view text, size_t characters) {
  size_t end = 0;
  for (size_t count = 0; end < text.size(); ++end) {
    if ((text[end] & 0xC0) != 0x80 && count++ == characters) break;
  }
  return std::string(text.substr(0, end));
}

// Words in lines of at most `width` characters, where they allow it; all but
// the first behind `indent` spaces.
inline std::string Wrapped(std::string_view text, size_t width,
                           size_t indent = 0) {
  std::string wrapped;
  while (Characters(text) > width) {
    const size_t most = CutTo(text, width + 1).size();
    size_t space = text.substr(0, most).rfind(' ');
    if (space == text.npos) space = text.find(' ');
    if (space == text.npos) break;
    wrapped += std::string(text.substr(0, space)) + '\n';
    wrapped += std::string(indent, ' ');
    text.remove_prefix(space + 1);
  }
  return wrapped + std::string(text);
}

struct TerminalSize {
  size_t columns = 80, rows = 24;
};

// The terminal that a descriptor writes to, 80 x 24 where it does not tell;
// nothing if it writes elsewhere.
inline std::optional<TerminalSize> TerminalOf(int descriptor) {
  if (isatty(descriptor) == 0) return std::nullopt;
  TerminalSize terminal;
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0) {
    if (size.ws_col > 20) terminal.columns = size.ws_col;
    if (size.ws_row > 2) terminal.rows = size.ws_row;
  }
  return terminal;
}

// Broken between words where it goes to a terminal that is too narrow for it.
inline std::string FitTo(int descriptor, std::string_view text) {
  const std::optional<TerminalSize> terminal = TerminalOf(descriptor);
  return terminal ? Wrapped(text, terminal->columns, 2) : std::string(text);
}

// A paragraph on stdout and an empty line, 80 characters wide or as the
// terminal is, if that is narrower.
inline void PrintParagraph(std::string_view text) {
  const size_t columns =
      TerminalOf(STDOUT_FILENO).value_or(TerminalSize()).columns;
  fmt::print("{}\n\n", Wrapped(text, std::min<size_t>(columns, 80)));
}

}  // namespace fedmrn::cli
