#include "fedmrn/report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "fedmrn/report/paper.h"
#include "fedmrn/report/text.h"

namespace fedmrn::report {
namespace {

std::string Fixed(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : kGap;
}

// With a true minus sign, as wide as the plus.
std::string Signed(double value, int digits) {
  if (!std::isfinite(value)) return kGap;
  std::string text = fmt::format("{:.{}f}", std::abs(value), digits);
  const bool zero = text.find_first_not_of("0.") == text.npos;
  return (zero ? "±" : value < 0 ? "−" : "+") + text;
}

std::string SpreadText(const results::Spread& spread, int digits) {
  const std::string mean = Fixed(spread.mean, digits);
  return std::isfinite(spread.std) ? mean + " ± " + Fixed(spread.std, digits)
                                   : mean;
}

// Columns of a setting's accuracies: the paper's three partitions, with or
// without runs, then others.
struct Column {
  std::string name;
  std::string paper_kind;  // empty: not the paper's
  const Cell* cell;
};

std::vector<Column> ColumnsOf(const Setting& setting) {
  std::vector<Column> columns;
  if (const PaperData* data = FindPaperData(setting.data)) {
    for (const PaperPartition& partition : data->partitions) {
      columns.push_back({std::string(partition.name),
                         std::string(partition.kind),
                         setting.PaperCell(partition.kind)});
    }
  }
  for (const Cell& cell : setting.cells) {
    if (std::ranges::find(columns, &cell, &Column::cell) == columns.end()) {
      columns.push_back({cell.name, "", &cell});
    }
  }
  return columns;
}

// Best accuracies summed over the paper's three partitions, if all are there.
std::optional<double> SumOverPartitions(const Setting& setting,
                                        const std::string& label) {
  double sum = 0;
  for (const PaperPartition& partition : kPaperPartitions) {
    const Cell* cell = setting.PaperCell(partition.kind);
    const Group* group = cell == nullptr ? nullptr : cell->Labelled(label);
    if (group == nullptr) return std::nullopt;
    sum += group->best.mean;
  }
  return sum;
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\n") == text.npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

std::string CsvNumber(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : "";
}

std::string MarkdownText(std::string text) {
  for (size_t at = text.find('|'); at != text.npos;
       at = text.find('|', at + 2)) {
    text.replace(at, 1, "\\|");
  }
  return text;
}

}  // namespace

std::string AccuracyNote(const Setting& setting) {
  const std::string seeds =
      setting.fewest_seeds == setting.most_seeds
          ? Counted(setting.most_seeds, "seed")
          : fmt::format("{} to {} seeds", setting.fewest_seeds,
                        setting.most_seeds);
  std::string note =
      fmt::format("{} × {} × {}", Counted(setting.rounds, "round"),
                  Counted(setting.epochs, "epoch"), seeds);
  const PaperData* paper = FindPaperData(setting.data);
  if (paper == nullptr) {
    note += "; not a data set of the paper.";
    if (!results::IsShare(setting.metric)) {
      note += fmt::format(" Not accuracies but {}.", setting.metric);
    }
    return note;
  }
  if (!setting.PaperLength()) {
    note += fmt::format(
        ", not the paper's {} × {} × {}, so the differences are no check of "
        "the "
        "paper.",
        paper->rounds, paper->epochs, kPaperSeeds);
  } else if (setting.fewest_seeds < kPaperSeeds) {
    note += fmt::format(", as in the paper but for its {} seeds.", kPaperSeeds);
  } else {
    note += ", as in the paper.";
  }
  if (!setting.departures.empty()) {
    note += fmt::format(" Also unlike the paper: {} (the paper's in brackets).",
                        fmt::join(setting.departures, ", "));
  }
  return note;
}

Table AccuracyTable(const Setting& setting) {
  const std::vector<Column> columns = ColumnsOf(setting);
  const int digits = UnitOf(setting.metric).digits;
  Table table;
  table.columns = {"Method"};
  for (const Column& column : columns) {
    const bool paper = !column.paper_kind.empty();
    table.spans.push_back({column.name, paper ? 4u : 2u});
    table.columns.insert(table.columns.end(), {"best", "last"});
    if (paper) table.columns.insert(table.columns.end(), {"paper", "diff."});
  }
  for (const Setting::Row& row : setting.Rows()) {
    const bool standard = row.label == MethodTitle(row.method);
    std::vector<std::string> cells = {row.label};
    for (const Column& column : columns) {
      const Group* group =
          column.cell == nullptr ? nullptr : column.cell->Labelled(row.label);
      cells.push_back(group == nullptr ? kGap
                                       : SpreadText(group->best, digits));
      cells.push_back(group == nullptr ? kGap
                                       : Fixed(group->last.mean, digits));
      if (column.paper_kind.empty()) continue;
      const auto paper =
          standard ? PaperResult(row.method, setting.data, column.paper_kind)
                   : std::nullopt;
      cells.push_back(
          paper ? fmt::format("{:.1f} ± {:.1f}", paper->mean, paper->std)
                : kGap);
      cells.push_back(paper && group != nullptr
                          ? Signed(group->best.mean - paper->mean, 1)
                          : kGap);
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Table LossTable(const Study& study) {
  Table table;
  table.columns = {"Method"};
  std::vector<const Setting*> settings;
  std::vector<Setting::Row> rows;
  for (const Setting& setting : study.settings) {
    if (!SumOverPartitions(setting, MethodTitle("fedavg"))) continue;
    const bool paper = FindPaperData(setting.data) != nullptr;
    settings.push_back(&setting);
    table.spans.push_back({setting.name, paper ? 2u : 1u});
    table.columns.push_back("ours");
    if (paper) table.columns.push_back("paper");
    for (const Setting::Row& row : setting.Rows()) {
      if (row.label != MethodTitle("fedavg") &&
          std::ranges::find(rows, row.label, &Setting::Row::label) ==
              rows.end()) {
        rows.push_back(row);
      }
    }
  }
  std::ranges::stable_sort(rows, {}, [](const Setting::Row& row) {
    return MethodOrder(row.method);
  });
  for (const Setting::Row& row : rows) {
    std::vector<std::string> cells = {row.label};
    for (const Setting* setting : settings) {
      const auto sum = SumOverPartitions(*setting, row.label);
      const auto base = SumOverPartitions(*setting, MethodTitle("fedavg"));
      cells.push_back(sum ? Signed(*sum - *base, 1) : kGap);
      if (FindPaperData(setting->data) == nullptr) continue;
      const auto paper = row.label == MethodTitle(row.method)
                             ? PaperTable2(row.method, setting->data)
                             : std::nullopt;
      cells.push_back(paper ? Signed(*paper, 1) : kGap);
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Table UploadTable(const Setting& setting) {
  Table table;
  table.spans = {{"bits per parameter", 4}, {"of float32", 1}, {"a run", 1}};
  table.columns = {"Method", "all", "payload", "dense", "header", "1 in", "MB"};
  for (const Setting::Row& row : setting.Rows()) {
    const Cost cost = CostOf(row.runs);
    table.rows.push_back({row.label, Fixed(cost.bits(), 3),
                          Fixed(cost.payload_bits, 3),
                          Fixed(cost.plain_bits, 3), Fixed(cost.header_bits, 3),
                          Fixed(cost.float32_bits / cost.bits(), 1),
                          Fixed(UploadedMegabytes(row.runs), 1)});
  }
  return table;
}

Table TimeTable(const Setting& setting) {
  Table table;
  table.columns = {"Method", "training, s", "compression, ms",
                   "of training, %"};
  for (const Setting::Row& row : setting.Rows()) {
    const Cost cost = CostOf(row.runs);
    table.rows.push_back({row.label, Fixed(cost.train_s, 3),
                          Fixed(1000 * cost.encode_s, 2),
                          Fixed(100 * cost.encode_s / cost.train_s, 2)});
  }
  return table;
}

std::string HtmlTable(const Table& table) {
  std::string out = "<div class=\"table\"><table>\n<thead>\n";
  const auto head = [&](const std::string& text,
                        const std::string& attributes) {
    out += fmt::format("<th{}>{}</th>", attributes, HtmlText(text));
  };
  // Where a span begins, for a line between spans.
  std::vector<bool> first(table.columns.size());
  if (!table.spans.empty()) {
    out += "<tr>";
    head(table.columns[0], " rowspan=\"2\" scope=\"col\"");
    size_t column = 1;
    for (const Table::Span& span : table.spans) {
      first[column] = true;
      column += span.columns;
      head(span.name, fmt::format(" colspan=\"{}\" scope=\"colgroup\" "
                                  "class=\"first\"",
                                  span.columns));
    }
    out += "</tr>\n";
  }
  out += "<tr>";
  for (size_t i = table.spans.empty() ? 0 : 1; i < table.columns.size(); ++i) {
    head(table.columns[i],
         first[i] ? " scope=\"col\" class=\"first\"" : " scope=\"col\"");
  }
  out += "</tr>\n</thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    out += row[0].starts_with("FedMRN") ? "<tr class=\"ours\">" : "<tr>";
    head(row[0], " scope=\"row\"");
    for (size_t i = 1; i < row.size(); ++i) {
      out += fmt::format("<td{}>{}</td>", first[i] ? " class=\"first\"" : "",
                         HtmlText(row[i]));
    }
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table></div>\n";
}

std::string MarkdownTable(const Table& table) {
  std::string out = "|", rule = "|";
  size_t column = 0;
  for (size_t span = 0, left = 0; column < table.columns.size(); ++column) {
    std::string name = table.columns[column];
    if (column > 0 && !table.spans.empty()) {
      if (left == 0) left = table.spans[span++].columns;
      name = table.spans[span - 1].name + ": " + name;
      --left;
    }
    out += fmt::format(" {} |", MarkdownText(name));
    rule += column == 0 ? "---|" : "---:|";
  }
  out += "\n" + rule + "\n";
  for (const auto& row : table.rows) {
    out += "|";
    for (const std::string& cell : row) {
      out += fmt::format(" {} |", MarkdownText(cell));
    }
    out += "\n";
  }
  return out;
}

std::string MarkdownReport(const Study& study) {
  std::string out = "# FedMRN: results\n\n## Accuracy\n";
  const auto section = [&](const Setting& setting) {
    out += fmt::format("\n### {}\n\n", setting.name);
  };
  for (const Setting& setting : study.settings) {
    section(setting);
    out +=
        AccuracyNote(setting) + "\n\n" + MarkdownTable(AccuracyTable(setting));
  }
  if (const Table losses = LossTable(study); !losses.rows.empty()) {
    out += "\n## Accuracy lost against FedAvg\n\n" + MarkdownTable(losses);
  }
  out += "\n## Upload\n";
  for (const Setting& setting : study.settings) {
    section(setting);
    out += MarkdownTable(UploadTable(setting));
  }
  out += "\n## Time of a client\n";
  for (const Setting& setting : study.settings) {
    section(setting);
    out += MarkdownTable(TimeTable(setting));
  }
  return out;
}

std::string CsvReport(const Study& study) {
  std::string out =
      "data,setting,partition,method,label,seeds,best_mean,best_std,last_mean,"
      "last_std,uploaded_mb,bits_per_param,payload_bits,dense_bits,header_bits,"
      "train_s,encode_s,paper_mean,paper_std\n";
  for (const Setting& setting : study.settings) {
    for (const Cell& cell : setting.cells) {
      for (const Group& group : cell.groups) {
        const auto paper =
            group.standard && cell.paper
                ? PaperResult(group.method, setting.data, cell.kind)
                : std::nullopt;
        std::string row;
        for (const std::string& text :
             {setting.data, setting.name, cell.name, group.method, group.label,
              std::to_string(group.runs.size())}) {
          row += CsvField(text) + ',';
        }
        const Cost& cost = group.cost;
        const double missing = std::nan("");
        const std::array numbers = {group.best.mean,
                                    group.best.std,
                                    group.last.mean,
                                    group.last.std,
                                    group.uploaded_mb,
                                    cost.bits(),
                                    cost.payload_bits,
                                    cost.plain_bits,
                                    cost.header_bits,
                                    cost.train_s,
                                    cost.encode_s,
                                    paper ? paper->mean : missing,
                                    paper ? paper->std : missing};
        for (size_t i = 0; i < numbers.size(); ++i) {
          row += (i > 0 ? "," : "") + CsvNumber(numbers[i]);
        }
        out += row + '\n';
      }
    }
  }
  return out;
}

}  // namespace fedmrn::report
