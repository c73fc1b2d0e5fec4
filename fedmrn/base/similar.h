// For messages about a name that does not exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fedmrn {

// Letters to insert, remove, replace, or to swap with their neighbour. All of
// them where one is longer than any name: a file may hold anything, and its
// errors should not take longer to tell than to find.
size_t EditDistance(std::string_view a, std::string_view b);

// Whether one may be a slip of the other: at most a third of it is wrong.
bool Resembles(std::string_view given, size_t distance);

// ", did you mean NAME?" of the nearest name, or nothing if none resembles it.
std::string DidYouMean(std::string_view given,
                       const std::vector<std::string_view>& names);

}  // namespace fedmrn
