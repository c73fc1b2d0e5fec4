#define TOML_IMPLEMENTATION
#include "fedmrn/sim/toml.h"

namespace fedmrn::sim {

Result<toml::table> ParseToml(std::string_view text, std::string_view file) {
  toml::parse_result parsed = toml::parse(text, file);
  if (parsed) return std::move(parsed).table();
  const toml::parse_error& error = parsed.error();
  return Error{ErrorCode::kBadValue,
               PlaceOf(file, error.source().begin) +
                   ": not TOML: " + std::string(error.description())};
}

}  // namespace fedmrn::sim
