// The report's tables, made once and written as HTML, Markdown and CSV.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
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
  std::set<std::pair<size_t, size_t>> best;  // rows and columns in bold
  // How dark the ground is at a row and column, from 0 to 1.
  std::map<std::pair<size_t, size_t>, double> shades = {};
};

// Accuracies of a cell: of the best round, of the last ten, and whether they
// differ from FedAvg's, or from the best where there is no FedAvg; beside the
// paper's only where the cell is what the paper reports.
Table AccuracyTable(const Setting& setting, const Cell& cell);
// Whether the cell is what the paper reports, and otherwise where it departs.
std::string ProtocolNote(const Setting& setting, const Cell& cell);
// What the columns of the accuracies mean.
inline constexpr char kAccuracyText[] =
    "Accuracy in percent, of the test set unless said. Best: of all rounds, as "
    "the paper's authors log it. Last: mean of the last ten rounds, of those "
    "that were tested; swing: their standard deviation in a run. Means of the "
    "seeds ± their sample standard deviation. A difference, in points, is that "
    "of runs of one seed, which see the same clients, over the seeds that both "
    "have (to the paper's number: of the means). It is told only where it "
    "exceeds twice its standard error; otherwise the two are not told apart, "
    "and one seed tells nothing. Bold: the best number of a column, whether "
    "told apart or not.";
inline constexpr char kLossText[] =
    "Best accuracy less FedAvg's, in points, summed over IID, Non-IID-1 and "
    "Non-IID-2, as in the paper's Table 2, of what was run on all three; below "
    "zero is lost. Told only where it exceeds twice its standard error over "
    "the seeds that both have.";
// The paper's Table 2, a span per setting; no rows if no setting has FedAvg on
// all partitions.
Table LossTable(const Study& study);
// The score that a setting's runs are asked when they reached it: the study's,
// or else the rounds.target_accuracy that all of them have; NaN: none.
double TargetOf(const Study& study, const Setting& setting);
// Rounds and upload until then.
Table TargetTable(const Setting& setting, const Cell& cell, double target);
inline constexpr char kTargetText[] =
    "Rounds until the first test that reached the target, and what all clients "
    "had uploaded by then. Means of the seeds that reached it ± their sample "
    "standard deviation; where not all did, those are the luckier ones.";
Table UploadTable(const Setting& setting);
Table TimeTable(const Setting& setting);

std::string HtmlTable(const Table& table);
std::string MarkdownTable(const Table& table);

// All of them, as a Markdown document.
std::string MarkdownReport(const Study& study);
// One row per group.
std::string CsvReport(const Study& study);

}  // namespace fedmrn::report
