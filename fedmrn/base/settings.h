// Settings as people give them: a key is a name, the place in a struct that it
// fills, a line of help and a check. The struct is the one that the code takes
// which the setting is for; whoever has such a struct has a table of its keys
// beside it, and the config of a run is the sum of these tables.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fedmrn/base/check.h"

namespace fedmrn {

// The possible values of an integer or a number, never infinity itself.
struct Range {
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;   // low itself is impossible
  bool below_high = false;  // high itself is impossible
  // A word that may stand in a number's place, and the number (out of range)
  // that stands for it in the struct.
  std::string_view word = {};
  double word_value = 0;

  bool Has(double value) const {
    return std::isfinite(value) && value >= low && value <= high &&
           !(above_low && value == low) && !(below_high && value == high);
  }
};

inline constexpr Range kFromOne = {.low = 1};
inline constexpr Range kPositive = {.above_low = true};
inline constexpr Range kShare = {.high = 1};
inline constexpr Range kPositiveShare = {.high = 1, .above_low = true};

// A name that people give to a value of an enum or a bool.
struct Choice {
  std::string_view name;
  int value;

  template <typename T>
  constexpr Choice(std::string_view its_name, T its_value)
      : name(its_name), value(static_cast<int>(its_value)) {}
};

template <typename T>
std::string_view NameOf(T value, std::span<const Choice> choices) {
  for (const Choice& choice : choices) {
    if (choice.value == static_cast<int>(value)) return choice.name;
  }
  FEDMRN_CHECK(false, "a value without a name");
}

// The names of a table's rows, for a setting that is one of them.
using RowNames = std::vector<std::string_view> (*)();

using Check = std::variant<Range, std::span<const Choice>, RowNames>;

// An enum of any type.
struct EnumPlace {
  void* place;
  int (*get)(const void* place);
  void (*set)(void* place, int value);
};

// Where a value stands.
using Place = std::variant<uint64_t*, uint32_t*, int*, double*, float*, bool*,
                           std::string*, EnumPlace>;

template <typename T>
Place PlaceOf(T& value) {
  if constexpr (std::is_enum_v<T>) {
    return EnumPlace{
        &value,
        [](const void* from) {
          return static_cast<int>(*static_cast<const T*>(from));
        },
        [](void* to, int of) { *static_cast<T*>(to) = static_cast<T>(of); }};
  } else {
    return &value;
  }
}

// What a setting is to those who compare runs.
enum class KeyRole {
  kSeed,
  kData,       // which examples there are, and among how many clients
  kFiles,      // where files lie; results depend on what they hold
  kPartition,  // how the clients share them
  kMethod,     // what is compared
  kTuning,     // what may be chosen anew for each method, as its learning rate
  kSetting,    // whatever else changes results
  kProgram,    // how the program works; no result depends on it
};

template <typename Settings>
struct Key {
  std::string_view name;  // "method.keep"
  Place (*place)(Settings& settings);
  std::string_view help;
  Check check = Range{};
  std::optional<KeyRole> role = {};  // unless that of its section
};

// A key's place: FEDMRN_PLACE(MethodSettings, codec.keep).
#define FEDMRN_PLACE(Settings, member) \
  [](Settings& settings) { return ::fedmrn::PlaceOf(settings.member); }

// A table's keys of these names, for the row that they belong to.
template <typename Settings>
std::vector<const Key<Settings>*> KeysNamed(
    std::span<const Key<Settings>> table,
    std::initializer_list<std::string_view> names) {
  std::vector<const Key<Settings>*> keys;
  for (const Key<Settings>& key : table) {
    for (const std::string_view name : names) {
      if (key.name == name) keys.push_back(&key);
    }
  }
  FEDMRN_CHECK(keys.size() == names.size(), "a key that is not in the table");
  return keys;
}

}  // namespace fedmrn
