#include "fedmrn/sim/config_keys.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <unordered_map>
#include <variant>

#include "fedmrn/base/check.h"

namespace fedmrn::sim {
namespace {

constexpr Choice kClientWeights[] = {{"examples", ClientWeight::kExamples},
                                     {"batches", ClientWeight::kBatches},
                                     {"equal", ClientWeight::kEqual}};

constexpr Choice kSamplings[] = {{"uniform", Sampling::kUniform},
                                 {"weighted", Sampling::kWeighted},
                                 {"all", Sampling::kAll}};

constexpr Key<Config> kSeed[] = {
    {kSeedKey, FEDMRN_PLACE(Config, seed),
     "of the initial model, sampling, training and masks", Range{},
     KeyRole::kSeed},
};

#define AT(member) FEDMRN_PLACE(RoundsSettings, member)

constexpr Key<RoundsSettings> kRoundsKeys[] = {
    {"rounds.count", AT(count), "number of rounds", kFromOne},
    {"rounds.target_accuracy", AT(target_accuracy),
     "a run ends once a test reaches it, a share such as 0.9; 0: none"},
    {"rounds.patience", AT(patience),
     "a run ends when the best test was so many rounds ago; 0: never"},
    {"rounds.clients_per_round", AT(clients_per_round),
     "clients sampled in a round", kFromOne},
    {"rounds.sampling", AT(sampling),
     "who is sampled: each client with the same chance, in proportion to its "
     "examples, or all of them",
     kSamplings},
    {"rounds.min_clients", AT(min_clients),
     "answers without which a round is repeated", kFromOne},
    {"rounds.weight", AT(weight),
     "a client's weight in the mean: its number of these, or equal; default: "
     "examples, or equal where sampling is weighted",
     kClientWeights},
    {"rounds.deadline_s", AT(deadline_s),
     "a client that has not answered after so many seconds is dropped; 0: "
     "never"},
    {"rounds.max_weight_share", AT(max_weight_share),
     "the most that one client weighs, of all that are asked", kPositiveShare},
    {"rounds.clip_norm", AT(clip_norm),
     "an update longer than so many times the round's median is scaled down to "
     "it; 0: none is"},
};

#undef AT
#define AT(member) FEDMRN_PLACE(client::FaultSettings, member)

constexpr Key<client::FaultSettings> kFaultKeys[] = {
    {"faults.drop", AT(drop), "chance that a client never answers", kShare},
    {"faults.crash", AT(crash), "chance that it stops in its training", kShare},
    {"faults.corrupt", AT(corrupt), "chance that its frame is damaged", kShare},
    {"faults.delay", AT(delay), "chance that it answers late", kShare},
    {"faults.delay_s", AT(delay_s), "how late, in seconds"},
    {"faults.hostile", AT(hostile),
     "chance of a client to be hostile, in all rounds", kShare},
    {"faults.attack", AT(attack), "what hostile clients send",
     std::span<const Choice>(client::kAttacks)},
};

#undef AT
#define AT(member) FEDMRN_PLACE(RunSettings, member)

constexpr Key<RunSettings> kRunKeys[] = {
    {"run.workers", AT(workers),
     "clients trained at once; 0: as many as use all cores"},
    {"run.threads_per_client", AT(threads_per_client),
     "threads that train one client: for few clients and large models; sums "
     "round otherwise with another number",
     Range{1, 256}, KeyRole::kSetting},
    {"run.checkpoint_every", AT(checkpoint_every), "rounds between checkpoints",
     kFromOne},
    {"run.eval_every", AT(eval_every), "rounds between tests of the model",
     kFromOne},
    {"run.eval_clients", AT(eval_clients),
     "so many clients test the model on examples of their own (held out by "
     "data.validation), as it is and after a local round; 0: none"},
    {"run.tensorboard", AT(tensorboard), "write TensorBoard event files"},
};

#undef AT

struct Section {
  std::string_view name;
  KeyRole role;  // of its keys, unless they say otherwise
  // Whether their short names are the whole ones, as clients have a learning
  // rate, too.
  bool whole_names = false;
};
constexpr Section kSections[] = {
    {"data", KeyRole::kData},      {"partition", KeyRole::kPartition},
    {"model", KeyRole::kSetting},  {"method", KeyRole::kMethod},
    {"train", KeyRole::kSetting},  {"server", KeyRole::kSetting, true},
    {"rounds", KeyRole::kSetting}, {"faults", KeyRole::kSetting},
    {"run", KeyRole::kProgram}};

// What a key's name alone tells about it.
ConfigKey DescribeByName(std::string_view name, std::optional<KeyRole> role) {
  ConfigKey key = {};
  key.name = name;
  const auto* section =
      std::ranges::find(kSections, SectionOf(name), &Section::name);
  const bool whole = section != std::end(kSections) && section->whole_names;
  key.short_name = whole ? name : BareName(name);
  key.role = role                             ? *role
             : section != std::end(kSections) ? section->role
                                              : KeyRole::kSetting;
  key.changes_results =
      key.role != KeyRole::kFiles && key.role != KeyRole::kProgram;
  return key;
}

std::string_view TypeName(const Place& place, const Check& check) {
  if (!std::holds_alternative<Range>(check)) return "text";
  struct Namer {
    std::string_view operator()(const bool*) { return "true/false"; }
    std::string_view operator()(const std::string*) { return "text"; }
    std::string_view operator()(const double*) { return "number"; }
    std::string_view operator()(const float*) { return "number"; }
    std::string_view operator()(const EnumPlace&) { return "text"; }
    std::string_view operator()(const void*) { return "integer"; }
  };
  return std::visit(Namer{}, place);
}

// Rows never move, as they are viewed.
class Table {
 public:
  // The keys of one part of the config, then those that only rows of outside
  // have: `rows` may read keys of both.
  template <typename Settings, typename Part, typename Rows>
  void Add(std::span<const Key<Settings>> keys, Part part, const Rows& rows) {
    for (const Key<Settings>& key : keys) AddKey(key, part, rows);
    for (const auto& row : rows) {
      for (const Key<Settings>* key : row.keys) {
        FEDMRN_CHECK(SectionOf(key->name) == SectionOf(keys.front().name),
                     "a row's key in the section of others");
        const ConfigRow* known = Find(key->name);
        FEDMRN_CHECK(known == nullptr || known->source == key,
                     "two keys of one name");
        if (known == nullptr) AddKey(*key, part, rows);
      }
    }
  }
  template <typename Settings, typename Part>
  void Add(std::span<const Key<Settings>> keys, Part part) {
    struct NoRow {
      std::string_view name;
      std::vector<const Key<Settings>*> keys;
    };
    Add(keys, part, std::vector<NoRow>());
  }

  const ConfigRow* Find(std::string_view name) const {
    const auto row = by_name_.find(name);
    return row == by_name_.end() ? nullptr : row->second;
  }

  const std::deque<ConfigRow>& rows() const { return rows_; }

 private:
  template <typename Settings, typename Part, typename Rows>
  void AddKey(const Key<Settings>& key, Part part, const Rows& rows) {
    ConfigRow& row = rows_.emplace_back();
    row.source = &key;
    row.place = [part, place = key.place](Config& config) {
      return place(std::invoke(part, config));
    };
    row.check = key.check;
    for (const std::string_view name : NamesOf(key.check)) {
      row.choices += (row.choices.empty() ? "" : "|") + std::string(name);
    }
    for (const auto& owner : rows) {
      if (std::ranges::find(owner.keys, &key) != owner.keys.end()) {
        row.owners.push_back(owner.name);
      }
    }
    Config config;
    row.key = DescribeByName(key.name, key.role);
    row.key.type = TypeName(row.place(config), key.check);
    row.key.help = key.help;
    row.key.choices = row.choices;
    row.key.owners = row.owners;
    by_name_.emplace(key.name, &row);
  }

  std::deque<ConfigRow> rows_;
  std::unordered_map<std::string_view, const ConfigRow*> by_name_;
};

const Table& Keys() {
  static const Table table = [] {
    Table all;
    all.Add<Config>(kSeed, std::identity());
    all.Add(train::DataKeys(), &Config::data, train::DataSets());
    all.Add(PartitionKeys(), &Config::partition, PartitionRows());
    all.Add(train::ModelKeys(), &Config::model, train::Models());
    all.Add(train::MethodKeys(), &Config::method, train::Methods());
    all.Add(train::TrainKeys(), &Config::train);
    all.Add(ServerKeys(), &Config::server, ServerOptimizers());
    all.Add<RoundsSettings>(kRoundsKeys, &Config::rounds);
    all.Add<client::FaultSettings>(kFaultKeys, &Config::faults);
    all.Add<RunSettings>(kRunKeys, &Config::run);
    return all;
  }();
  return table;
}

}  // namespace

const std::deque<ConfigRow>& ConfigRows() { return Keys().rows(); }

const ConfigRow* FindConfigRow(std::string_view name) {
  return Keys().Find(name);
}

std::span<const ConfigKey> ConfigKeys() {
  static const std::vector<ConfigKey> keys = [] {
    std::vector<ConfigKey> out;
    for (const ConfigRow& row : ConfigRows()) out.push_back(row.key);
    return out;
  }();
  return keys;
}

ConfigKey DescribeKey(std::string_view name) {
  const ConfigRow* row = FindConfigRow(name);
  return row != nullptr ? row->key : DescribeByName(name, std::nullopt);
}

bool HasFixedDefault(const ConfigKey& key) {
  return key.help.find("default:") == key.help.npos;
}

std::string_view SectionOf(std::string_view name) {
  const size_t dot = name.find('.');
  return name.substr(0, dot == name.npos ? 0 : dot);
}

std::string_view BareName(std::string_view name) {
  return name.substr(name.find('.') + 1);
}

std::vector<std::string_view> Sections() {
  std::vector<std::string_view> names;
  for (const Section& section : kSections) names.push_back(section.name);
  return names;
}

bool IsSection(std::string_view name) {
  return std::ranges::find(kSections, name, &Section::name) !=
         std::end(kSections);
}

std::vector<std::string_view> NamesOf(const Check& check) {
  if (const auto* rows = std::get_if<RowNames>(&check)) return (*rows)();
  std::vector<std::string_view> names;
  if (const auto* choices = std::get_if<std::span<const Choice>>(&check)) {
    for (const Choice& choice : *choices) names.push_back(choice.name);
  }
  return names;
}

}  // namespace fedmrn::sim
