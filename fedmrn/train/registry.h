// A table of rows that each have a name: those of the program, and those that
// a program built on it adds. Rows never move, so pointers to them stay good.
// Adding is not thread-safe and comes first, before a config is parsed.
#pragma once

#include <deque>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "fedmrn/base/check.h"

namespace fedmrn::train {

template <typename Row>
class Registry {
 public:
  Registry(std::initializer_list<Row> rows) {
    for (const Row& row : rows) Add(row);
  }

  void Add(const Row& row) {
    FEDMRN_CHECK(Find(row.name) == nullptr, "a second row of this name");
    rows_.push_back(row);
  }

  const std::deque<Row>& rows() const { return rows_; }

  std::vector<std::string_view> names() const {
    std::vector<std::string_view> names;
    for (const Row& row : rows_) names.push_back(row.name);
    return names;
  }

  // Null if there is none.
  const Row* Find(std::string_view name) const {
    for (const Row& row : rows_) {
      if (row.name == name) return &row;
    }
    return nullptr;
  }

 private:
  std::deque<Row> rows_;
};

}  // namespace fedmrn::train
