// The report's tables, made once and written as HTML, Markdown and CSV.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fedmrn/report/groups.h"

namespace fedmrn::report {

// Row headers in the first column, numbers in the others. A missing number is
// kGap.
inline constexpr char kGap[] = "—";

struct Table {
  struct Span {
    std::string name;
    size_t columns;
  };
  std::vector<Span> spans;           // over all columns but the first, or none
  std::vector<std::string> columns;  // the first names the row headers
  std::vector<std::vector<std::string>> rows;
};

// Accuracies of a setting: ours, best and last, beside the paper's Table 1.
Table AccuracyTable(const Setting& setting);
// What the reader of that table must know: "20 rounds × 2 epochs × 3 seeds, not
// the paper's 100 × 10 × 5 ..."
std::string AccuracyNote(const Setting& setting);
// The paper's Table 2, a span per setting; no rows if no setting has FedAvg.
Table LossTable(const Study& study);
Table UploadTable(const Setting& setting);
Table TimeTable(const Setting& setting);

std::string HtmlTable(const Table& table);
std::string MarkdownTable(const Table& table);

// All of them, as a Markdown document.
std::string MarkdownReport(const Study& study);
// One row per group.
std::string CsvReport(const Study& study);

}  // namespace fedmrn::report
