#include "fedmrn/report/class_table.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "fedmrn/report/text.h"

namespace fedmrn::report {

Table ClassTable(const results::Confusion& confusion) {
  const size_t classes = confusion.classes();
  const std::vector<double> accuracies = results::ClassAccuracies(confusion);
  Table table;
  table.columns = {"Truth"};
  table.spans = {{"answer", classes}, {"", 1}};
  for (size_t c = 0; c < classes; ++c) {
    table.columns.push_back(std::to_string(c));
  }
  table.columns.push_back("right, %");
  for (size_t truth = 0; truth < classes; ++truth) {
    const auto counts =
        std::span(confusion.counts).subspan(truth * classes, classes);
    const auto all = static_cast<double>(
        std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
    std::vector<std::string> cells = {std::to_string(truth)};
    for (size_t answer = 0; answer < classes; ++answer) {
      cells.push_back(counts[answer] == 0 ? "·" : Grouped(counts[answer]));
      if (counts[answer] == 0) continue;
      table.shades[{truth, answer + 1}] =
          static_cast<double>(counts[answer]) / all;
    }
    cells.push_back(std::isnan(accuracies[truth])
                        ? kGap
                        : Decimals(100 * accuracies[truth], 1));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace fedmrn::report
