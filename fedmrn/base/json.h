// JSON as everybody here reads and writes it. nlohmann's parser and writer are
// compiled in json.cc alone: in every file they would be most of its time.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace fedmrn {

// Keys stay in the order in which they were added.
using Json = nlohmann::ordered_json;

// Text that is no JSON gives a value that is_discarded().
Json ParseJson(std::string_view text);

// `indent` -1: in one line; otherwise only lists of numbers are. Bytes that are
// no UTF-8, as a file's name may have, become U+FFFD.
std::string JsonText(const Json& value, int indent = -1);

}  // namespace fedmrn
