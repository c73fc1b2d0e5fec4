// For messages about a name that does not exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fedmrn {

// Letters to insert, remove, replace, or to swap with their neighbour. All of
// them where one is longer than any name: a file may hold anything, and its
// errors should not take longer to tell than to find. What is more than `most`
// need not be exact, only more than that, which takes far fewer comparisons.
size_t EditDistance(std::string_view a, std::string_view b,
                    size_t most = static_cast<size_t>(-1));

// The largest distance of a name from its slip: a third of that may be wrong.
size_t MostWrong(std::string_view given);

// ", did you mean NAME?" of the nearest name, or nothing if none resembles it.
std::string DidYouMean(std::string_view given,
                       const std::vector<std::string_view>& names);

}  // namespace fedmrn
