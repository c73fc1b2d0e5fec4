#include "fedmrn/report/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "fedmrn/base/files.h"
#include "fedmrn/base/json.h"
#include "fedmrn/report/text.h"
#include "fedmrn/results/grid_place.h"
#include "fedmrn/sim/config.h"

namespace fedmrn::report {
namespace {

namespace fs = std::filesystem;

Error Bad(const std::string& path, const std::string& what) {
  return {ErrorCode::kBadFormat, path + ": " + what};
}

// The value may be of any type; that of a missing key is null.
const Json& At(const Json& object, const char* key) {
  static const Json null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

uint64_t CountOf(const Json& value) {
  return value.is_number_unsigned() ? value.get<uint64_t>() : 0;
}

void Flatten(const Json& object, const std::string& prefix,
             std::vector<std::pair<std::string, std::string>>& out) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      Flatten(value, prefix + key + ".", out);
    } else {
      out.emplace_back(prefix + key, JsonText(value));
    }
  }
}

auto EntryOf(const SavedRun& run, std::string_view key) {
  return std::ranges::find(run.config, key,
                           &std::pair<std::string, std::string>::first);
}

std::string_view SectionOf(std::string_view key) {
  const size_t dot = key.rfind('.');
  return key.substr(0, dot == key.npos ? 0 : dot);
}

// What earlier versions called otherwise.
void TranslateOlder(SavedRun& run) {
  for (auto& [key, value] : run.config) {
    if (key == "method.name" && value == "\"drive\"" &&
        run.Get("method.unbiased") == "false") {
      value = "\"drive-biased\"";
    }
  }
  std::erase_if(run.config, [](const auto& entry) {
    return entry.first == "method.unbiased";
  });
}

// Keys that are younger than the run, at the end of their sections.
void FillDefaults(SavedRun& run) {
  std::map<std::string, std::string> usual = UsualConfig(run);
  // Before there was one, the run's seed was that of the partition as well.
  if (const std::string seed = run.Get("seed"); !seed.empty()) {
    usual["partition.seed"] = seed;
  }
  for (const auto& [key, value] : usual) {
    if (EntryOf(run, key) != run.config.end()) continue;
    const auto same = [section = SectionOf(key)](const auto& entry) {
      return SectionOf(entry.first) == section;
    };
    const auto last =
        std::find_if(run.config.rbegin(), run.config.rend(), same);
    run.config.emplace(
        last == run.config.rend() ? run.config.end() : last.base(), key, value);
  }
}

std::string MachineText(const Json& machine) {
  std::string text = TextOf(At(machine, "cpu"));
  if (text.empty()) text = TextOf(At(machine, "architecture"));
  const auto add = [&](const std::string& more) {
    if (!more.empty()) text += (text.empty() ? "" : ", ") + more;
  };
  if (const uint64_t cores = CountOf(At(machine, "cores"))) {
    add(Counted(cores, "core"));
  }
  add(TextOf(At(machine, "os")));
  return text;
}

// Empty if there is none, or it is not square.
results::Confusion ConfusionOf(const Json& tested) {
  if (!tested.is_object()) return {};
  const Json& rows = At(tested, "confusion");
  if (!rows.is_array()) return {};
  results::Confusion confusion;
  confusion.round = static_cast<uint32_t>(CountOf(At(tested, "round")));
  for (const Json& row : rows) {
    if (!row.is_array() || row.size() != rows.size()) return {};
    for (const Json& count : row) confusion.counts.push_back(CountOf(count));
  }
  return confusion;
}

Result<SavedRun> ReadRun(const std::string& folder) {
  SavedRun run;
  run.folder = folder;
  const std::string json_path = folder + "/run.json",
                    csv_path = folder + "/rounds.csv";
  const Result<Bytes> json_bytes = ReadFile(json_path);
  if (!json_bytes) return json_bytes.error();
  const Json json = ParseJson(AsText(*json_bytes));
  if (json.is_discarded() || !json.is_object()) {
    return Bad(json_path, "is damaged: it is not a JSON object");
  }
  const Json& config = At(json, "config");
  if (config.is_object()) Flatten(config, "", run.config);
  for (const char* key : {"method.name", "data.name", "partition.kind"}) {
    if (run.Get(key).empty()) {
      return Bad(json_path,
                 fmt::format("has no config.{}; it is no run of fedmrn, or "
                             "damaged",
                             key));
    }
  }
  TranslateOlder(run);
  FillDefaults(run);
  run.finished = At(json, "finished") == true;
  run.ended_by = TextOf(At(json, "ended_by"));
  run.confusion = ConfusionOf(At(json, "last"));
  run.coded_params = CountOf(At(json, "masked_params"));
  run.plain_values = CountOf(At(json, "dense_values"));
  if (run.coded_params == 0) {
    return Bad(json_path, "has no masked_params; it is damaged");
  }
  if (At(json, "metric").is_string()) run.metric = TextOf(json["metric"]);
  run.model_sha256 = TextOf(At(json, "model_sha256"));
  run.data_sha256 = TextOf(At(json, "data_sha256"));
  run.model_file_sha256 = TextOf(At(json, "model_file_sha256"));
  run.train_examples = CountOf(At(json, "train_examples"));
  run.test_examples = CountOf(At(json, "test_examples"));
  run.version = TextOf(At(json, "fedmrn_version"));
  run.machine = MachineText(At(json, "machine"));
  run.started = TextOf(At(json, "started"));
  run.ended = TextOf(At(json, "ended"));

  results::GridPlace place = results::ReadGridPlace(folder);
  run.grid_summary = std::move(place.summary);
  run.grid_labels = std::move(place.labels);

  const Result<Bytes> csv = ReadFile(csv_path);
  if (!csv) return csv.error();
  Result<std::vector<results::RoundRow>> rows =
      results::ParseRoundsCsv(AsText(*csv));
  if (!rows) return Bad(csv_path, rows.error().ToString());
  run.rows = std::move(*rows);
  run.summary = results::SummaryOf(run.rows);
  if (run.rows.size() != CountOf(At(json, "rounds_done")) && run.finished) {
    return Bad(csv_path,
               fmt::format("has {} rounds, but run.json tells of {}",
                           run.rows.size(), CountOf(At(json, "rounds_done"))));
  }
  return run;
}

// Folders with a run.json at or below `dir`, into `folders`.
Status FindRuns(const std::string& dir, std::vector<fs::path>& folders) {
  const auto unreadable = [](const fs::path& path, const std::error_code& why) {
    return Error{ErrorCode::kUnavailable,
                 path.string() + ": cannot read it: " + why.message()};
  };
  std::error_code error;
  if (!fs::is_directory(dir, error)) {
    if (!error) error = std::make_error_code(std::errc::not_a_directory);
    return unreadable(dir, error);
  }
  if (fs::exists(fs::path(dir) / "run.json", error)) folders.emplace_back(dir);
  fs::recursive_directory_iterator entry(dir, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) &&
        fs::exists(entry->path() / "run.json", ignored)) {
      folders.push_back(entry->path());
    }
  }
  if (error) return unreadable(dir, error);
  return Ok();
}

}  // namespace

std::string SavedRun::Get(std::string_view key) const {
  const auto entry = EntryOf(*this, key);
  if (entry == config.end()) return "";
  const Json value = ParseJson(entry->second);
  return value.is_string() ? value.get<std::string>() : entry->second;
}

double SavedRun::Number(std::string_view key, double otherwise) const {
  const Json value = ParseJson(Get(key));
  return value.is_number() ? value.get<double>() : otherwise;
}

std::map<std::string, std::string> UsualConfig(const SavedRun& run) {
  std::vector<std::string> settings;
  for (const char* key : {"data.name", "model.torchscript", "model.name",
                          "partition.kind", "method.name"}) {
    settings.push_back(std::string(key) + "=" + run.Get(key));
    // Runs of other versions may have one that is unknown.
    if (!sim::ParseConfig("", "", settings)) settings.pop_back();
  }
  const bool known =
      !settings.empty() && settings.back().starts_with("method.name=");
  std::map<std::string, std::string> usual;
  for (const auto& [key, value] :
       sim::ConfigValues(sim::ParseConfig("", "", settings).value())) {
    const Json json = ParseJson(value);
    usual[key] = json.is_discarded() ? value : JsonText(json);
  }
  if (!known) {
    for (const char* key : {"method.name", "method.magnitude", "train.lr"}) {
      usual.erase(key);
    }
  }
  return usual;
}

Result<std::vector<SavedRun>> ReadRuns(std::span<const std::string> dirs) {
  std::vector<fs::path> folders;
  for (const std::string& dir : dirs) {
    const Status found = FindRuns(dir, folders);
    if (!found) return found.error();
  }
  if (folders.empty()) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{}: no run here or below: none has a run.json; "
                             "fedmrn run --out DIR makes one",
                             fmt::join(dirs, ", "))};
  }
  for (fs::path& folder : folders) folder = folder.lexically_normal();
  std::ranges::sort(folders);
  std::vector<SavedRun> runs;
  std::set<fs::path> seen;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    // One that is given, and lies below another that is given.
    if (!seen.insert(fs::canonical(folder, ignored)).second) continue;
    std::string name = folder.string();
    if (name.size() > 1 && name.ends_with('/')) name.pop_back();
    Result<SavedRun> run = ReadRun(name);
    if (!run) return run.error();
    runs.push_back(std::move(*run));
  }
  return runs;
}

std::string ConfigToml(const SavedRun& run) {
  std::string top, text, section;
  for (const auto& [name, value] : run.config) {
    const std::string_view its = SectionOf(name);
    if (its.empty()) {
      top += fmt::format("{} = {}\n", name, value);
      continue;
    }
    if (its != section) {
      section = its;
      text += fmt::format("[{}]\n", section);
    }
    text += fmt::format("{} = {}\n", name.substr(its.size() + 1), value);
  }
  return top + text;
}

}  // namespace fedmrn::report
