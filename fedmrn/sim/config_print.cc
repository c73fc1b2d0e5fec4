#include <algorithm>
#include <charconv>
#include <concepts>
#include <iterator>
#include <variant>

#include "fedmrn/base/files.h"
#include "fedmrn/base/sha256.h"
#include "fedmrn/sim/config.h"
#include "fedmrn/sim/config_keys.h"
#include "fedmrn/sim/ending.h"

namespace fedmrn::sim {
namespace {

template <typename T>
std::string ShortestText(T value) {
  char buffer[32];
  std::string text(buffer, std::to_chars(buffer, std::end(buffer), value).ptr);
  // Without a point TOML would take it for an integer, of 64 bits.
  if (text.find_first_of(".en") == text.npos) text += ".0";
  return text;
}

struct Writer {
  const Check& check;

  std::string operator()(const bool* v) const {
    if (!std::holds_alternative<Range>(check)) return Named(*v);
    return *v ? "true" : "false";
  }
  std::string operator()(const EnumPlace& v) const {
    return Named(v.get(v.place));
  }
  std::string operator()(const std::string* v) const { return Quoted(*v); }
  template <std::floating_point T>
  std::string operator()(const T* v) const {
    const auto* range = std::get_if<Range>(&check);
    if (range != nullptr && !range->word.empty() && *v == range->word_value) {
      return Quoted(range->word);
    }
    return NumberText(*v);
  }
  template <std::integral T>
  std::string operator()(const T* v) const {
    return std::to_string(*v);
  }

  std::string Named(int value) const {
    return Quoted(NameOf(value, std::get<std::span<const Choice>>(check)));
  }
};

std::string ValueText(const Place& place, const Check& check) {
  return std::visit(Writer{check}, place);
}

// Whether the config's data set, partition, network and method are such that
// the key counts.
bool IsRead(const Config& config, const ConfigKey& key) {
  const std::string_view rows[] = {
      config.data.name, config.model.name, config.method.name,
      config.server.optimizer, NameOf(config.partition.kind, kPartitionKinds)};
  return key.owners.empty() ||
         std::ranges::any_of(rows, [&](std::string_view row) {
           return std::ranges::find(key.owners, row) != key.owners.end();
         });
}

std::string HelpOf(const ConfigKey& key) {
  std::string text(key.help);
  if (!key.choices.empty()) text += " (" + std::string(key.choices) + ")";
  return text;
}

}  // namespace

std::string NumberText(float value) { return ShortestText(value); }
std::string NumberText(double value) { return ShortestText(value); }

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

std::vector<std::pair<std::string, std::string>> ConfigValues(
    const Config& config) {
  Config copy = config;
  std::vector<std::pair<std::string, std::string>> values;
  for (const ConfigRow& row : ConfigRows()) {
    values.emplace_back(row.key.name, ValueText(row.place(copy), row.check));
  }
  return values;
}

uint64_t RunId(const Config& config) {
  const auto values = ConfigValues(config);
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!ConfigKeys()[i].changes_results ||
        values[i].first.starts_with("faults.") ||
        values[i].first == "rounds.deadline_s" || IsLength(values[i].first)) {
      continue;
    }
    text += values[i].first + " = " + values[i].second + "\n";
  }
  return std::stoull(Sha256Hex(AsBytes(text)).substr(0, 16), nullptr, 16);
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

std::string ExplainedConfigToml(const Config& config) {
  std::string text, section;
  const auto values = ConfigValues(config);
  for (size_t i = 0; i < values.size(); ++i) {
    const ConfigKey& key = ConfigKeys()[i];
    if (!IsRead(config, key)) continue;
    if (SectionOf(key.name) != section) {
      section = SectionOf(key.name);
      text += "\n[" + section + "]\n";
    }
    text += "# " + HelpOf(key) + '\n';
    text += std::string(BareName(key.name)) + " = " + values[i].second + '\n';
  }
  return text;
}

std::string KeysMarkdown() {
  std::string text =
      "# Keys of a config\n\n"
      "Made by `fedmrn run --print-keys`, from the tables that the program "
      "reads "
      "configs by. A key stands in a TOML\nfile (`[train]`, `lr = 0.1`), after "
      "`--set` (`--set train.lr=0.1`) or as a flag (`--train.lr 0.1`); the "
      "last "
      "one wins.\n`fedmrn run ... --print-config` prints the config that would "
      "run, with a comment for each key.\n";
  std::string section = "none yet";
  const auto defaults = ConfigValues(Config{});
  for (size_t i = 0; i < defaults.size(); ++i) {
    const ConfigKey& key = ConfigKeys()[i];
    if (SectionOf(key.name) != section) {
      section = SectionOf(key.name);
      text += (section.empty() ? "" : "\n## [" + section + "]\n");
      text +=
          "\n| key | type | default | what it says | read by |\n"
          "|---|---|---|---|---|\n";
    }
    std::string help = HelpOf(key);
    for (size_t at = 0; (at = help.find('|', at)) != help.npos; at += 2) {
      help.insert(at, "\\");
    }
    std::string readers;
    for (const std::string_view owner : key.owners) {
      readers += (readers.empty() ? "" : ", ") + std::string(owner);
    }
    text += "| `" + std::string(key.name) + "` | " + std::string(key.type) +
            " | " +
            (HasFixedDefault(key) ? "`" + defaults[i].second + "`" : "") +
            " | " + help + " | " + (readers.empty() ? "all" : readers) + " |\n";
  }
  return text;
}

}  // namespace fedmrn::sim
