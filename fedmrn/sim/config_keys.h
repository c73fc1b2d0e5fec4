// The table of a config's keys, for those who read and print configs.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/base/settings.h"
#include "fedmrn/sim/config.h"

namespace fedmrn::sim {

struct ConfigRow {
  ConfigKey key;
  std::function<Place(Config&)> place;
  Check check;
  const void* source;  // the Key that it is made of
  // What the views in `key` are of.
  std::string choices;
  std::vector<std::string_view> owners;
};
// In the order of ConfigKeys().
const std::deque<ConfigRow>& ConfigRows();
const ConfigRow* FindConfigRow(std::string_view name);  // null: there is none

// "train.lr" is "lr" of "train"; "seed" is of "".
std::string_view SectionOf(std::string_view name);
std::string_view BareName(std::string_view name);
std::vector<std::string_view> Sections();
bool IsSection(std::string_view name);

// The names that a value may have; none: it is no name.
std::vector<std::string_view> NamesOf(const Check& check);

// Values as TOML writes them. Of a number, the shortest text that reads back to
// the same.
std::string NumberText(float value);
std::string NumberText(double value);
std::string Quoted(std::string_view text);

}  // namespace fedmrn::sim
