// How programs and pages write numbers for people, and how text from outside
// enters HTML, a shell command or a gnuplot script without being taken for a
// part of it.
#pragma once

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "fedmrn/results/summary.h"

namespace fedmrn::report {

// 1234567 -> "1,234,567", whatever the locale.
inline std::string Grouped(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t left = digits.size(); left > 3;) {
    left -= 3;
    digits.insert(left, 1, ',');
  }
  return digits;
}

// With so many digits after the point, and more where it would read as zero
// and is not: 0.003 -> "0.003" rather than "0.00".
inline std::string Decimals(double value, int digits) {
  const std::string text = fmt::format("{:.{}f}", value, digits);
  if (value == 0 || !std::isfinite(value) ||
      text.find_first_of("123456789") != text.npos) {
    return text;
  }
  const int needed = static_cast<int>(std::ceil(-std::log10(std::abs(value))));
  return needed > 6 ? fmt::format("{:.0e}", value)
                    : fmt::format("{:.{}f}", value, needed);
}

// 5642000 -> "5.64 MB".
inline std::string Megabytes(uint64_t bytes) {
  return Decimals(static_cast<double>(bytes) / 1e6, 2) + " MB";
}

// "42 s", "3 min 20 s", "1 h 05 min".
inline std::string Duration(double seconds) {
  const auto s = static_cast<uint64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

// "3 runs", "1 run".
inline std::string Counted(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", Grouped(count), noun, count == 1 ? "" : "s");
}

// How the scores of a metric are written: accuracies as "88.12" percent, R2 as
// "0.8812".
struct ScoreUnit {
  double scale;      // from 0.8812 to what is written
  int digits;        // after the point
  const char* unit;  // behind the number
};
inline ScoreUnit UnitOf(std::string_view metric) {
  return results::IsShare(metric) ? ScoreUnit{100, 2, " %"}
                                  : ScoreUnit{1, 4, ""};
}

inline std::string HtmlText(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// For ids and names of files: letters and digits, all else becomes -.
inline std::string IdText(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  }
  return out;
}

// In gnuplot's single quotes only the quote itself is special, and the end of
// the line.
inline std::string GnuplotText(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    if (c == '\'') out += c;
  }
  return out + "'";
}

// A word of a POSIX shell command, in quotes only where it needs them.
inline std::string ShellWord(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "_-./=+:,@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) {
    return std::string(text);
  }
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace fedmrn::report
