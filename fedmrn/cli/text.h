// How the verbs write numbers for people.
#pragma once

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

}  // namespace fedmrn::cli
