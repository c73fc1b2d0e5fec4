#include "fedmrn/results/results.h"

#include <fmt/core.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <set>
#include <thread>
#include <variant>

#include "fedmrn/base/files.h"
#include "fedmrn/base/json.h"
#include "fedmrn/results/summary.h"

namespace fedmrn::results {
namespace {

struct Column {
  std::string_view name;
  std::variant<uint32_t RoundRow::*, uint64_t RoundRow::*, double RoundRow::*>
      field;
  enum Kind { kExact, kMayBeEmpty, kSeconds } kind = kExact;
  bool in_all_files = true;
};

const Column kColumns[] = {
    {"round", &RoundRow::round},
    {"accuracy", &RoundRow::score, Column::kMayBeEmpty},
    {"loss", &RoundRow::loss, Column::kMayBeEmpty},
    {"uplink_bytes", &RoundRow::uplink_bytes},
    {"payload_bytes", &RoundRow::payload_bytes},
    {"dense_bytes", &RoundRow::plain_bytes},
    {"downlink_bytes", &RoundRow::downlink_bytes},
    {"uplink_bits_per_param", &RoundRow::uplink_bits_per_param},
    {"clients", &RoundRow::clients},
    {"dropped", &RoundRow::dropped},
    {"train_s", &RoundRow::train_s, Column::kSeconds},
    {"encode_s", &RoundRow::encode_s, Column::kSeconds},
    {"aggregate_s", &RoundRow::aggregate_s, Column::kSeconds},
    {"eval_s", &RoundRow::eval_s, Column::kSeconds},
    {"wall_s", &RoundRow::wall_s, Column::kSeconds},
    // Not in all files; more are added at the end.
    {"mean_iou", &RoundRow::mean_iou, Column::kMayBeEmpty, false},
    {"train_loss", &RoundRow::train_loss, Column::kMayBeEmpty, false},
    {"train_accuracy", &RoundRow::train_score, Column::kMayBeEmpty, false},
    {"client_accuracy", &RoundRow::client_score, Column::kMayBeEmpty, false},
    {"client_accuracy_p10", &RoundRow::client_score_p10, Column::kMayBeEmpty,
     false},
    {"client_accuracy_worst", &RoundRow::client_score_worst,
     Column::kMayBeEmpty, false},
    {"personal_accuracy", &RoundRow::personal_score, Column::kMayBeEmpty,
     false},
    {"personal_accuracy_p10", &RoundRow::personal_score_p10,
     Column::kMayBeEmpty, false},
    {"personal_accuracy_worst", &RoundRow::personal_score_worst,
     Column::kMayBeEmpty, false},
    {"magnitude", &RoundRow::magnitude, Column::kMayBeEmpty, false},
    {"share_of_ones", &RoundRow::share_of_ones, Column::kMayBeEmpty, false},
};

using Columns = std::vector<Column>;

// Those that some of the rows have a value for.
Columns ColumnsOf(std::span<const RoundRow> rows) {
  Columns columns;
  for (const Column& column : kColumns) {
    const auto has_value = [&](const RoundRow& row) {
      return !std::isnan(row.*std::get<double RoundRow::*>(column.field));
    };
    // From the last: what new rows have, older ones mostly have, too.
    if (column.in_all_files ||
        std::any_of(rows.rbegin(), rows.rend(), has_value)) {
      columns.push_back(column);
    }
  }
  return columns;
}

std::string Header(const Columns& columns) {
  std::string header;
  for (const Column& column : columns) {
    if (!header.empty()) header += ',';
    header += column.name;
  }
  return header;
}

std::set<std::string_view> Names(std::string_view header) {
  std::set<std::string_view> names;
  for (size_t comma = 0; comma != header.npos;) {
    comma = header.find(',');
    names.insert(header.substr(0, comma));
    if (comma != header.npos) header.remove_prefix(comma + 1);
  }
  return names;
}

std::string Field(const Column& column, const RoundRow& row) {
  return std::visit(
      [&](auto member) {
        const double value = static_cast<double>(row.*member);
        if (column.kind == Column::kSeconds) {
          return fmt::format("{:.3f}", value);
        }
        const bool empty =
            column.kind == Column::kMayBeEmpty && std::isnan(value);
        return empty ? std::string() : fmt::format("{}", row.*member);
      },
      column.field);
}

bool ParseField(const Column& column, std::string_view text, RoundRow& row) {
  if (text.empty()) return column.kind == Column::kMayBeEmpty;
  return std::visit(
      [&](auto member) {
        const char* end = text.data() + text.size();
        const auto [at, failure] =
            std::from_chars(text.data(), end, row.*member);
        return failure == std::errc() && at == end;
      },
      column.field);
}

// What is wrong with a line, or nothing.
std::optional<std::string> ParseRow(const Columns& columns,
                                    std::string_view line, RoundRow& row) {
  for (const Column& column : columns) {
    const size_t comma = line.find(',');
    const bool last = &column == &columns.back();
    if (last != (comma == line.npos)) {
      return fmt::format("has {} than {} fields", last ? "more" : "fewer",
                         columns.size());
    }
    const std::string_view field = line.substr(0, comma);
    if (!ParseField(column, field, row)) {
      return fmt::format("{} is '{}', not a number of its kind", column.name,
                         field);
    }
    if (!last) line.remove_prefix(comma + 1);
  }
  return std::nullopt;
}

Json Number(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

std::string UtcTime(int64_t seconds) {
  const std::time_t time = static_cast<std::time_t>(seconds);
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  const size_t size =
      std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return std::string(text, size);
}

// The value of the first "key ... SEPARATOR value" line of a system file.
Json LineOf(const std::string& path, std::string_view key, char separator) {
  const Result<Bytes> bytes = ReadFile(path);
  if (!bytes) return nullptr;
  std::string_view text = AsText(*bytes);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t at = line.find(separator);
    if (!line.starts_with(key) || at == line.npos) continue;
    const size_t first = line.find_first_not_of("\t \"", at + 1);
    if (first == line.npos) return nullptr;
    const size_t last = line.find_last_not_of("\t \"");
    return std::string(line.substr(first, last - first + 1));
  }
  return nullptr;
}

Json Machine(const RunInfo& info) {
  utsname system{};
  uname(&system);
  return {{"cpu", LineOf("/proc/cpuinfo", "model name", ':')},
          {"architecture", system.machine},
          {"simd", info.simd_target},
          {"mixed", info.mixed},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_bytes", static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                               static_cast<uint64_t>(sysconf(_SC_PAGESIZE))},
          {"os", LineOf("/etc/os-release", "PRETTY_NAME", '=')},
          {"kernel", fmt::format("{} {}", system.sysname, system.release)}};
}

// Sections become objects. JSON reads a value as TOML writes it, unless it
// is text that is not UTF-8.
Json ConfigJson(ConfigValuesView config) {
  Json out = Json::object();
  for (const auto& [name, value] : config) {
    Json parsed = ParseJson(value);
    if (parsed.is_discarded()) parsed = value;
    const size_t dot = name.find('.');
    Json& section = dot == name.npos ? out : out[name.substr(0, dot)];
    section[dot == name.npos ? name : name.substr(dot + 1)] = parsed;
  }
  return out;
}

// A tested round. The best one is told in fewer words.
Json TestedRound(const RoundRow& row, const Confusion& confusion, bool best) {
  Json out = {{"round", row.round}, {"accuracy", Number(row.score)}};
  if (!best) out["loss"] = Number(row.loss);
  if (!std::isnan(row.mean_iou)) out["mean_iou"] = Number(row.mean_iou);
  if (confusion.round != row.round || confusion.counts.empty()) return out;
  out["macro_f1"] = Number(MacroF1(confusion));
  for (const double accuracy : ClassAccuracies(confusion)) {
    out["class_accuracy"].push_back(Number(accuracy));
  }
  const size_t classes = confusion.classes();
  for (size_t truth = 0; truth < classes; ++truth) {
    const auto row_begin =
        confusion.counts.begin() + static_cast<ptrdiff_t>(truth * classes);
    out["confusion"].push_back(std::vector<uint64_t>(
        row_begin, row_begin + static_cast<ptrdiff_t>(classes)));
  }
  return out;
}

Json Totals(const RoundRow& sum) {
  return {{"uplink_bytes", sum.uplink_bytes},
          {"payload_bytes", sum.payload_bytes},
          {"dense_bytes", sum.plain_bytes},
          {"downlink_bytes", sum.downlink_bytes},
          {"clients", sum.clients},
          {"dropped", sum.dropped},
          {"train_s", Number(sum.train_s)},
          {"encode_s", Number(sum.encode_s)},
          {"aggregate_s", Number(sum.aggregate_s)},
          {"eval_s", Number(sum.eval_s)},
          {"wall_s", Number(sum.wall_s)}};
}

}  // namespace

std::string RoundsCsv(std::span<const RoundRow> rows) {
  return GrowingCsv().Of(rows);
}

const std::string& GrowingCsv::Of(std::span<const RoundRow> rows) {
  const Columns columns = ColumnsOf(rows);
  const std::string header = Header(columns) + '\n';
  if (!csv_.starts_with(header) || rows_ > rows.size()) {
    csv_ = header;
    rows_ = 0;
  }
  for (const RoundRow& row : rows.subspan(rows_)) {
    for (const Column& column : columns) {
      csv_ += Field(column, row);
      csv_ += &column == &columns.back() ? '\n' : ',';
    }
  }
  rows_ = rows.size();
  return csv_;
}

Status WriteRoundsCsv(const std::string& path, std::span<const RoundRow> rows) {
  return WriteFileAtomically(path, AsBytes(RoundsCsv(rows)));
}

Result<std::vector<RoundRow>> ParseRoundsCsv(std::string_view text) {
  std::vector<RoundRow> rows;
  Columns columns = ColumnsOf({});
  for (size_t number = 1; number == 1 || !text.empty(); ++number) {
    const auto failed = [&](ErrorCode code, const std::string& what) {
      return Error{code, fmt::format("line {}: {}", number, what)};
    };
    const size_t end = text.find('\n');
    // Without its end, even a line of 13 numbers may lack the last digits.
    if (end == text.npos) {
      return failed(ErrorCode::kTruncated, "is cut off: the file ends in it");
    }
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (number == 1) {
      for (const Column& column : kColumns) {
        if (!column.in_all_files && Names(line).contains(column.name)) {
          columns.push_back(column);
        }
      }
      if (line != Header(columns)) {
        return failed(ErrorCode::kBadFormat, "should be " + Header(columns));
      }
      continue;
    }
    RoundRow row;
    if (const auto wrong = ParseRow(columns, line, row)) {
      return failed(ErrorCode::kBadValue, *wrong);
    }
    if (!rows.empty() && row.round <= rows.back().round) {
      return failed(
          ErrorCode::kBadValue,
          fmt::format("round {} after round {}", row.round, rows.back().round));
    }
    rows.push_back(row);
  }
  return rows;
}

std::string RunJson(ConfigValuesView config, const RunInfo& info,
                    std::span<const RoundRow> rows) {
  const Summary summary = SummaryOf(rows);
  Json out;
  out["fedmrn_version"] = info.version;
  out["started"] = UtcTime(info.started);
  out["ended"] = info.ended ? Json(UtcTime(*info.ended)) : Json();
  out["finished"] = info.ended.has_value();
  out["ended_by"] = info.ended ? Json(info.ended_by) : Json();
  out["rounds_done"] = rows.size();
  out["metric"] = info.metric;
  out["best"] = nullptr;
  out["last"] = nullptr;
  if (summary.tested()) {
    out["best"] = TestedRound(summary.best, info.confusions.best, true);
    out["last"] = TestedRound(summary.last, info.confusions.last, false);
  }
  out["totals"] = Totals(summary.totals);
  out["masked_params"] = info.coded_params;
  out["dense_values"] = info.plain_values;
  out["local_values"] = info.local_values;
  out["model_sha256"] = info.model_sha256;
  out["data_sha256"] = info.inputs.data_sha256;
  out["model_file_sha256"] = info.inputs.model_file_sha256;
  out["train_examples"] = info.train_examples;
  out["test_examples"] = info.test_examples;
  out["config"] = ConfigJson(config);
  out["machine"] = Machine(info);
  // A folder's name in the config need not be UTF-8.
  return JsonText(out, 2) + '\n';
}

Status WriteRunJson(const std::string& path, ConfigValuesView config,
                    const RunInfo& info, std::span<const RoundRow> rows) {
  return WriteFileAtomically(path, AsBytes(RunJson(config, info, rows)));
}

Result<RunFacts> ParseRunJson(std::string_view json) {
  const Json run = ParseJson(json);
  const auto finished = run.find("finished");
  if (!run.is_object() || finished == run.end() || !finished->is_boolean()) {
    return Error{ErrorCode::kBadFormat, "is damaged, or no run's"};
  }
  const auto text = [&](const char* name, const std::string& otherwise) {
    const auto found = run.find(name);
    return found != run.end() && found->is_string() ? found->get<std::string>()
                                                    : otherwise;
  };
  const auto machine = run.find("machine");
  const bool mixed = machine != run.end() && machine->is_object() &&
                     machine->contains("mixed") && machine->at("mixed") == true;
  return RunFacts{finished->get<bool>(),
                  text("metric", RunInfo().metric),
                  {text("data_sha256", ""), text("model_file_sha256", "")},
                  mixed};
}

}  // namespace fedmrn::results
