// The report as one HTML file: opens from the disk, needs no network and no
// script, follows the reader's light or dark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/report/gnuplot.h"
#include "fedmrn/report/groups.h"

namespace fedmrn::report {

struct Page {
  std::string html;
  std::vector<Picture> pictures;  // those in it
};

// `version` is the program's, `created` when: "2024-05-17 12:00 UTC". Loads the
// data sets for the pictures of their partitions; where one is missing, the
// page says so. Fails if the pictures cannot be drawn.
Result<Page> MakePage(const Study& study, std::string_view version,
                      std::string_view created);

// Files of the report may be replaced by a newer one, others not: whether
// `text` is HTML, Markdown or CSV of this library.
bool MadeByReport(std::string_view text);

}  // namespace fedmrn::report
