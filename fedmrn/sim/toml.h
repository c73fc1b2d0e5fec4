// TOML as the readers of configs and grids see it. Of sim alone: nothing above
// should have to compile toml++.
#pragma once

#include <string>
#include <string_view>

// Header-only, since the shared library is built to throw.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "fedmrn/base/result.h"

namespace fedmrn::sim {

// Where a key or value stands, for messages: "FILE:LINE".
inline std::string PlaceOf(std::string_view file,
                           const toml::source_position& where) {
  return std::string(file) + ":" + std::to_string(where.line);
}

// The error is "FILE:LINE: not TOML: ...".
inline Result<toml::table> ParseToml(std::string_view text,
                                     std::string_view file) {
  toml::parse_result parsed = toml::parse(text, file);
  if (parsed) return std::move(parsed).table();
  const toml::parse_error& error = parsed.error();
  return Error{ErrorCode::kBadValue,
               PlaceOf(file, error.source().begin) +
                   ": not TOML: " + std::string(error.description())};
}

}  // namespace fedmrn::sim
