#include "fedmrn/report/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "fedmrn/base/json.h"
#include "fedmrn/report/paper.h"
#include "fedmrn/report/text.h"
#include "fedmrn/report/values.h"
#include "fedmrn/sim/config.h"
#include "fedmrn/train/data/dataset.h"

namespace fedmrn::report {
namespace {

bool In(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

std::string Unquoted(const std::string& value) {
  const bool text = value.size() >= 2 && value.front() == '"';
  return text ? value.substr(1, value.size() - 2) : value;
}

// What reads better than its key and value.
struct Wording {
  std::string_view key, value, text;
};
constexpr Wording kWordings[] = {
    {"method.error_feedback", "true", "with error feedback"},
    {"method.decoded_statistics", "true", "with decoded statistics"},
    {"method.noise", "\"uniform\"", "uniform"},
    {"method.noise", "\"gaussian\"", "Gaussian"},
    {"method.noise", "\"bernoulli\"", "Bernoulli"},
    {"method.optimizer", "\"sgd\"", "with SGD"},
    {"method.optimizer", "\"adam\"", "with Adam"},
    {"partition.labels_assignment", "\"random\"", "label sets at random"},
    {"partition.labels_assignment", "\"cyclic\"", "label sets in cycles"},
};

// "alpha=0.1"
std::string KeyText(const std::string& key, const std::string& value) {
  for (const Wording& wording : kWordings) {
    if (wording.key == key && wording.value == value) {
      return std::string(wording.text);
    }
  }
  return std::string(sim::DescribeKey(key).short_name) + "=" + Unquoted(value);
}

// "train.batch=25 (64)": the paper's in brackets. Of a key that this program
// does not know, nobody can say that the value is the paper's.
std::string DepartureText(const std::string& key, const std::string& value,
                          const std::string& paper) {
  const auto text = [](const std::string& quoted) {
    const std::string its = Unquoted(quoted);
    return its.empty() ? "none" : its;
  };
  return fmt::format("{}={} ({})", key, text(value),
                     paper.empty() ? "unknown" : text(paper));
}

// Keys of which the items have several values, or not all of them one.
template <typename T, typename Of>
std::set<std::string> Varying(const std::vector<T>& items, Of values_of) {
  std::map<std::string, std::multiset<std::string>> seen;
  for (const T& item : items) {
    for (const auto& [key, value] : values_of(item)) seen[key].insert(value);
  }
  std::set<std::string> keys;
  for (const auto& [key, values] : seen) {
    if (values.count(*values.begin()) < items.size()) keys.insert(key);
  }
  return keys;
}

// Label, `standard` and the kinds of variants of one method's groups of a cell.
void LabelGroups(const std::string& method, std::vector<Group*>& groups) {
  const Values defaults = UsualConfig(*groups.front()->runs.front());
  const auto values_of = [](const Group* group) {
    return ValuesOf(*group->runs.front(), Part::kMethod);
  };
  const std::set<std::string> varying = Varying(groups, values_of);
  for (Group* group : groups) {
    const Values values = values_of(group);
    const auto off = [&](const char* key) {
      const auto found = values.find(key);
      return found != values.end() && found->second == "false";
    };
    const bool no_sm = off("method.stochastic"),
               no_pm = off("method.progressive");
    const std::string parts = no_sm && no_pm ? " w/o PSM"
                              : no_sm        ? " w/o SM"
                              : no_pm        ? " w/o PM"
                                             : "";
    std::string label = MethodTitle(method) + parts, but_noise = parts;
    bool noise = false, other = false;
    for (const auto& [key, value] : values) {
      if (In(key, {"method.name", "method.stochastic", "method.progressive"})) {
        continue;
      }
      const auto usual = defaults.find(key);
      const bool differs = usual != defaults.end() && usual->second != value;
      const bool unknown = usual == defaults.end() && varying.contains(key);
      // A tuned learning rate is no other method, unless there are several.
      const bool tuned = key == "train.lr" && !varying.contains(key);
      if ((!differs && !unknown) || tuned) continue;
      const std::string text = " " + KeyText(key, value);
      label += text;
      const bool of_noise = In(key, {"method.noise", "method.magnitude"});
      if (!of_noise) but_noise += text;
      (of_noise ? noise : other) = true;
    }
    const bool masks = In(method, {"fedmrn", "fedmrns"});
    group->label = label;
    group->but_noise = but_noise.empty() ? "" : but_noise.substr(1);
    group->standard = label == MethodTitle(method);
    group->ablation = masks && (no_sm || no_pm) && !noise && !other;
    group->noise_variant = masks && noise && !no_sm && !no_pm && !other;
  }
}

void Measure(Group& group) {
  std::ranges::sort(group.runs, {},
                    [](const SavedRun* run) { return run->Number("seed", 0); });
  std::vector<results::Summary> runs;
  for (const SavedRun* run : group.runs) runs.push_back(run->summary);
  const results::SeedsSummary seeds = results::SummaryOfSeeds(runs);
  const double scale = UnitOf(group.runs.front()->metric).scale;
  const auto scaled = [&](const results::Spread& spread) {
    return results::Spread{scale * spread.mean, scale * spread.std,
                           spread.count};
  };
  group.best = scaled(seeds.best);
  group.last = scaled(seeds.last);
  group.last_ten = scaled(seeds.last_ten);
  group.swing = scale * seeds.swing;
  group.last_rounds = seeds.last_rounds;
  group.last_tests = seeds.last_tests;
  group.uploaded_mb = seeds.uplink_bytes.mean / 1e6;
  group.cost = CostOf(group.runs);
}

// "Dirichlet, alpha=0.1", "3 labels per client, label sets in cycles": what is
// the partition's own, and what is not as usual.
std::string PartitionWords(const SavedRun& run) {
  const std::string kind = run.Get("partition.kind");
  Values values = ValuesOf(run, Part::kPartition);
  values.erase("partition.kind");
  std::string words = kind == "iid"         ? "IID"
                      : kind == "dirichlet" ? "Dirichlet"
                                            : kind;
  if (kind == "labels") {
    words = run.Get("partition.labels_per_client") + " labels per client";
    values.erase("partition.labels_per_client");
  }
  const Values usual = UsualConfig(run);
  for (const auto& [key, value] : values) {
    const auto its_usual = usual.find(key);
    const bool departs = its_usual == usual.end() || its_usual->second != value;
    if (departs ||
        In(key, {"partition.alpha", "partition.labels_assignment"})) {
      words += ", " + KeyText(key, value);
    }
  }
  return words;
}

Cell MakeCell(const std::vector<const SavedRun*>& runs) {
  const SavedRun& first = *runs.front();
  Cell cell;
  cell.kind = first.Get("partition.kind");
  cell.name = PartitionWords(first);
  const PaperData* data = FindPaperData(first.Get("data.name"));
  if (data != nullptr &&
      std::ranges::find(data->partitions, cell.kind, &PaperPartition::kind) ==
          data->partitions.end()) {
    cell.departures.push_back(DepartureText(
        "kind", cell.kind, std::string(data->partitions.front().kind)));
  }
  Values usual = UsualConfig(first);
  // The text of the paper reads as "random", its numbers are of this.
  usual["partition.labels_assignment"] = "\"cyclic\"";
  if (data != nullptr) {
    usual["partition.alpha"] = fmt::format("{}", data->alpha);
    usual["partition.labels_per_client"] =
        fmt::format("{}", data->labels_per_client);
  }
  for (const auto& [key, value] : ValuesOf(first, Part::kPartition)) {
    if (key == "partition.kind" || usual[key] == value) continue;
    cell.departures.push_back(DepartureText(
        std::string(sim::DescribeKey(key).short_name), value, usual[key]));
  }
  std::map<Values, Group> groups;
  for (const SavedRun* run : runs) {
    groups[ValuesOf(*run, Part::kMethod)].runs.push_back(run);
  }
  for (auto& [values, group] : groups) {
    group.method = group.runs.front()->Get("method.name");
    Measure(group);
    cell.groups.push_back(std::move(group));
  }
  std::map<std::string, std::vector<Group*>> by_method;
  for (Group& group : cell.groups) by_method[group.method].push_back(&group);
  for (auto& [method, members] : by_method) LabelGroups(method, members);
  // The standard first, then variants of one key by their numbers.
  std::ranges::sort(cell.groups, {}, [](const Group& group) {
    return std::tuple(MethodOrder(group.method), group.method, !group.standard,
                      group.noise_variant,
                      group.runs.front()->Number("method.magnitude", 0),
                      group.runs.front()->Number("train.lr", 0),
                      group.label.size(), group.label);
  });
  return cell;
}

// What a run is called on those axes of its grid. Numbers, and true and false,
// need the axis's name.
std::string GridLabel(const SavedRun& run, const std::set<std::string>& axes) {
  std::string text;
  for (const auto& [axis, label] : run.grid_labels) {
    if (!axes.contains(axis)) continue;
    if (!text.empty()) text += ", ";
    if (label == run.Get("method.name")) {
      text += MethodTitle(label);
    } else {
      const Json value = ParseJson(label);
      text +=
          value.is_number() || value.is_boolean() ? axis + "=" + label : label;
    }
  }
  return text;
}

// The names that people gave to the variants of their grids say more than keys
// and values, if every group has one and no two share one.
void TakeGridLabels(Setting& setting) {
  std::set<std::string> axes;  // on which groups of one cell differ
  for (const Cell& cell : setting.cells) {
    std::map<std::string, std::set<std::string>> labels;
    for (const Group& group : cell.groups) {
      for (const auto& [axis, label] : group.runs.front()->grid_labels) {
        if (!sim::RepeatsRuns(axis)) labels[axis].insert(label);
      }
    }
    for (const auto& [axis, its] : labels) {
      if (its.size() > 1) axes.insert(axis);
    }
  }
  std::map<std::string, Values> meaning;
  std::map<Values, std::string> names;
  for (const Cell& cell : setting.cells) {
    for (const Group& group : cell.groups) {
      const Values values = ValuesOf(*group.runs.front(), Part::kMethod);
      for (const SavedRun* run : group.runs) {
        const std::string label = GridLabel(*run, axes);
        if (label.empty() ||
            meaning.emplace(label, values).first->second != values ||
            names.emplace(values, label).first->second != label) {
          return;
        }
      }
    }
  }
  for (Cell& cell : setting.cells) {
    for (Group& group : cell.groups) {
      group.label = GridLabel(*group.runs.front(), axes);
    }
  }
}

size_t PartitionOrder(const Cell& cell) {
  return static_cast<size_t>(
      std::ranges::find(kPaperPartitions, cell.kind, &PaperPartition::kind) -
      kPaperPartitions.begin());
}

// What sets runs apart from the paper's, but not from each other by a key: the
// best of fewer tests, and a part of an image set.
void AddUnsaidDepartures(const std::vector<const SavedRun*>& runs,
                         std::vector<std::string>& departures) {
  const auto sparse = std::ranges::find_if(runs, [](const SavedRun* run) {
    return run->Number("run.eval_every", 1) > 1;
  });
  if (sparse != runs.end()) {
    departures.push_back(
        DepartureText("run.eval_every", (*sparse)->Get("run.eval_every"), "1"));
  }
  const train::DataSet* set =
      train::FindDataSet(runs.front()->Get("data.name"));
  if (set == nullptr || set->height == 0) return;
  // What is used of a whole set has keys, which are departures themselves.
  const auto add_part = [&](const char* what, const char* key, uint64_t whole,
                            uint64_t SavedRun::*its) {
    const auto part = std::ranges::find_if(runs, [&](const SavedRun* run) {
      return run->*its != 0 && run->*its != whole && run->Number(key, 0) == 0;
    });
    if (whole == 0 || part == runs.end()) return;
    departures.push_back(DepartureText(what, std::to_string((*part)->*its),
                                       std::to_string(whole)));
  };
  add_part("training examples", "data.train_examples", set->train_examples,
           &SavedRun::train_examples);
  // Held-out examples are none of the test set.
  if (runs.front()->Number("data.validation", 0) > 0) return;
  add_part("test examples", "data.test_examples", set->test_examples,
           &SavedRun::test_examples);
}

Setting MakeSetting(const std::vector<const SavedRun*>& runs) {
  const SavedRun& first = *runs.front();
  const auto integer = [&](const char* key) {
    const double value = first.Number(key, 0);
    return value >= 0 && value < 4e9 ? static_cast<uint32_t>(value) : 0;
  };
  Setting setting;
  setting.data = first.Get("data.name");
  setting.metric = first.metric;
  if (first.Number("data.validation", 0) > 0) setting.on = "validation";
  setting.rounds = integer("rounds.count");
  setting.epochs = integer("train.epochs");
  std::map<Values, std::vector<const SavedRun*>> cells;
  for (const SavedRun* run : runs) {
    cells[ValuesOf(*run, Part::kPartition)].push_back(run);
  }
  for (const auto& [values, members] : cells) {
    setting.cells.push_back(MakeCell(members));
  }
  std::ranges::sort(setting.cells, {}, [](const Cell& cell) {
    return std::tuple(PartitionOrder(cell), cell.departures.size(), cell.name);
  });
  if (const PaperData* data = FindPaperData(setting.data)) {
    // The program's defaults are the paper's settings, except for these.
    Values paper = UsualConfig(first);
    paper["model.name"] = fmt::format("\"{}\"", data->model);
    paper["rounds.count"] = std::to_string(data->rounds);
    paper["train.epochs"] = std::to_string(data->epochs);
    paper["train.batch"] = std::to_string(data->batch);
    for (const PaperKey& own : data->keys)
      paper[std::string(own.key)] = own.value;
    if (data->pre_trained && first.model_files.empty()) {
      setting.departures.push_back(
          DepartureText("model.backbone", "none", "pre-trained"));
    }
    for (const auto& [key, value] : ValuesOf(first, Part::kSetting)) {
      // The authors' code weighs by batches, the paper's text by examples.
      if (key == "rounds.weight" && value == "\"batches\"") continue;
      if (paper[key] == value) continue;
      if (key == "model.backbone" && data->pre_trained) continue;
      setting.departures.push_back(DepartureText(key, value, paper[key]));
    }
    AddUnsaidDepartures(runs, setting.departures);
  }
  bool papers = false;
  for (Cell& cell : setting.cells) {
    if (!setting.IsPapers(cell)) continue;
    papers = true;
    for (const PaperPartition& known :
         FindPaperData(setting.data)->partitions) {
      if (known.kind == cell.kind) cell.name = known.name;
    }
  }
  if (!papers) TakeGridLabels(setting);
  return setting;
}

// Names, with the keys in which settings of one data set and length differ.
void NameSettings(std::vector<Setting>& settings) {
  std::map<std::string, std::vector<Setting*>> same;
  for (Setting& setting : settings) {
    setting.name = fmt::format("{}, {} × {}", DataTitle(setting.data),
                               Counted(setting.rounds, "round"),
                               Counted(setting.epochs, "epoch"));
    same[setting.name].push_back(&setting);
  }
  for (auto& [name, members] : same) {
    const auto values_of = [](const Setting* setting) {
      return ValuesOf(*setting->cells.front().groups.front().runs.front(),
                      Part::kSetting);
    };
    const std::set<std::string> varying = Varying(members, values_of);
    for (Setting* setting : members) {
      for (const auto& [key, value] : values_of(setting)) {
        if (varying.contains(key)) setting->name += ", " + KeyText(key, value);
      }
    }
  }
  std::set<std::string> slugs;
  for (Setting& setting : settings) {
    const std::string slug = IdText(
        fmt::format("{}-{}x{}", setting.data, setting.rounds, setting.epochs));
    setting.slug = slug;
    for (int n = 2; !slugs.insert(setting.slug).second; ++n) {
      setting.slug = fmt::format("{}-{}", slug, n);
    }
  }
}

// The summary that all runs of a setting have; nothing if there is none.
std::string GridSummaryOf(const Setting& setting) {
  std::set<std::string> summaries;
  for (const Cell& cell : setting.cells) {
    for (const Group& group : cell.groups) {
      for (const SavedRun* run : group.runs) {
        summaries.insert(run->grid_summary);
      }
    }
  }
  return summaries.size() == 1 ? *summaries.begin() : "";
}

void TakeGridSummaries(Study& study) {
  std::set<std::string> summaries;
  for (const Setting& setting : study.settings) {
    summaries.insert(GridSummaryOf(setting));
  }
  if (summaries.size() == 1) {
    study.title = *summaries.begin();
    return;
  }
  for (Setting& setting : study.settings) {
    const std::string summary = GridSummaryOf(setting);
    if (!summary.empty()) setting.name = summary + ": " + setting.name;
  }
}

}  // namespace

Cost CostOf(std::span<const SavedRun* const> runs) {
  Cost cost;
  double clients = 0, params = 0, values = 0;
  const auto number = [](uint64_t count) { return static_cast<double>(count); };
  for (const SavedRun* run : runs) {
    // Frames that were refused count where they are part of the upload.
    const results::RoundRow& totals = run->summary.totals;
    const double payload = number(totals.payload_bytes),
                 plain = number(totals.plain_bytes);
    cost.payload_bits += 8 * payload;
    cost.plain_bits += 8 * plain;
    cost.header_bits += 8 * (number(totals.uplink_bytes) - payload - plain);
    cost.train_s += totals.train_s;
    cost.encode_s += totals.encode_s;
    clients += totals.clients;
    params += totals.clients * number(run->coded_params);
    values += totals.clients * number(run->coded_params + run->plain_values);
  }
  for (double* bits :
       {&cost.payload_bits, &cost.plain_bits, &cost.header_bits}) {
    *bits /= params;
  }
  cost.train_s /= clients;
  cost.encode_s /= clients;
  cost.float32_bits = 32 * values / params;
  return cost;
}

double UploadedMegabytes(std::span<const SavedRun* const> runs) {
  double bytes = 0;
  for (const SavedRun* run : runs) {
    bytes += static_cast<double>(run->summary.totals.uplink_bytes);
  }
  return bytes / 1e6 / static_cast<double>(runs.size());
}

const Group* Cell::Standard(std::string_view method) const {
  for (const Group& group : groups) {
    if (group.standard && group.method == method) return &group;
  }
  return nullptr;
}

const Group* Cell::Labelled(std::string_view label) const {
  const auto group = std::ranges::find(groups, label, &Group::label);
  return group == groups.end() ? nullptr : &*group;
}

bool Setting::IsPapers(const Cell& cell) const {
  return FindPaperData(data) != nullptr && departures.empty() &&
         cell.departures.empty();
}

const Cell* Setting::CellOf(std::string_view kind) const {
  const Cell* only = nullptr;
  for (const Cell& cell : cells) {
    if (cell.kind != kind) continue;
    // Those without departures come first.
    if (only != nullptr) return only->departures.empty() ? only : nullptr;
    only = &cell;
  }
  return only;
}

std::vector<Setting::Row> Setting::Rows() const {
  std::vector<const Group*> groups;
  for (const Cell& cell : cells) {
    for (const Group& group : cell.groups) groups.push_back(&group);
  }
  std::ranges::stable_sort(groups, {}, [](const Group* group) {
    return std::tuple(MethodOrder(group->method), group->method,
                      !group->standard);
  });
  std::vector<Row> rows;
  for (const Group* group : groups) {
    auto row = std::ranges::find(rows, group->label, &Row::label);
    if (row == rows.end()) {
      row = rows.insert(rows.end(), {group->label, group->method, {}});
    }
    row->runs.insert(row->runs.end(), group->runs.begin(), group->runs.end());
  }
  return rows;
}

Study MakeStudy(std::vector<SavedRun> runs) {
  Study study;
  study.runs = std::move(runs);
  NameFiles(study.runs);
  study.same_as.resize(study.runs.size());
  // By everything that can change results, seeds included.
  std::map<Values, const SavedRun*> seen;
  std::map<Values, std::vector<const SavedRun*>> settings;
  for (size_t i = 0; i < study.runs.size(); ++i) {
    const SavedRun& run = study.runs[i];
    if (!run.finished || run.rows.empty()) {
      ++study.unfinished;
      continue;
    }
    Values all;
    for (const Part part : kParts) all.merge(ValuesOf(run, part));
    const auto [first, is_new] = seen.emplace(all, &run);
    if (!is_new) {
      study.same_as[i] = first->second;
      ++study.repeated;
      continue;
    }
    settings[ValuesOf(run, Part::kSetting)].push_back(&run);
  }
  for (const auto& [values, members] : settings) {
    study.settings.push_back(MakeSetting(members));
  }
  const auto data_order = [](const Setting& setting) {
    const PaperData* data = FindPaperData(setting.data);
    return data == nullptr ? PaperDataSets().size()
                           : static_cast<size_t>(data - PaperDataSets().data());
  };
  // The paper's order; of one data set, the longest training first.
  std::ranges::stable_sort(study.settings, {}, [&](const Setting& setting) {
    return std::tuple(data_order(setting), setting.data,
                      -static_cast<int64_t>(setting.rounds) * setting.epochs);
  });
  NameSettings(study.settings);
  TakeGridSummaries(study);
  return study;
}

}  // namespace fedmrn::report
