// How configurations are drawn, so that no two of a setting look the same.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "fedmrn/report/groups.h"

namespace fedmrn::report {

struct Look {
  std::string_view colour;  // "#d55e00"
  std::string_view dashes;  // gnuplot's dashtype
  int marker = 0;           // gnuplot's pointtype, one for each of the dashes
};

// By label, the same in all pictures of the setting. The first of a method
// looks as the method does everywhere; its variants have colours and dashes of
// their own, as long as there are any: 50 in all.
std::map<std::string, Look> LooksOf(const Setting& setting);

}  // namespace fedmrn::report
