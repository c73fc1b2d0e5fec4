#include "fedmrn/report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "fedmrn/report/differences.h"
#include "fedmrn/report/paper.h"
#include "fedmrn/report/text.h"

namespace fedmrn::report {
namespace {

std::string Fixed(double value, int digits) {
  return std::isfinite(value) ? Decimals(value, digits) : kGap;
}

// With a true minus sign, as wide as the plus.
std::string Signed(double value, int digits) {
  if (!std::isfinite(value)) return kGap;
  return (value == 0  ? "±"
          : value < 0 ? "−"
                      : "+") +
         Decimals(std::abs(value), digits);
}

std::string SpreadText(const results::Spread& spread, int digits) {
  const std::string mean = Fixed(spread.mean, digits);
  return std::isfinite(spread.std) ? mean + " ± " + Fixed(spread.std, digits)
                                   : mean;
}

// "−1.20", "not told apart", "one seed".
std::string DifferenceText(const results::Difference& difference, int digits) {
  if (!std::isfinite(difference.value)) return kGap;
  switch (difference.verdict) {
    case results::Verdict::kOneSeed:
      return "one seed";
    case results::Verdict::kNotToldApart:
      return "not told apart";
    case results::Verdict::kDiffer:
      return Signed(difference.value, digits);
  }
  return "";
}

enum class Better { kHigher, kLower };

// Marks the best of a column, and what reads the same; nothing where all do.
// `values` are the numbers of its rows.
void MarkBest(Table& table, size_t column, const std::vector<double>& values,
              Better better) {
  const auto text = [&](size_t row) {
    const std::string& cell = table.rows[row][column];
    return cell.substr(0, cell.find(' '));  // without the deviation
  };
  std::optional<size_t> best;
  size_t numbers = 0;
  for (size_t row = 0; row < values.size(); ++row) {
    if (!std::isfinite(values[row])) continue;
    ++numbers;
    if (!best || (better == Better::kHigher ? values[row] > values[*best]
                                            : values[row] < values[*best])) {
      best = row;
    }
  }
  if (!best) return;
  std::vector<size_t> equal;
  for (size_t row = 0; row < values.size(); ++row) {
    if (std::isfinite(values[row]) && text(row) == text(*best)) {
      equal.push_back(row);
    }
  }
  if (equal.size() == numbers) return;
  for (const size_t row : equal) table.best.emplace(row, column);
}

results::ToTarget ToTargetOf(const Group& group, double target) {
  std::vector<std::span<const results::RoundRow>> runs;
  for (const SavedRun* run : group.runs) runs.push_back(run->rows);
  return results::ToTargetOf(runs, target);
}

// What a paper's number is compared as.
results::Spread PaperSpread(const PaperAccuracy& paper) {
  return {paper.mean, paper.std, kPaperSeeds};
}

std::string DifferenceText(const BySeed& first, const BySeed& second,
                           int digits) {
  const auto difference = DifferenceOf(first, second);
  return difference ? DifferenceText(*difference, digits) : "no seed of both";
}

// FedAvg, or the best where there is none; null if nothing was tested.
const Group* ReferenceOf(const Cell& cell, const Figure& figure) {
  if (const Group* fedavg = cell.Standard("fedavg")) return fedavg;
  const Group* best = nullptr;
  for (const Group& group : cell.groups) {
    const double mean = (group.*figure.of_group).mean;
    if (std::isnan(mean)) continue;
    if (best == nullptr || mean > (best->*figure.of_group).mean) best = &group;
  }
  return best;
}

// What that is called over a column: with its rate where FedAvg has several
// rows, since a method may be ahead of one and behind another.
std::string ReferenceName(const Cell& cell) {
  const Group* fedavg = cell.Standard("fedavg");
  if (fedavg == nullptr) return "the best";
  const auto rows = std::ranges::count(cell.groups, "fedavg", &Group::method);
  const bool bare = fedavg->label == MethodTitle("fedavg");
  return rows > 1 && bare
             ? fedavg->label + " lr=" + fedavg->runs.front()->Get("train.lr")
             : fedavg->label;
}

// What the baseline of a setting is called.
std::string FedAvgLabel(const Setting& setting) {
  for (const Cell& cell : setting.cells) {
    if (const Group* group = cell.Standard("fedavg")) return group->label;
  }
  return "";
}

// Whether all three partitions are what the paper reports.
bool IsPapersTable2(const Setting& setting) {
  return std::ranges::all_of(
      kPaperPartitions, [&](const PaperPartition& partition) {
        const Cell* cell = setting.CellOf(partition.kind);
        return cell != nullptr && setting.IsPapers(*cell);
      });
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

// "FedMRN 0.3": tuned learning rates that labels do not tell. The usual one is
// SGD's, and that of a method of another program is not known.
std::vector<std::string> TunedRates(const Cell& cell) {
  std::vector<std::string> rates;
  for (const Group& group : cell.groups) {
    const SavedRun& run = *group.runs.front();
    const auto usual = UsualConfig(run);
    const auto its = usual.find("train.lr");
    const std::string rate = run.Get("train.lr");
    if (its == usual.end() || rate == its->second ||
        run.Get("train.optimizer") != "sgd" ||
        group.label.find("lr=" + rate) != std::string::npos) {
      continue;
    }
    rates.push_back(group.label + " " + rate);
  }
  return rates;
}

}  // namespace

std::string ProtocolNote(const Setting& setting, const Cell& cell) {
  size_t fewest_seeds = std::numeric_limits<size_t>::max(), most_seeds = 0,
         fewest_rounds = results::kLastRounds;
  const Group* sparse = nullptr;  // whose rounds were tested least, if not all
  for (const Group& group : cell.groups) {
    fewest_seeds = std::min(fewest_seeds, group.runs.size());
    most_seeds = std::max(most_seeds, group.runs.size());
    fewest_rounds = std::min(fewest_rounds, group.last_rounds);
    if (group.last_tests < group.last_rounds &&
        (sparse == nullptr || group.last_tests < sparse->last_tests)) {
      sparse = &group;
    }
  }
  std::string note =
      fewest_seeds == most_seeds
          ? Counted(most_seeds, "seed")
          : fmt::format(
                "{} to {} seeds, and each asks other clients: "
                "between rows of other seeds only differences compare",
                fewest_seeds, most_seeds);
  if (fewest_rounds < results::kLastRounds) {
    note += fmt::format(
        "; of the last ten rounds only {} there",
        fewest_rounds == 1 ? "1 is" : fmt::format("{} are", fewest_rounds));
  }
  if (sparse != nullptr) {
    note += fmt::format(
        "; of the last {} rounds {} tested", sparse->last_rounds,
        sparse->last_tests == 1 ? "1 was"
                                : fmt::format("{} were", sparse->last_tests));
  }
  if (!results::IsShare(setting.metric)) {
    note += fmt::format("; not accuracies but {}", setting.metric);
  }
  if (setting.on == "validation") {
    note += "; on held-out training examples, not on the test set";
  }
  if (const std::vector<std::string> rates = TunedRates(cell); !rates.empty()) {
    note += fmt::format("; train.lr not as usual: {}", fmt::join(rates, ", "));
  }
  note += ". ";
  if (FindPaperData(setting.data) == nullptr) {
    return note + "Not a data set of the paper.";
  }
  if (setting.IsPapers(cell)) {
    note += "The paper's protocol";
    if (fewest_seeds < kPaperSeeds) {
      note += fmt::format(", but for its {} seeds", kPaperSeeds);
    }
    return note + ".";
  }
  std::vector<std::string> departures = setting.departures;
  for (const std::string& departure : cell.departures) {
    departures.push_back("partition." + departure);
  }
  return note +
         fmt::format(
             "Not the paper's protocol (its values in brackets): {}. Nothing "
             "here is compared with its numbers.",
             fmt::join(departures, ", "));
}

Table AccuracyTable(const Setting& setting, const Cell& cell) {
  const int digits = UnitOf(setting.metric).digits;
  const bool papers = setting.IsPapers(cell);
  const bool fedavg = cell.Standard("fedavg") != nullptr;
  const std::string other = "to " + ReferenceName(cell);
  size_t rounds = 0;
  for (const Group& group : cell.groups) {
    rounds = std::max(rounds, group.last_rounds);
  }
  Table table;
  table.spans = {{"", 1},
                 {"best", 2},
                 {fmt::format("last {}", Counted(rounds, "round")), 3}};
  table.columns = {"Method", "seeds", "mean", other, "mean", "swing", other};
  if (papers) {
    table.spans.push_back({"paper", 2});
    table.columns.insert(table.columns.end(), {"best", "to the paper"});
  }
  const auto to_reference = [&](const Group& group, const Figure& figure) {
    const Group* reference = ReferenceOf(cell, figure);
    if (reference == &group && fedavg) return std::string(kGap);
    // One seed does not even show that.
    if (reference == &group && group.runs.size() > 1) {
      return std::string("the best");
    }
    return reference == nullptr
               ? std::string(kGap)
               : DifferenceText(BySeedOf(group, figure),
                                BySeedOf(*reference, figure), digits);
  };
  for (const Group& group : cell.groups) {
    std::vector<std::string> cells = {group.label,
                                      std::to_string(group.runs.size()),
                                      SpreadText(group.best, digits),
                                      to_reference(group, kBest),
                                      SpreadText(group.last_ten, digits),
                                      Fixed(group.swing, digits),
                                      to_reference(group, kLastTen)};
    if (papers) {
      const auto paper =
          group.standard ? PaperResult(group.method, setting.data, cell.kind)
                         : std::nullopt;
      cells.push_back(
          paper ? fmt::format("{:.1f} ± {:.1f}", paper->mean, paper->std)
                : kGap);
      cells.push_back(paper
                          ? DifferenceText(results::DifferenceOf(
                                               group.best, PaperSpread(*paper)),
                                           digits)
                          : kGap);
    }
    table.rows.push_back(std::move(cells));
  }
  const auto mark = [&](size_t column, Better better, auto number_of) {
    std::vector<double> values;
    for (const Group& group : cell.groups) values.push_back(number_of(group));
    MarkBest(table, column, values, better);
  };
  mark(2, Better::kHigher, [](const Group& g) { return g.best.mean; });
  mark(4, Better::kHigher, [](const Group& g) { return g.last_ten.mean; });
  return table;
}

Table LossTable(const Study& study) {
  Table table;
  table.columns = {"Method"};
  std::vector<const Setting*> settings;
  std::vector<Setting::Row> rows;
  for (const Setting& setting : study.settings) {
    const std::string fedavg = FedAvgLabel(setting);
    if (SumOverPartitions(setting, fedavg).empty()) continue;
    const bool paper = IsPapersTable2(setting);
    settings.push_back(&setting);
    table.spans.push_back({setting.name, paper ? 2u : 1u});
    table.columns.push_back("ours");
    if (paper) table.columns.push_back("paper");
    for (const Setting::Row& row : setting.Rows()) {
      if (row.label != fedavg &&
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
      const BySeed sum = SumOverPartitions(*setting, row.label);
      const BySeed base = SumOverPartitions(*setting, FedAvgLabel(*setting));
      cells.push_back(sum.empty() ? kGap : DifferenceText(sum, base, 1));
      if (!IsPapersTable2(*setting)) continue;
      const auto paper = row.label == MethodTitle(row.method)
                             ? PaperTable2(row.method, setting->data)
                             : std::nullopt;
      cells.push_back(paper ? Signed(*paper, 1) : kGap);
    }
    const auto gaps = std::ranges::count(cells, kGap);
    if (gaps + 1 < std::ssize(cells)) table.rows.push_back(std::move(cells));
  }
  return table;
}

double TargetOf(const Study& study, const Setting& setting) {
  if (!std::isnan(study.target)) return study.target;
  std::set<double> targets;
  for (const Setting::Row& row : setting.Rows()) {
    for (const SavedRun* run : row.runs) {
      targets.insert(run->Number("rounds.target_accuracy", 0));
    }
  }
  return targets.size() == 1 && *targets.begin() > 0 ? *targets.begin()
                                                     : std::nan("");
}

Table TargetTable(const Setting& setting, const Cell& cell, double target) {
  const ScoreUnit unit = UnitOf(setting.metric);
  Table table;
  table.spans = {{fmt::format("to {:g}{}", unit.scale * target, unit.unit), 3}};
  table.columns = {"Method", "reached", "rounds", "MB"};
  std::vector<double> rounds, megabytes;  // of those of which all seeds did
  for (const Group& group : cell.groups) {
    const results::ToTarget reached = ToTargetOf(group, target);
    const auto seeds = static_cast<double>(group.runs.size());
    const auto in_megabytes = [](results::Spread bytes) {
      return results::Spread{bytes.mean / 1e6, bytes.std / 1e6, bytes.count};
    };
    const results::Spread upload = in_megabytes(reached.uplink_bytes);
    const bool all = reached.reached == seeds;
    rounds.push_back(all ? reached.rounds.mean : std::nan(""));
    megabytes.push_back(all ? upload.mean : std::nan(""));
    table.rows.push_back(
        {group.label, fmt::format("{:.0f} of {:.0f}", reached.reached, seeds),
         SpreadText(reached.rounds, 1), SpreadText(upload, 1)});
  }
  MarkBest(table, 2, rounds, Better::kLower);
  MarkBest(table, 3, megabytes, Better::kLower);
  return table;
}

Table UploadTable(const Setting& setting) {
  Table table;
  table.spans = {{"bits per parameter", 4}, {"of float32", 1}, {"a run", 1}};
  table.columns = {"Method", "all", "payload", "dense", "header", "1 in", "MB"};
  std::vector<double> bits, shrunk, megabytes;
  for (const Setting::Row& row : setting.Rows()) {
    const Cost cost = CostOf(row.runs);
    bits.push_back(cost.bits());
    shrunk.push_back(cost.float32_bits / cost.bits());
    megabytes.push_back(UploadedMegabytes(row.runs));
    table.rows.push_back({row.label, Fixed(bits.back(), 3),
                          Fixed(cost.payload_bits, 3),
                          Fixed(cost.plain_bits, 3), Fixed(cost.header_bits, 3),
                          Fixed(shrunk.back(), 1), Fixed(megabytes.back(), 1)});
  }
  MarkBest(table, 1, bits, Better::kLower);
  MarkBest(table, 5, shrunk, Better::kHigher);
  MarkBest(table, 6, megabytes, Better::kLower);
  return table;
}

Table TimeTable(const Setting& setting) {
  Table table;
  table.columns = {"Method", "training, s", "compression, ms",
                   "of training, %"};
  std::vector<double> train, encode, share;
  for (const Setting::Row& row : setting.Rows()) {
    const Cost cost = CostOf(row.runs);
    train.push_back(cost.train_s);
    encode.push_back(1000 * cost.encode_s);
    share.push_back(100 * cost.encode_s / cost.train_s);
    table.rows.push_back({row.label, Fixed(train.back(), 3),
                          Fixed(encode.back(), 2), Fixed(share.back(), 2)});
  }
  MarkBest(table, 1, train, Better::kLower);
  MarkBest(table, 2, encode, Better::kLower);
  MarkBest(table, 3, share, Better::kLower);
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
  for (size_t row = 0; row < table.rows.size(); ++row) {
    out += "<tr>";
    head(table.rows[row][0], " scope=\"row\"");
    for (size_t i = 1; i < table.rows[row].size(); ++i) {
      const std::string text = HtmlText(table.rows[row][i]);
      const auto shade = table.shades.find({row, i});
      out += fmt::format(
          "<td{}{}>{}</td>", first[i] ? " class=\"first\"" : "",
          shade == table.shades.end()
              ? ""
              : fmt::format(" style=\"--shade:{:.2f}\"", shade->second),
          table.best.contains({row, i}) ? "<b>" + text + "</b>" : text);
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
      const std::string& over = table.spans[span - 1].name;
      if (!over.empty()) name = over + ": " + name;
      --left;
    }
    out += fmt::format(" {} |", MarkdownText(name));
    rule += column == 0 ? "---|" : "---:|";
  }
  out += "\n" + rule + "\n";
  for (size_t row = 0; row < table.rows.size(); ++row) {
    out += "|";
    for (size_t i = 0; i < table.rows[row].size(); ++i) {
      const char* bold = table.best.contains({row, i}) ? "**" : "";
      out += fmt::format(" {}{}{} |", bold, MarkdownText(table.rows[row][i]),
                         bold);
    }
    out += "\n";
  }
  return out;
}

std::string MarkdownReport(const Study& study) {
  std::string out = "# FedMRN: results\n\n";
  if (!study.title.empty()) out += study.title + "\n\n";
  out += fmt::format("## Accuracy\n\n{}\n", kAccuracyText);
  const auto section = [&](const Setting& setting) {
    out += fmt::format("\n### {}\n\n", setting.name);
  };
  for (const Setting& setting : study.settings) {
    for (const Cell& cell : setting.cells) {
      out += fmt::format("\n### {}, {}\n\n{}\n\n", setting.name, cell.name,
                         ProtocolNote(setting, cell)) +
             MarkdownTable(AccuracyTable(setting, cell));
    }
  }
  bool targets = false;
  for (const Setting& setting : study.settings) {
    const double target = TargetOf(study, setting);
    if (std::isnan(target)) continue;
    if (!targets) out += fmt::format("\n## To a target\n\n{}\n", kTargetText);
    targets = true;
    for (const Cell& cell : setting.cells) {
      out += fmt::format("\n### {}, {}\n\n", setting.name, cell.name) +
             MarkdownTable(TargetTable(setting, cell, target));
    }
  }
  if (const Table losses = LossTable(study); !losses.rows.empty()) {
    out += fmt::format("\n## Accuracy against FedAvg\n\n{}\n\n", kLossText) +
           MarkdownTable(losses);
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
      "last_std,last_ten_mean,last_ten_std,last_ten_swing,last_ten_tests,"
      "uploaded_mb,bits_per_param,payload_bits,dense_bits,header_bits,train_s,"
      "encode_s,paper_mean,paper_std,target_accuracy,reached_seeds,"
      "rounds_to_target,uploaded_mb_to_target\n";
  for (const Setting& setting : study.settings) {
    for (const Cell& cell : setting.cells) {
      for (const Group& group : cell.groups) {
        const auto paper =
            group.standard && setting.IsPapers(cell)
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
        const double target = TargetOf(study, setting);
        const results::ToTarget reached = ToTargetOf(group, target);
        const std::array numbers = {group.best.mean,
                                    group.best.std,
                                    group.last.mean,
                                    group.last.std,
                                    group.last_ten.mean,
                                    group.last_ten.std,
                                    group.swing,
                                    static_cast<double>(group.last_tests),
                                    group.uploaded_mb,
                                    cost.bits(),
                                    cost.payload_bits,
                                    cost.plain_bits,
                                    cost.header_bits,
                                    cost.train_s,
                                    cost.encode_s,
                                    paper ? paper->mean : missing,
                                    paper ? paper->std : missing,
                                    target,
                                    reached.reached,
                                    reached.rounds.mean,
                                    reached.uplink_bytes.mean / 1e6};
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
