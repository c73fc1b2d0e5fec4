#include "fedmrn/sim/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "fedmrn/base/files.h"
#include "fedmrn/base/similar.h"
#include "fedmrn/sim/config_keys.h"
#include "fedmrn/sim/toml.h"

namespace fedmrn::sim {
namespace {

// More than anybody can wait for, and no burden to the memory.
constexpr size_t kMaxRuns = 100'000;

using Position = toml::source_position;

bool InFileOrder(const Position& a, const Position& b) {
  return std::pair(a.line, a.column) < std::pair(b.line, b.column);
}

// A key of a table, of however many parents: "train.lr".
struct Leaf {
  std::string key;
  Position where;
  const toml::node* node;
};

// In the file's order: toml++ sorts by name.
std::vector<Leaf> LeavesOf(const toml::table& table,
                           const std::string& prefix = "") {
  std::vector<Leaf> leaves;
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      std::ranges::move(LeavesOf(*inner, name + "."),
                        std::back_inserter(leaves));
    } else {
      leaves.push_back({name, key.source().begin, &node});
    }
  }
  std::ranges::sort(leaves, InFileOrder, &Leaf::where);
  return leaves;
}

// A value that "key = " may stand before. What no key can be, a list in a list
// or a table, need not be told to the last.
std::string TomlText(const toml::node& node) {
  // toml++ would write 0.0025 with 17 digits.
  if (const auto* number = node.as_floating_point()) {
    return fmt::format("{}", number->get());
  }
  // Nor does it read all that it writes: ''' in a text of two lines.
  if (const auto* text = node.as_string()) return Quoted(text->get());
  if (node.is_table()) return "{}";
  if (node.is_array()) return "[]";
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  return std::move(text).str();
}

// What people call a value: text without its quotes.
std::string LabelOf(const toml::node& node) {
  const auto* text = node.as_string();
  return text != nullptr ? text->get() : TomlText(node);
}

// Letters, digits and what neither a shell nor a file system minds.
bool IsFolderName(std::string_view name) {
  const auto harmless = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
           (c >= 'a' && c <= 'z') || c == '.' || c == '_' || c == '-' ||
           c == '+';
  };
  return !name.empty() && name[0] != '.' && name[0] != '-' &&
         std::ranges::all_of(name, harmless);
}

// "name=a,b" from a command line.
struct NamedList {
  std::string name;
  std::vector<std::string> values;
};

std::optional<NamedList> ParseNamedList(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) return std::nullopt;
  NamedList list{std::string(text.substr(0, equals)), {}};
  text.remove_prefix(equals + 1);
  for (;;) {
    const size_t comma = text.find(',');
    list.values.emplace_back(text.substr(0, comma));
    if (comma == text.npos) return list;
    text.remove_prefix(comma + 1);
  }
}

// The keys that `name` may mean: by their whole names, or by their short ones.
std::vector<std::string> KeysNamed(std::string_view name) {
  std::vector<std::string> keys;
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.name == name) return {std::string(name)};
    if (key.short_name == name) keys.emplace_back(key.name);
  }
  return keys;
}

struct Axis {
  struct Value {
    std::string label;
    std::vector<ConfigSetting> settings;
  };

  std::string key;   // of a list; empty: variants
  std::string name;  // for people
  std::string place;
  Position where;
  std::vector<Value> values;

  // Its part of a run's name: "lr0.1", but "iid", as text explains itself.
  std::string NameOf(const Value& value) const {
    const std::string_view type = DescribeKey(key).type;
    const bool is_number = !type.empty() && type != "text";
    return is_number ? name + value.label : value.label;
  }
};

class GridReader {
 public:
  GridReader(std::string_view file, const GridOptions& options)
      : file_(file), options_(options) {}

  Result<Grid> Read(std::string_view text) {
    Result<toml::table> table = ParseToml(text, file_);
    if (!table) return table.error();
    ReadSummary(*table);
    const toml::table variants = Take(*table, "variants");
    const toml::table profiles = Take(*table, "profiles");
    ReadVariants(variants);
    for (const Leaf& leaf : LeavesOf(*table)) ReadKey(leaf, base_);
    ReadProfiles(profiles);
    ReadCommandLine();
    FinishAxes();
    if (mistakes_.empty()) MakeRuns();
    if (mistakes_.empty()) CheckNames();
    if (mistakes_.empty()) return std::move(grid_);
    return Error{ErrorCode::kBadValue,
                 fmt::format("{}", fmt::join(mistakes_, "\n"))};
  }

 private:
  struct Section {
    std::string name;
    Position where;
    const toml::table* table;
  };
  struct Choice {
    std::vector<std::string> labels;
    std::string place;
  };

  std::string At(const Position& where) const { return PlaceOf(file_, where); }

  // `name` may be empty.
  void Report(const std::string& place, std::string_view name,
              const std::string& what) {
    mistakes_.push_back(
        fmt::format("{}: {}{}{}", place, name, name.empty() ? "" : ": ", what));
  }

  void ReadSummary(toml::table& table) {
    const toml::node* node = table.get("summary");
    if (node == nullptr) return;
    if (const auto* text = node->as_string()) {
      grid_.summary = text->get();
    } else {
      Report(At(node->source().begin), "summary", "must be text in quotes");
    }
    table.erase("summary");
  }

  // "variants" or "profiles", out of the table; empty if it is not there.
  toml::table Take(toml::table& from, const std::string& name) {
    const std::string slip = name.substr(0, name.size() - 1);
    if (const toml::node* node = from.get(slip)) {
      Report(At(node->source().begin), slip,
             "unknown section, did you mean " + name + "?");
      from.erase(slip);
    }
    toml::table taken;
    if (toml::node* node = from.get(name)) {
      if (node->is_table()) {
        taken = std::move(*node->as_table());
      } else {
        Report(At(node->source().begin), name,
               "is a section: write [" + name + ".NAME] and its keys below");
      }
      from.erase(name);
    }
    return taken;
  }

  // The tables within a table, in the file's order.
  std::vector<Section> SectionsOf(const toml::table& table,
                                  const std::string& path) {
    std::vector<Section> sections;
    for (const auto& [key, node] : table) {
      const Position where = key.source().begin;
      if (node.is_table()) {
        sections.push_back({std::string(key.str()), where, node.as_table()});
      } else {
        const std::string name = path + "." + std::string(key.str());
        Report(At(where), name,
               "is a section: write [" + name + "] and its keys below");
      }
    }
    std::ranges::sort(sections, InFileOrder, &Section::where);
    return sections;
  }

  ConfigSetting SettingOf(const Leaf& leaf, const toml::node& value) const {
    return {leaf.key, TomlText(value), At(leaf.where)};
  }

  void ReadVariants(const toml::table& variants) {
    for (const Section& section : SectionsOf(variants, "variants")) {
      if (section.name == kSeedKey) {
        Report(At(section.where), "variants.seed",
               "the seed is an axis of its own: write seed = [1, 2]");
        continue;
      }
      Axis axis{"", section.name, At(section.where), section.where, {}};
      for (const Section& variant :
           SectionsOf(*section.table, "variants." + section.name)) {
        Axis::Value value{variant.name, {}};
        for (const Leaf& leaf : LeavesOf(*variant.table)) {
          if (leaf.node->is_array()) {
            Report(At(leaf.where), leaf.key,
                   "a variant has one value of a key; lists stand outside of "
                   "variants");
          } else {
            value.settings.push_back(SettingOf(leaf, *leaf.node));
          }
        }
        axis.values.push_back(std::move(value));
      }
      AddAxis(std::move(axis));
    }
  }

  void ReadProfiles(const toml::table& profiles) {
    const std::vector<Section> sections = SectionsOf(profiles, "profiles");
    for (const Section& section : sections) {
      grid_.profiles.push_back(section.name);
      if (!IsFolderName(section.name)) {
        Report(At(section.where), "profiles." + section.name, kNoFolderName);
      }
    }
    if (options_.profile.empty() && sections.empty()) return;
    const auto chosen =
        options_.profile.empty()
            ? sections.begin()
            : std::ranges::find(sections, options_.profile, &Section::name);
    if (chosen == sections.end()) {
      Report("--profile " + options_.profile, "",
             sections.empty()
                 ? file_ + " has no profiles"
                 : fmt::format(
                       "{} has the profiles {}{}", file_,
                       fmt::join(grid_.profiles, ", "),
                       DidYouMean(options_.profile, {grid_.profiles.begin(),
                                                     grid_.profiles.end()})));
      return;
    }
    grid_.profile = chosen->name;
    for (const Leaf& leaf : LeavesOf(*chosen->table)) {
      if (leaf.key.starts_with("only.")) {
        ReadOnly(leaf);
      } else {
        ReadKey(leaf, profile_);
      }
    }
  }

  // only.AXIS = ["VALUE", ...] of a profile.
  void ReadOnly(const Leaf& leaf) {
    Choice choice{{}, At(leaf.where)};
    const toml::array* list = leaf.node->as_array();
    if (list == nullptr || list->empty()) {
      Report(choice.place, leaf.key, "must be a list of values");
      return;
    }
    for (const toml::node& node : *list) choice.labels.push_back(LabelOf(node));
    choices_[leaf.key.substr(leaf.key.find('.') + 1)] = std::move(choice);
  }

  // A key of the config, instead of what it was before: a list becomes an axis,
  // any other value one of `single`.
  void ReadKey(const Leaf& leaf, std::vector<ConfigSetting>& single) {
    const toml::array* list = leaf.node->as_array();
    if (list == nullptr && leaf.key != kSeedKey) {
      Forget(leaf.key);
      single.push_back(SettingOf(leaf, *leaf.node));
      return;
    }
    Axis axis = ListAxis(leaf.key, At(leaf.where), leaf.where);
    const auto add = [&](const toml::node& node) {
      axis.values.push_back({LabelOf(node), {SettingOf(leaf, node)}});
    };
    if (list == nullptr) {
      add(*leaf.node);
    } else {
      for (const toml::node& node : *list) add(node);
    }
    AddAxis(std::move(axis));
  }

  void ReadCommandLine() {
    for (const std::string& text : options_.lists) AddList(text);
    for (const std::string& text : options_.settings) {
      std::optional<ConfigSetting> setting = Sound(ParseSetting(text));
      if (!setting) continue;
      const auto axis = std::ranges::find(axes_, setting->key, &Axis::key);
      if (axis != axes_.end() && axis->place.starts_with("--grid ")) {
        Report(setting->place, setting->key, "--grid gives it as well");
      } else if (setting->key == kSeedKey) {
        Axis seeds = ListAxis(std::string(kSeedKey), setting->place, {});
        seeds.values.push_back({setting->value, {*setting}});
        AddAxis(std::move(seeds));
      } else {
        Forget(setting->key);
        last_.push_back(*std::move(setting));
      }
    }
    for (const std::string& text : options_.only) {
      const std::string place = "--only " + text;
      if (std::optional<NamedList> list = ParseNamedList(text)) {
        choices_[list->name] = {std::move(list->values), place};
      } else {
        Report(place, "",
               "must be AXIS=VALUE,..., such as method=fedavg,fedmrn");
      }
    }
  }

  // Takes "lr=1,0.3" from the command line.
  void AddList(const std::string& text) {
    const std::string place = "--grid " + text;
    const std::optional<NamedList> list = ParseNamedList(text);
    if (!list) {
      Report(place, "", "must be KEY=VALUE,..., such as lr=1,0.3,0.1");
      return;
    }
    const std::vector<std::string> keys = KeysNamed(list->name);
    if (keys.size() > 1) {
      Report(place, list->name,
             fmt::format("which one? There are {}", fmt::join(keys, ", ")));
      return;
    }
    // MakeConfig knows what to say about a key that is not there.
    const std::string key = keys.empty() ? list->name : keys[0];
    Axis axis = ListAxis(key, place, {});
    for (const std::string& value : list->values) {
      if (std::optional<ConfigSetting> setting =
              Sound(ParseSetting(key + "=" + value, place))) {
        axis.values.push_back({value, {*std::move(setting)}});
      }
    }
    AddAxis(std::move(axis));
  }

  // The setting, or nothing: then its mistake is told with the others.
  std::optional<ConfigSetting> Sound(Result<ConfigSetting> setting) {
    if (setting) return *std::move(setting);
    mistakes_.push_back(setting.error().message);
    return std::nullopt;
  }

  void Forget(const std::string& key) {
    std::erase_if(base_, [&](const ConfigSetting& s) { return s.key == key; });
    std::erase_if(axes_, [&](const Axis& axis) { return axis.key == key; });
  }

  static Axis ListAxis(const std::string& key, const std::string& place,
                       const Position& where) {
    return {key, std::string(DescribeKey(key).short_name), place, where, {}};
  }

  void AddAxis(Axis axis) {
    if (!axis.key.empty()) Forget(axis.key);
    if (axis.values.empty()) {
      Report(axis.place, axis.key.empty() ? "variants." + axis.name : axis.key,
             "has no values; give it at least one");
    } else {
      axes_.push_back(std::move(axis));
    }
  }

  void FinishAxes() {
    // Every run has a seed, and its name tells it.
    if (std::ranges::find(axes_, kSeedKey, &Axis::key) == axes_.end()) {
      const std::string seed = std::to_string(Config{}.seed);
      Axis axis = ListAxis(std::string(kSeedKey), file_, {});
      axis.values.push_back({seed, {{std::string(kSeedKey), seed, file_}}});
      AddAxis(std::move(axis));
    }
    std::ranges::stable_sort(axes_, [](const Axis& a, const Axis& b) {
      const bool last_a = a.key == kSeedKey, last_b = b.key == kSeedKey;
      return last_a != last_b ? last_b : InFileOrder(a.where, b.where);
    });
    std::map<std::string, int> uses;
    for (const Axis& axis : axes_) ++uses[axis.name];
    for (Axis& axis : axes_) {
      // The key without its section, unless that means two axes.
      if (uses[axis.name] > 1 && !axis.key.empty()) axis.name = axis.key;
    }
    for (const Axis& axis : axes_) {
      for (const Axis::Value& value : axis.values) {
        for (const ConfigSetting& setting : value.settings) {
          const auto list = std::ranges::find(axes_, setting.key, &Axis::key);
          if (axis.key.empty() && list != axes_.end()) {
            Report(setting.place, setting.key,
                   "is an axis of its own; a variant cannot set it");
          }
        }
      }
    }
    for (const auto& [name, choice] : choices_) Narrow(name, choice);
  }

  void Narrow(const std::string& name, const Choice& choice) {
    const auto axis = std::ranges::find_if(
        axes_, [&](const Axis& a) { return a.name == name || a.key == name; });
    if (axis == axes_.end()) {
      std::vector<std::string> names;
      for (const Axis& a : axes_) names.push_back(a.name);
      Report(choice.place, "",
             fmt::format("there is no axis {}; there are {}{}", name,
                         fmt::join(names, ", "),
                         DidYouMean(name, {names.begin(), names.end()})));
      return;
    }
    std::vector<std::string> labels;
    for (const Axis::Value& value : axis->values) labels.push_back(value.label);
    for (const std::string& label : choice.labels) {
      if (std::ranges::find(labels, label) == labels.end()) {
        Report(choice.place, "",
               fmt::format("{} has no {}; it has {}{}", axis->name, label,
                           fmt::join(labels, ", "),
                           DidYouMean(label, {labels.begin(), labels.end()})));
      }
    }
    std::erase_if(axis->values, [&](const Axis::Value& value) {
      return std::ranges::find(choice.labels, value.label) ==
             choice.labels.end();
    });
  }

  void MakeRuns() {
    size_t count = 1;
    for (const Axis& axis : axes_) {
      grid_.axes.push_back(axis.name);
      count *= axis.values.size();
      if (count > kMaxRuns) {
        Report(file_, "",
               fmt::format("more than {} runs; --only narrows it", kMaxRuns));
        return;
      }
    }
    struct Mistake {
      std::string line;
      std::vector<std::string> runs;
    };
    std::vector<Mistake> found;
    for (size_t i = 0; i < count; ++i) {
      GridRun run;
      std::vector<ConfigSetting> settings = base_;
      size_t stride = count;
      for (const Axis& axis : axes_) {
        stride /= axis.values.size();
        const Axis::Value& value = axis.values[i / stride % axis.values.size()];
        run.labels.emplace_back(axis.name, value.label);
        run.name += (run.name.empty() ? "" : "-") + axis.NameOf(value);
        std::ranges::copy(value.settings, std::back_inserter(settings));
      }
      std::ranges::copy(profile_, std::back_inserter(settings));
      std::ranges::copy(last_, std::back_inserter(settings));
      Result<Config> config = MakeConfig(settings);
      if (config) {
        run.config = *std::move(config);
        grid_.runs.push_back(std::move(run));
        continue;
      }
      std::istringstream lines(config.error().message);
      for (std::string line; std::getline(lines, line);) {
        auto known = std::ranges::find(found, line, &Mistake::line);
        if (known == found.end()) {
          known = found.insert(found.end(), {line, {}});
        }
        known->runs.push_back(run.name);
      }
    }
    for (const Mistake& mistake : found) {
      const auto& runs = mistake.runs;
      std::string where;
      if (runs.size() < count) {
        where = " (in " + runs[0];
        if (runs.size() > 1) {
          where += fmt::format(" and {} more", runs.size() - 1);
        }
        where += ")";
      }
      mistakes_.push_back(mistake.line + where);
    }
  }

  // Each run its own folder, and each folder another run.
  void CheckNames() {
    for (const Axis& axis : axes_) {
      std::vector<std::string> parts = {axis.name};
      for (const Axis::Value& value : axis.values) {
        parts.push_back(axis.NameOf(value));
      }
      for (const std::string& part : parts) {
        if (!IsFolderName(part)) {
          Report(axis.place, fmt::format("\"{}\"", part), kNoFolderName);
        }
      }
    }
    std::map<std::string, std::string> names;  // by config
    std::map<std::string, int> uses;           // of a name
    for (const GridRun& run : grid_.runs) {
      if (++uses[run.name] == 2) {
        Report(file_, "", "two runs have the name " + run.name);
      }
      const auto [first, added] =
          names.emplace(ConfigToml(run.config), run.name);
      if (!added && first->second != run.name) {
        Report(file_, "",
               first->second + " and " + run.name + " have the same config");
      }
    }
  }

  static constexpr char kNoFolderName[] =
      "is no name for a folder of results: letters, digits and ._+- are; "
      "[variants.AXIS.NAME] gives values names";

  const std::string file_;
  const GridOptions& options_;
  std::vector<ConfigSetting> base_;  // of all runs, before the axes
  std::vector<Axis> axes_;
  std::vector<ConfigSetting> profile_;     // after the axes
  std::vector<ConfigSetting> last_;        // of the command line, after all
  std::map<std::string, Choice> choices_;  // by axis
  std::vector<std::string> mistakes_;
  Grid grid_;
};

}  // namespace

Result<Grid> ParseGrid(std::string_view text, std::string_view file,
                       const GridOptions& options) {
  return GridReader(file, options).Read(text);
}

Result<Grid> LoadGrid(const std::string& path, const GridOptions& options) {
  const Result<Bytes> text = ReadFile(path);
  if (!text) return text.error();
  return ParseGrid(AsText(*text), path, options);
}

}  // namespace fedmrn::sim
