// TOML as the readers of configs and grids see it; nothing beyond sim should
// have to compile toml++. Its parser is compiled in toml.cc alone.
#pragma once

#include <string>
#include <string_view>

// Not the shared library, since that is built to throw.
#define TOML_HEADER_ONLY 0
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
Result<toml::table> ParseToml(std::string_view text, std::string_view file);

}  // namespace fedmrn::sim
