#include "fedmrn/sim/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include "fedmrn/base/files.h"
#include "fedmrn/core/noise.h"
#include "fedmrn/sim/toml.h"
#include "fedmrn/train/data/dataset.h"
#include "fedmrn/train/method/method.h"
#include "fedmrn/train/model/model.h"

namespace fedmrn::sim {
namespace {

using Field = std::variant<uint64_t*, uint32_t*, double*, bool*, std::string*>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The possible values of an integer or a number, never infinity itself.
struct Range {
  double low = 0;
  double high = kInfinity;
  bool above_low = false;   // low itself is impossible
  bool below_high = false;  // high itself is impossible

  bool Has(double value) const {
    return std::isfinite(value) && value >= low && value <= high &&
           !(above_low && value == low) && !(below_high && value == high);
  }
};

constexpr Range kAny = {};
constexpr Range kFromOne = {.low = 1};
constexpr Range kPositive = {.above_low = true};
constexpr Range kShare = {.high = 1};

// Choices that are the rows of another table: see ChoicesOf.
constexpr std::string_view kDataSets = "(data sets)", kModels = "(models)",
                           kMethods = "(methods)";

struct Row {
  std::string_view name;
  Field (*field)(Config&);
  std::string_view help;
  std::string_view choices = "";
  Range range = kAny;
  bool changes_results = true;
};

#define KEY(member) #member, [](Config & c) -> Field { return &c.member; }

constexpr auto kRows = std::to_array<Row>({
    {KEY(seed), "all randomness of the run follows from it"},
    {KEY(data.name), "the data set", kDataSets},
    {KEY(data.dir), "folder of its files; empty: the usual places", "", kAny,
     false},
    {KEY(data.path), "npz: the file; folder: the folder of training examples",
     "", kAny, false},
    {KEY(data.test_path),
     "npz, folder: of test examples; empty: every tenth of data.path", "", kAny,
     false},
    {KEY(data.train_examples), "use only the first ones; 0: all"},
    {KEY(data.test_examples), "use only the first ones; 0: all"},
    {KEY(data.fraction), "shakespeare: the share of all examples, whole roles",
     "", Range{.high = 1, .above_low = true}},
    {KEY(data.image_size),
     "folder: images become squares of this side; voc: their longer side is "
     "at most this; 0: 32, or as they are"},
    {KEY(data.crop), "voc: side of the square cut out in training", "",
     Range{32, 4096}},
    {KEY(data.erase), "voc: an image keeps the labels of one class only"},
    {KEY(data.skip_bad), "leave out images that cannot be read"},
    {KEY(partition.kind),
     "how clients share the examples; default: the data set's way",
     "iid|dirichlet|labels|natural"},
    {KEY(partition.clients), "number of clients; natural: given by the data",
     "", kFromOne},
    {KEY(partition.labels_per_client), "labels: of each client", "", kFromOne},
    {KEY(partition.labels_assignment),
     "labels: as the paper says or as its code did", "random|cyclic"},
    {KEY(partition.alpha), "dirichlet: the smaller, the more uneven", "",
     kPositive},
    {KEY(partition.min_examples), "dirichlet: the least of each client"},
    {KEY(model.name), "the network; default: the data set's", kModels},
    {KEY(model.torchscript), "your own: a file made by torch.jit.script"},
    {KEY(model.masked),
     "torchscript: patterns of the tensors to compress, such as "
     "conv*.weight,!head*; empty: all of two or more dimensions"},
    {KEY(model.loss), "torchscript: the loss", "auto|cross-entropy|mse|backce"},
    {KEY(model.backbone), "bisenetv2: file of pre-trained tensors"},
    {KEY(model.head_lr), "bisenetv2: the heads learn faster by this factor", "",
     kPositive},
    {KEY(method.name), "what clients upload", kMethods},
    {KEY(method.noise), "distribution of the noise",
     "uniform|gaussian|bernoulli"},
    {KEY(method.magnitude),
     "of the noise; signsgd: of the signs, 0: each tensor's largest value; "
     "default: the method's",
     "", Range{.high = 16}},
    {KEY(method.stochastic), "stochastic masks (SM); false: DM"},
    {KEY(method.progressive), "progressive masking (PM)"},
    {KEY(method.update), "fedavg: the update travels as", "float32|float16"},
    {KEY(method.dense), "what is not compressed travels as", "float32|float16"},
    {KEY(method.keep), "topk, fedsparsify: the share that is sent", "",
     Range{.high = 1, .above_low = true}},
    {KEY(method.clip), "terngrad: in standard deviations; 0: no clipping"},
    {KEY(method.unbiased), "drive: the scale without bias, not of least error"},
    {KEY(method.bits), "eden: of each parameter", "", Range{1, 4}},
    {KEY(method.error_feedback),
     "what compression lost goes into the client's next update"},
    {KEY(method.optimizer), "fedpm: of the scores", "adam|sgd"},
    {KEY(method.reset_every), "fedpm: rounds that one estimate is made of", "",
     kFromOne},
    {KEY(train.epochs), "of a client in a round", "", kFromOne},
    {KEY(train.batch), "examples of a local step", "", kFromOne},
    {KEY(train.lr), "learning rate; default: the method's", "", kPositive},
    {KEY(train.momentum), "of local SGD", "",
     Range{.high = 1, .below_high = true}},
    {KEY(train.weight_decay), "of local SGD"},
    {KEY(train.drop_last), "leave out an epoch's last, short batch"},
    {KEY(rounds.count), "number of rounds", "", kFromOne},
    {KEY(rounds.clients_per_round), "clients sampled in a round", "", kFromOne},
    {KEY(rounds.min_clients), "answers without which a round is repeated", "",
     kFromOne},
    {KEY(rounds.weight), "a client's weight: its number of these, or equal",
     "examples|batches|equal"},
    {KEY(rounds.deadline_s),
     "a client that has not answered after so many seconds is dropped; 0: "
     "never"},
    {KEY(faults.drop), "chance that a client never answers", "", kShare},
    {KEY(faults.crash), "chance that it stops in its training", "", kShare},
    {KEY(faults.corrupt), "chance that its frame is damaged", "", kShare},
    {KEY(faults.delay), "chance that it answers late", "", kShare},
    {KEY(faults.delay_s), "how late, in seconds"},
    {KEY(run.workers), "clients trained at once; 0: one per core", "", kAny,
     false},
    {KEY(run.checkpoint_every), "rounds between checkpoints", "", kFromOne,
     false},
    {KEY(run.eval_every), "rounds between tests of the model", "", kFromOne,
     false},
    {KEY(run.tensorboard), "write TensorBoard event files", "", kAny, false},
});

#undef KEY

// "iid|dirichlet|labels|natural", or empty.
std::string_view ChoicesOf(const Row& row) {
  const auto names = [](const auto& table) {
    std::string text;
    for (const auto& entry : table) {
      text += (text.empty() ? "" : "|") + std::string(entry.name);
    }
    return text;
  };
  static const std::string data_sets = names(train::DataSets()),
                           models = names(train::Models()),
                           methods = names(train::Methods());
  if (row.choices == kDataSets) return data_sets;
  if (row.choices == kModels) return models;
  if (row.choices == kMethods) return methods;
  return row.choices;
}

size_t RowOf(std::string_view name) {
  return std::ranges::find(kRows, name, &Row::name) - kRows.begin();
}

std::string_view SectionOf(std::string_view name) {
  const size_t dot = name.find('.');
  return name.substr(0, dot == name.npos ? 0 : dot);
}

std::string_view BareName(std::string_view name) {
  return name.substr(name.find('.') + 1);
}

bool IsSection(std::string_view name) {
  return !name.empty() && std::ranges::any_of(kRows, [&](const Row& row) {
    return SectionOf(row.name) == name;
  });
}

std::vector<std::string_view> Split(std::string_view choices) {
  std::vector<std::string_view> names;
  while (!choices.empty()) {
    const size_t bar = std::min(choices.find('|'), choices.size());
    names.push_back(choices.substr(0, bar));
    choices.remove_prefix(std::min(bar + 1, choices.size()));
  }
  return names;
}

std::string Join(const std::vector<std::string_view>& names,
                 std::string_view before_last) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : before_last;
    text += names[i];
  }
  return text;
}

// Shortest text that reads back to the same double, as a TOML float.
std::string NumberText(double value) {
  char buffer[32];
  std::string text(buffer, std::to_chars(buffer, std::end(buffer), value).ptr);
  // Without a point TOML would take it for an integer, of 64 bits.
  if (text.find_first_of(".en") == text.npos) text += ".0";
  return text;
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7F) {
      constexpr char kDigits[] = "0123456789abcdef";
      out += {'\\', 'u', '0', '0', kDigits[byte / 16], kDigits[byte % 16]};
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string ValueText(const Field& field) {
  struct Writer {
    std::string operator()(const uint64_t* v) { return std::to_string(*v); }
    std::string operator()(const uint32_t* v) { return std::to_string(*v); }
    std::string operator()(const double* v) { return NumberText(*v); }
    std::string operator()(const bool* v) { return *v ? "true" : "false"; }
    std::string operator()(const std::string* v) { return Quoted(*v); }
  };
  return std::visit(Writer{}, field);
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

bool IsInteger(const Field& field) {
  return std::holds_alternative<uint64_t*>(field) ||
         std::holds_alternative<uint32_t*>(field);
}

double LargestOf(const Field& field) {
  if (std::holds_alternative<uint32_t*>(field)) return 0xFFFFFFFF;
  return kInfinity;  // TOML's own integers end before a uint64_t
}

std::string_view TypeName(const Field& field) {
  if (IsInteger(field)) return "integer";
  if (std::holds_alternative<double*>(field)) return "number";
  return std::holds_alternative<bool*>(field) ? "true/false" : "text";
}

std::string RangeText(const Range& range, bool integer) {
  const auto text = [integer](double value) {
    if (integer) return std::to_string(static_cast<uint64_t>(value));
    char buffer[32];
    return std::string(buffer,
                       std::to_chars(buffer, std::end(buffer), value).ptr);
  };
  if (range.high == kInfinity) {
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
std::string Expected(const Row& row, const Field& field, const Range& range) {
  if (!row.choices.empty()) return Join(Split(ChoicesOf(row)), " or ");
  if (std::holds_alternative<bool*>(field)) return "true or false";
  if (std::holds_alternative<std::string*>(field)) return "text in quotes";
  const bool integer = IsInteger(field);
  return (integer ? "an integer " : "a number ") + RangeText(range, integer);
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> costs(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) costs[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(costs[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
      diagonal = costs[j];
      costs[j] = std::min({replaced, costs[j] + 1, costs[j - 1] + 1});
    }
  }
  return costs.back();
}

// Whether one may be a slip of the other: at most half of it is wrong.
bool Resembles(std::string_view given, size_t distance) {
  return 2 * distance <= given.size();
}

// ", did you mean NAME?", or nothing if none resembles it.
std::string DidYouMean(std::string_view given,
                       const std::vector<std::string_view>& names) {
  const auto distance = [&](std::string_view name) {
    return EditDistance(given, name);
  };
  const auto best = std::ranges::min_element(names, {}, distance);
  if (best == names.end() || !Resembles(given, distance(*best))) return "";
  return ", did you mean " + std::string(*best) + "?";
}

std::vector<std::string_view> Sections() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) {
    const std::string_view section = SectionOf(row.name);
    if (!section.empty() && (names.empty() || names.back() != section)) {
      names.push_back(section);
    }
  }
  return names;
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
  const auto distance = [&](const Row& row) {
    return std::tuple(EditDistance(bare, BareName(row.name)),
                      EditDistance(name, row.name));
  };
  const Row& best = *std::ranges::min_element(kRows, {}, distance);
  if (Resembles(bare, std::get<0>(distance(best)))) {
    return "unknown key, did you mean " + std::string(best.name) + "?";
  }
  const std::string_view section = SectionOf(name);
  if (section.empty()) {
    return "unknown key; only seed stands outside of sections";
  }
  if (!IsSection(section)) return UnknownSection(section);
  std::vector<std::string_view> names;
  for (const Row& row : kRows) {
    if (SectionOf(row.name) == section) names.push_back(BareName(row.name));
  }
  return "unknown key; [" + std::string(section) + "] has " +
         Join(names, " and ");
}

class Parser {
 public:
  explicit Parser(std::string_view file) : file_(file) {}

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
      } else if (table == nullptr || RowOf(key.str()) < kRows.size()) {
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
    const Result<ConfigSetting> setting = ParseSetting(text, "--set " + text);
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

  struct Place {
    std::string text;
    size_t line;
  };
  struct Mistake {
    std::string text;
    size_t line;
  };

  Place AtLine(const toml::source_region& source) const {
    return {PlaceOf(file_, source.begin), source.begin.line};
  }

  // At place_; `name` may be empty.
  void Report(std::string_view name, const std::string& what) {
    mistakes_.push_back({place_.text + ": " + std::string(name) +
                             (name.empty() ? "" : ": ") + what,
                         place_.line});
  }

  void Set(std::string_view name, const toml::node& node) {
    const size_t i = RowOf(name);
    if (i == kRows.size()) {
      Report(name, UnknownKey(name));
      return;
    }
    given_[i] = place_;
    if (const std::string what = Assign(kRows[i], node); !what.empty()) {
      Report(name, what);
      bad_[i] = true;
    }
  }

  // Returns what is wrong, or nothing.
  std::string Assign(const Row& row, const toml::node& node) {
    const Field field = row.field(config_);
    Range range = row.range;
    std::string hint;
    if (auto* text = std::get_if<std::string*>(&field)) {
      if (const auto* value = node.as_string()) {
        const auto choices = Split(ChoicesOf(row));
        if (choices.empty() ||
            std::ranges::find(choices, value->get()) != choices.end()) {
          **text = value->get();
          return "";
        }
        hint = DidYouMean(value->get(), choices);
      }
    } else if (auto* flag = std::get_if<bool*>(&field)) {
      if (const auto* value = node.as_boolean()) {
        **flag = value->get();
        return "";
      }
    } else if (auto* number = std::get_if<double*>(&field)) {
      if (node.is_number()) {
        const double value = *node.value<double>();
        if (range.Has(value)) {
          // Takes the sign from -0.0, which is no other number to people.
          **number = value + 0.0;
          return "";
        }
      }
    } else if (const auto* integer = node.as_integer()) {
      const int64_t value = integer->get();
      const double largest = LargestOf(field);
      if (static_cast<double>(value) > largest) {
        range.high = largest;
      } else if (range.Has(static_cast<double>(value))) {
        if (auto* wide = std::get_if<uint64_t*>(&field)) {
          **wide = static_cast<uint64_t>(value);
        } else {
          **std::get_if<uint32_t*>(&field) = static_cast<uint32_t>(value);
        }
        return "";
      }
    } else if (const auto* real = node.as_floating_point()) {
      const double value = real->get();
      if (value == std::floor(value) && range.Has(value) &&
          value <= 0xFFFFFFFF) {
        hint = ", write " + std::to_string(static_cast<uint64_t>(value));
      }
    }
    return "must be " + Expected(row, field, range) + ", not " +
           NodeText(node) + hint;
  }

  bool Given(std::string_view name) const {
    return given_[RowOf(name)].has_value();
  }

  // Whether all of them can be relied on, so that one mistake is told once.
  bool Sound(std::initializer_list<std::string_view> names) const {
    return std::ranges::none_of(
        names, [&](std::string_view name) { return bad_[RowOf(name)]; });
  }

  // At the first of these keys that is given; defaults need no refusal.
  void Refuse(std::initializer_list<std::string_view> names,
              const std::string& what) {
    for (const std::string_view name : names) {
      if (Given(name)) {
        place_ = *given_[RowOf(name)];
        Report(name, what);
        return;
      }
    }
  }

  void FillDefaults() {
    const train::DataSet& set = *train::FindDataSet(config_.data.name);
    if (!Given("model.name")) {
      config_.model.name =
          config_.model.torchscript.empty() ? set.model : "torchscript";
    }
    const train::ModelRow& model = *train::FindModel(config_.model.name);
    if (!Given("partition.kind")) config_.partition.kind = set.partition;
    const train::Method& method = *train::FindMethod(config_.method.name);
    // A method that starts from a model of its own does not train weights.
    const bool trains_weights = method.initialize == nullptr;
    if (!Given("train.lr")) {
      config_.train.lr = model.lr > 0 && trains_weights ? model.lr : method.lr;
    }
    if (!Given("method.magnitude")) {
      config_.method.magnitude = method.magnitude;
      if (model.magnitude > 0 && FindCodec(method.codec)->uses_noise) {
        // Signed masks span twice their noise.
        const bool is_signed = method.codec == CodecId::kMrnSigned;
        config_.method.magnitude = model.magnitude / (is_signed ? 2 : 1);
      }
    }
  }

  void CheckTogether() {
    const auto text = [](uint64_t value) { return std::to_string(value); };
    const auto& rounds = config_.rounds;
    const uint32_t clients = config_.partition.clients;
    if (Sound({"rounds.clients_per_round", "partition.clients",
               "partition.kind"}) &&
        config_.partition.kind != "natural" &&
        rounds.clients_per_round > clients) {
      Refuse({"rounds.clients_per_round", "partition.clients"},
             text(rounds.clients_per_round) + " of " + text(clients) +
                 " clients in a round: set rounds.clients_per_round to at "
                 "most " +
                 text(clients) + " or partition.clients to at least " +
                 text(rounds.clients_per_round));
    }
    if (Sound({"rounds.min_clients", "rounds.clients_per_round"}) &&
        rounds.min_clients > rounds.clients_per_round) {
      Refuse({"rounds.min_clients", "rounds.clients_per_round"},
             "at least " + text(rounds.min_clients) + " answers of " +
                 text(rounds.clients_per_round) +
                 " clients in a round: set rounds.min_clients to at most " +
                 text(rounds.clients_per_round));
    }
    if (Sound({"method.magnitude", "method.name"}) &&
        FindCodec(train::FindMethod(config_.method.name)->codec)->uses_noise &&
        config_.method.magnitude < kMinMagnitude) {
      Refuse({"method.magnitude"},
             "must be a number above 0 (2^-64 or more) and at most 16 for " +
                 config_.method.name + ", not " +
                 NumberText(config_.method.magnitude));
    }
    if (Sound({"model.name"}) && (config_.model.name == "torchscript") ==
                                     config_.model.torchscript.empty()) {
      Refuse({"model.torchscript", "model.name"},
             config_.model.torchscript.empty()
                 ? "needs model.torchscript, the file of the module"
                 : "is the file of the model torchscript, not of " +
                       config_.model.name);
    }
    if (Sound({"method.error_feedback", "method.name"}) &&
        config_.method.error_feedback &&
        !train::CompressesAfterTraining(
            *train::FindMethod(config_.method.name))) {
      Refuse({"method.error_feedback"},
             "is for methods that compress after training, not for " +
                 config_.method.name);
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
  Place place_;          // of what is being read
  bool unread_ = false;  // the text is not TOML
  std::array<std::optional<Place>, kRows.size()> given_;
  std::array<bool, kRows.size()> bad_ = {};
  std::vector<Mistake> mistakes_;
};

}  // namespace

std::span<const ConfigKey> ConfigKeys() {
  static const std::vector<ConfigKey> keys = [] {
    Config config;
    std::vector<ConfigKey> out;
    for (const Row& row : kRows) {
      out.push_back({row.name, TypeName(row.field(config)), row.help,
                     ChoicesOf(row), row.changes_results});
    }
    return out;
  }();
  return keys;
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
  Config config;
  const size_t row = RowOf(setting.key);
  const bool is_text =
      row < kRows.size() && TypeName(kRows[row].field(config)) == "text";
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

std::vector<std::pair<std::string, std::string>> ConfigValues(
    const Config& config) {
  Config copy = config;
  std::vector<std::pair<std::string, std::string>> values;
  for (const Row& row : kRows) {
    values.emplace_back(row.name, ValueText(row.field(copy)));
  }
  return values;
}

std::string ConfigToml(const Config& config) {
  std::string text, section;
  for (const auto& [name, value] : ConfigValues(config)) {
    if (SectionOf(name) != section) {
      section = SectionOf(name);
      text += "\n[" + section + "]\n";
    }
    text += std::string(BareName(name)) + " = " + value + '\n';
  }
  return text;
}

}  // namespace fedmrn::sim
