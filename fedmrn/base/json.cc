#include "fedmrn/base/json.h"

namespace fedmrn {
namespace {

// Writes each innermost list without text in one line.
std::string WithListsInLine(const std::string& json) {
  std::string out;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (in_text && json[i] == '\\') {
      out += json[i++];  // whatever is escaped ends nothing
    } else if (json[i] == '"') {
      in_text = !in_text;
    } else if (!in_text && json[i] == '[') {
      const size_t end = json.find_first_of("[]{}\"", i + 1);
      for (; json[end] == ']' && i < end; ++i) {
        if (json[i] == ' ' || json[i] == '\n') continue;
        out += json[i];
        if (json[i] == ',') out += ' ';
      }
    }
    out += json[i];
  }
  return out;
}

}  // namespace

Json ParseJson(std::string_view text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string JsonText(const Json& value, int indent) {
  const std::string text = value.dump(indent, ' ', /*ensure_ascii=*/false,
                                      Json::error_handler_t::replace);
  return indent < 0 ? text : WithListsInLine(text);
}

}  // namespace fedmrn
