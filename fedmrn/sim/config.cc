#include "fedmrn/sim/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "fedmrn/base/check.h"
#include "fedmrn/base/files.h"
#include "fedmrn/base/similar.h"
#include "fedmrn/core/noise.h"
#include "fedmrn/sim/config_keys.h"
#include "fedmrn/sim/toml.h"

namespace fedmrn::sim {
namespace {

std::string Join(const std::vector<std::string_view>& names,
                 std::string_view before_last) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : before_last;
    text += names[i];
  }
  return text;
}

std::string NodeText(const toml::node& node) {
  if (const auto* text = node.as_string()) return Quoted(text->get());
  if (const auto* value = node.as_integer()) {
    return std::to_string(value->get());
  }
  if (const auto* value = node.as_floating_point()) {
    return NumberText(value->get());
  }
  if (const auto* value = node.as_boolean()) {
    return value->get() ? "true" : "false";
  }
  if (node.is_table()) return "a section";
  return node.is_array() ? "a list" : "a date or time";
}

std::string RangeText(const Range& range, bool integer) {
  const auto text = [integer](double value) {
    if (integer) return std::to_string(static_cast<uint64_t>(value));
    char buffer[32];
    return std::string(buffer,
                       std::to_chars(buffer, std::end(buffer), value).ptr);
  };
  if (range.high == std::numeric_limits<double>::infinity()) {
    return (range.above_low ? "above " : "of at least ") + text(range.low);
  }
  if (!range.above_low && !range.below_high) {
    return "from " + text(range.low) + " to " + text(range.high);
  }
  return (range.above_low ? "above " : "of at least ") + text(range.low) +
         (range.below_high ? " and below " : " and at most ") +
         text(range.high);
}

// What a value of this row must be: "an integer of at least 1".
std::string Expected(const ConfigRow& row, const Range& range) {
  if (!row.choices.empty()) return Join(NamesOf(row.check), " or ");
  if (row.key.type == "true/false") return "true or false";
  if (row.key.type == "text") return "text in quotes";
  const bool integer = row.key.type == "integer";
  return (integer ? "an integer " : "a number ") + RangeText(range, integer) +
         (range.word.empty() ? "" : " or " + Quoted(range.word));
}

std::string UnknownSection(std::string_view name) {
  const std::string suggestion = DidYouMean(name, Sections());
  return "unknown section" + (suggestion.empty()
                                  ? "; there are " + Join(Sections(), " and ")
                                  : suggestion);
}

// A key of the right name in the wrong section is found as well.
std::string UnknownKey(std::string_view name) {
  const std::string_view bare = BareName(name);
  const ConfigRow* best = nullptr;
  size_t least = MostWrong(bare), least_whole = 0;
  for (const ConfigRow& row : ConfigRows()) {
    const size_t distance = EditDistance(bare, BareName(row.key.name), least);
    if (distance > least) continue;
    const size_t whole = EditDistance(name, row.key.name);
    if (best == nullptr || distance < least || whole < least_whole) {
      best = &row;
      least = distance;
      least_whole = whole;
    }
  }
  if (best != nullptr) {
    return "unknown key, did you mean " + std::string(best->key.name) + "?";
  }
  const std::string_view section = SectionOf(name);
  if (section.empty()) {
    return "unknown key; only seed stands outside of sections";
  }
  if (!IsSection(section)) return UnknownSection(section);
  std::vector<std::string_view> names;
  for (const ConfigRow& row : ConfigRows()) {
    if (SectionOf(row.key.name) == section) {
      names.push_back(BareName(row.key.name));
    }
  }
  return "unknown key; [" + std::string(section) + "] has " +
         Join(names, " and ");
}

// Stores what a node holds, or gives a hint and narrows the range to what the
// place can hold where that is why the value is impossible.
struct Storer {
  const toml::node& node;
  Range range = {};
  std::string hint = {};

  bool operator()(EnumPlace) { return false; }

  bool operator()(std::string* place) {
    const auto* value = node.as_string();
    if (value != nullptr) *place = value->get();
    return value != nullptr;
  }

  bool operator()(bool* place) {
    const auto* value = node.as_boolean();
    if (value != nullptr) *place = value->get();
    return value != nullptr;
  }

  template <std::floating_point T>
  bool operator()(T* place) {
    if (const auto* text = node.as_string();
        text != nullptr && !range.word.empty() && text->get() == range.word) {
      *place = static_cast<T>(range.word_value);
      return true;
    }
    if (!node.is_number()) return false;
    const double value = *node.value<double>();
    if (!range.Has(value)) return false;
    if (std::abs(value) > std::numeric_limits<T>::max()) {
      range.high = std::numeric_limits<T>::max();
      return false;
    }
    // Takes the sign from -0.0, which is no other number to people.
    const T stored = static_cast<T>(value) + T{0};
    if (!range.Has(stored)) {
      range.low = std::numeric_limits<T>::denorm_min();
      range.above_low = false;
      return false;
    }
    *place = stored;
    return true;
  }

  template <std::integral T>
  bool operator()(T* place) {
    if (const auto* integer = node.as_integer()) {
      const int64_t value = integer->get();
      if (!range.Has(static_cast<double>(value))) return false;
      if (std::cmp_greater(value, std::numeric_limits<T>::max())) {
        range.high = static_cast<double>(std::numeric_limits<T>::max());
        return false;
      }
      *place = static_cast<T>(value);
      return true;
    }
    if (const auto* real = node.as_floating_point()) {
      const double value = real->get();
      if (value == std::floor(value) && range.Has(value) &&
          value <= 0xFFFFFFFF) {
        hint = ", write " + std::to_string(static_cast<uint64_t>(value));
      }
    }
    return false;
  }
};

// Stores a value that is one of `names`, those of the check.
bool StoreNamed(const std::string& name, const Check& check,
                const Place& place) {
  if (const auto* choices = std::get_if<std::span<const Choice>>(&check)) {
    const auto choice = std::ranges::find(*choices, name, &Choice::name);
    if (choice == choices->end()) return false;
    if (auto* flag = std::get_if<bool*>(&place)) {
      **flag = choice->value != 0;
    } else {
      const auto& value = std::get<EnumPlace>(place);
      value.set(value.place, choice->value);
    }
    return true;
  }
  const auto names = NamesOf(check);
  if (std::ranges::find(names, name) == names.end()) return false;
  *std::get<std::string*>(place) = name;
  return true;
}

constexpr double kAdamLr = 0.001;  // its authors'

class Parser {
 public:
  explicit Parser(std::string_view file) : file_(file) {
    // Methods of outside find their own numbers, whether given or not.
    for (const ConfigRow& row : ConfigRows()) row.place(config_);
  }

  void AddText(std::string_view text) {
    const Result<toml::table> parsed = ParseToml(text, file_);
    if (!parsed) {
      unread_ = true;
      mistakes_.push_back({parsed.error().message, 0});
      return;
    }
    for (const auto& [key, node] : *parsed) {
      place_ = AtLine(key.source());
      const toml::table* table = node.as_table();
      if (table == nullptr && IsSection(key.str())) {
        const std::string name(key.str());
        Report(name, "is a section: write [" + name + "] and its keys below");
      } else if (table == nullptr || FindConfigRow(key.str()) != nullptr) {
        Set(key.str(), node);
      } else if (!IsSection(key.str())) {
        Report(key.str(), UnknownSection(key.str()));
      } else {
        for (const auto& [name, value] : *table) {
          place_ = AtLine(name.source());
          Set(std::string(key.str()) + "." + std::string(name.str()), value);
        }
      }
    }
  }

  void AddSetting(const ConfigSetting& setting) {
    place_ = {setting.place, kAfterText};
    const toml::parse_result parsed = toml::parse("value = " + setting.value);
    FEDMRN_CHECK(parsed.succeeded());
    Set(setting.key, *parsed.table().get("value"));
  }

  void AddSetting(const std::string& text) {
    const Result<ConfigSetting> setting = ParseSetting(text);
    if (setting) {
      AddSetting(*setting);
    } else {
      mistakes_.push_back({setting.error().message, kAfterText});
    }
  }

  Result<Config> Finish() {
    FillDefaults();
    if (!unread_) CheckTogether();
    if (mistakes_.empty()) return config_;
    std::ranges::stable_sort(mistakes_, {}, &Mistake::line);
    std::string message;
    for (const Mistake& mistake : mistakes_) {
      if (!message.empty()) message += '\n';
      message += mistake.text;
    }
    return Error{ErrorCode::kBadValue, message};
  }

 private:
  static constexpr size_t kAfterText = static_cast<size_t>(-1);

  struct Where {
    std::string text;
    size_t line;
  };
  struct Mistake {
    std::string text;
    size_t line;
  };

  Where AtLine(const toml::source_region& source) const {
    return {PlaceOf(file_, source.begin), source.begin.line};
  }

  // At place_; `name` may be empty.
  void Report(std::string_view name, const std::string& what) {
    mistakes_.push_back({place_.text + ": " + std::string(name) +
                             (name.empty() ? "" : ": ") + what,
                         place_.line});
  }

  void Set(std::string_view name, const toml::node& node) {
    const ConfigRow* row = FindConfigRow(name);
    if (row == nullptr) {
      Report(name, UnknownKey(name));
      return;
    }
    given_[row->key.name] = place_;
    if (const std::string what = Assign(*row, node); !what.empty()) {
      Report(name, what);
      bad_.insert(row->key.name);
    }
  }

  // Returns what is wrong, or nothing.
  std::string Assign(const ConfigRow& row, const toml::node& node) {
    const Place place = row.place(config_);
    Storer storer{node};
    if (const auto* range = std::get_if<Range>(&row.check)) {
      storer.range = *range;
      if (std::visit(storer, place)) return "";
    } else if (const auto* value = node.as_string()) {
      if (StoreNamed(value->get(), row.check, place)) return "";
      storer.hint = DidYouMean(value->get(), NamesOf(row.check));
    }
    return "must be " + Expected(row, storer.range) + ", not " +
           NodeText(node) + storer.hint;
  }

  bool Given(std::string_view name) const {
    FEDMRN_CHECK(FindConfigRow(name) != nullptr);
    return given_.contains(name);
  }

  // Whether all of them can be relied on, so that one mistake is told once.
  bool Sound(std::initializer_list<std::string_view> names) const {
    return std::ranges::none_of(
        names, [&](std::string_view name) { return bad_.contains(name); });
  }

  // At the first of these keys that is given; defaults need no refusal.
  void Refuse(std::initializer_list<std::string_view> names,
              const std::string& what) {
    for (const std::string_view name : names) {
      if (Given(name)) {
        place_ = given_[name];
        Report(name, what);
        return;
      }
    }
  }

  void FillDefaults() {
    const train::DataSet& set = *train::FindDataSet(config_.data.name);
    if (!Given("model.name")) {
      config_.model.name =
          config_.model.torchscript.empty() ? set.model : FileModel().name;
    }
    const train::ModelRow& model = *train::FindModel(config_.model.name);
    if (!Given("partition.kind")) config_.partition.kind = set.partition;
    const train::Method& method = *train::FindMethod(config_.method.name);
    if (!Given("train.lr")) {
      const bool sgd = config_.train.optimizer == train::LocalOptimizer::kSgd;
      config_.train.lr = static_cast<float>(
          !sgd                                    ? kAdamLr
          : model.lr > 0 && method.trains_weights ? model.lr
                                                  : method.lr);
    }
    if (!Given("server.lr")) {
      config_.server.lr = FindServerOptimizer(config_.server.optimizer)->lr;
    }
    // Whoever has more examples is sampled more often already.
    if (!Given("rounds.weight") &&
        config_.rounds.sampling == Sampling::kWeighted) {
      config_.rounds.weight = ClientWeight::kEqual;
    }
    if (config_.rounds.sampling == Sampling::kAll &&
        config_.partition.kind != PartitionKind::kNatural) {
      config_.rounds.clients_per_round = config_.partition.clients;
    }
    // A constant rate has no end, so that such a run can have more rounds.
    if (!Given("train.lr_rounds") &&
        config_.train.lr_schedule != train::LrSchedule::kConstant) {
      config_.train.lr_rounds = config_.rounds.count;
    }
    auto& mask = config_.method.mask;
    const double usual = model.magnitude * method.times_usual_noise;
    mask.first_magnitude =
        static_cast<float>(usual > 0 ? usual : method.magnitude);
    if (!Given("method.magnitude")) mask.magnitude = mask.first_magnitude;
    // The codec draws the mask that training ends with.
    config_.method.codec.stochastic = mask.stochastic;
    config_.method.codec.scale = mask.magnitude;
    config_.method.codec.unbiased = method.unbiased;
    config_.data.seed = config_.partition.seed;
  }

  // The network that the user's own file is.
  static const train::ModelRow& FileModel() {
    return *std::ranges::find_if(train::Models(), &train::ModelRow::is_file);
  }

  void CheckTogether() {
    const auto text = [](uint64_t value) { return std::to_string(value); };
    const auto& rounds = config_.rounds;
    const uint32_t clients = config_.partition.clients;
    if (Sound({"rounds.clients_per_round", "partition.clients",
               "partition.kind"}) &&
        config_.partition.kind != PartitionKind::kNatural &&
        rounds.clients_per_round > clients) {
      Refuse({"rounds.clients_per_round", "partition.clients"},
             text(rounds.clients_per_round) + " of " + text(clients) +
                 " clients in a round: set rounds.clients_per_round to at "
                 "most " +
                 text(clients) + " or partition.clients to at least " +
                 text(rounds.clients_per_round));
    }
    // How many a natural partition has, only the data tells.
    const bool unknown = rounds.sampling == Sampling::kAll &&
                         config_.partition.kind == PartitionKind::kNatural;
    if (Sound({"rounds.min_clients", "rounds.clients_per_round",
               "rounds.sampling"}) &&
        !unknown && rounds.min_clients > rounds.clients_per_round) {
      Refuse({"rounds.min_clients", "rounds.clients_per_round"},
             "at least " + text(rounds.min_clients) + " answers of " +
                 text(rounds.clients_per_round) +
                 " clients in a round: set rounds.min_clients to at most " +
                 text(rounds.clients_per_round));
    }
    const train::Method& method = *train::FindMethod(config_.method.name);
    if (Sound({"server.optimizer", "method.name"}) &&
        FindServerOptimizer(config_.server.optimizer)->step != nullptr &&
        method.server_step != nullptr) {
      Refuse({"server.optimizer"},
             "moves weights by their mean update, which " +
                 config_.method.name +
                 " does not have: its server has a step of its own");
    }
    const train::TrainSettings& local = config_.train;
    if (Sound({"method.name"}) && !method.direct_gradient) {
      const auto refuse = [&](std::string_view key, bool set) {
        if (!set) return;
        Refuse({key},
               "is for methods that train by the network's own gradient, not "
               "for " +
                   config_.method.name);
      };
      refuse("train.optimizer", local.optimizer != train::LocalOptimizer::kSgd);
      refuse("train.clip_grad", local.clip_grad > 0);
      refuse("train.prox_mu", local.prox_mu > 0);
    }
    const train::MaskSettings& mask = config_.method.mask;
    const float magnitude = mask.magnitude;
    const bool has_noise = FindCodec(method.codec)->uses_noise;
    if (Sound({"method.magnitude", "method.name"}) && mask.steered() &&
        !has_noise) {
      Refuse({"method.magnitude"}, "must be a number for " +
                                       config_.method.name +
                                       ": it has no noise to steer");
    } else if (Sound({"method.magnitude", "method.stochastic"}) &&
               mask.steered() && !mask.stochastic) {
      Refuse({"method.magnitude"},
             "must be a number where method.stochastic is false: the share of "
             "ones by which \"auto\" steers is then the same for any");
    } else if (Sound({"method.magnitude", "method.name"}) && has_noise &&
               !mask.steered() && magnitude < kMinMagnitude) {
      Refuse({"method.magnitude"},
             "must be a number above 0 (2^-64 or more) and at most 16 for " +
                 config_.method.name + ", not " + NumberText(magnitude));
    }
    const bool no_file = config_.model.torchscript.empty();
    if (Sound({"model.name"}) &&
        train::FindModel(config_.model.name)->is_file == no_file) {
      Refuse({"model.torchscript", "model.name"},
             no_file
                 ? "needs model.torchscript, the file of the module"
                 : "is the file of the model " + std::string(FileModel().name) +
                       ", not of " + config_.model.name);
    }
    if (Sound({"method.name"}) && !config_.model.init.empty() &&
        method.initialize != nullptr) {
      Refuse({"model.init"},
             "is for methods whose model is the network's "
             "weights, not for " +
                 config_.method.name);
    }
    if (Sound({"method.error_feedback", "method.name"}) &&
        config_.method.error_feedback && !method.compresses_after_training) {
      Refuse({"method.error_feedback"},
             "is for methods that compress after training, not for " +
                 config_.method.name);
    }
    if (Sound({"method.decoded_statistics", "method.name"}) &&
        config_.method.decoded_statistics &&
        !method.compresses_after_training) {
      Refuse({"method.decoded_statistics"},
             "is for methods that compress after training, not for " +
                 config_.method.name);
    }
    if (Sound({"run.eval_clients", "data.validation"}) &&
        config_.run.eval_clients > 0 && config_.data.validation == 0) {
      Refuse({"run.eval_clients"},
             "needs data.validation, the share of each client's examples that "
             "is held out for tests, such as 0.2");
    }
    const auto& faults = config_.faults;
    const double sum =
        faults.drop + faults.crash + faults.corrupt + faults.delay;
    if (Sound({"faults.drop", "faults.crash", "faults.corrupt",
               "faults.delay"}) &&
        sum > 1 + 1e-9) {  // ten tenths may be a little more than 1
      Refuse({"faults.delay", "faults.corrupt", "faults.crash", "faults.drop"},
             "drop, crash, corrupt and delay must be at most 1 together, not " +
                 NumberText(sum));
    }
  }

  std::string_view file_;
  Config config_;
  Where place_;          // of what is being read
  bool unread_ = false;  // the text is not TOML
  std::map<std::string_view, Where> given_;
  std::set<std::string_view> bad_;
  std::vector<Mistake> mistakes_;
};

}  // namespace

Result<ConfigSetting> ParseSetting(std::string_view text) {
  if (!text.starts_with("--")) {
    return ParseSetting(text, "--set " + std::string(text));
  }
  std::string typed(text);
  if (const size_t equals = typed.find('='); equals != typed.npos) {
    typed[equals] = ' ';
  }
  return ParseSetting(text.substr(2), typed);
}

Result<ConfigSetting> ParseSetting(std::string_view text, std::string place) {
  const auto bad = [&](const std::string& what) {
    return Error{ErrorCode::kBadValue, place + ": " + what};
  };
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) {
    return bad("must be KEY=VALUE, such as train.lr=0.1");
  }
  ConfigSetting setting{std::string(text.substr(0, equals)),
                        std::string(text.substr(equals + 1)), place};
  const auto parse = [](const std::string& value) {
    return toml::parse("value = " + value);
  };
  const bool is_text = DescribeKey(setting.key).type == "text";
  const toml::parse_result parsed = parse(setting.value);
  // What is not TOML is text without its quotes.
  if (!parsed || parsed.table().size() != 1 ||
      (is_text && !parsed.table()["value"].is_string())) {
    setting.value = Quoted(setting.value);
    if (!parse(setting.value)) return bad(setting.key + ": must be UTF-8");
  }
  return setting;
}

Result<Config> MakeConfig(std::span<const ConfigSetting> settings) {
  Parser parser("");
  for (const ConfigSetting& setting : settings) parser.AddSetting(setting);
  return parser.Finish();
}

Result<Config> ParseConfig(std::string_view text, std::string_view file,
                           std::span<const std::string> settings) {
  Parser parser(file);
  parser.AddText(text);
  for (const std::string& setting : settings) parser.AddSetting(setting);
  return parser.Finish();
}

Result<Config> LoadConfig(const std::string& path,
                          std::span<const std::string> settings) {
  const Result<Bytes> text = ReadFile(path);
  if (!text) return text.error();
  return ParseConfig(AsText(*text), path, settings);
}

}  // namespace fedmrn::sim
