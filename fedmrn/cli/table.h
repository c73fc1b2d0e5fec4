// A table of text for people: columns as wide as their widest cell.
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/cli/text.h"

namespace fedmrn::cli {

class Table {
 public:
  // A letter for each column: l for text, on the left, and r for numbers, on
  // the right.
  explicit Table(std::string columns)
      : columns_(std::move(columns)), widths_(columns_.size()) {}

  // A cell for each column; a header, if there is one, is the first row.
  void Add(std::vector<std::string> cells) {
    FEDMRN_CHECK(cells.size() == columns_.size());
    for (size_t i = 0; i < cells.size(); ++i) {
      widths_[i] = std::max(widths_[i], Characters(cells[i]));
    }
    rows_.push_back(std::move(cells));
  }

  // What is left of so many characters for the last column.
  size_t RoomForLast(size_t characters) const {
    size_t others = 0;
    for (size_t i = 0; i + 1 < widths_.size(); ++i) others += widths_[i] + 2;
    return characters > others ? characters - others : 0;
  }

  // At most so many characters wide, if that can be: columns that do not fit
  // follow below, behind the texts that the rows begin with, and a text in the
  // last column goes on below itself.
  std::string Text(size_t characters = std::string::npos) const {
    const size_t all = columns_.size();
    const size_t keys = std::clamp<size_t>(columns_.find('r'), 1, all - 1);
    std::string text;
    for (size_t first = keys; first < all;) {
      size_t width = 0, end = first;
      for (size_t i = 0; i < keys; ++i) width += widths_[i] + 2;
      do {
        width += LeastWidth(end++) + 2;
      } while (end < all && width + LeastWidth(end) <= characters);
      if (first > keys) text += '\n';
      for (const auto& row : rows_) {
        text += Line(row, keys, first, end, characters);
      }
      first = end;
    }
    return text;
  }

  // To stdout, as wide as its terminal.
  void Print() const {
    const std::optional<TerminalSize> terminal = TerminalOf(STDOUT_FILENO);
    fmt::print("{}", terminal ? Text(terminal->columns) : Text());
  }

 private:
  bool IsWrapped(size_t column) const {
    return column + 1 == columns_.size() && columns_[column] == 'l';
  }

  size_t LeastWidth(size_t column) const {
    return IsWrapped(column) ? std::min<size_t>(widths_[column], 20)
                             : widths_[column];
  }

  // The first `keys` cells and those from `first` to before `end`.
  std::string Line(const std::vector<std::string>& row, size_t keys,
                   size_t first, size_t end, size_t characters) const {
    std::string line;
    const auto add = [&](size_t i) {
      if (i > 0) line += "  ";
      const std::string space(widths_[i] - Characters(row[i]), ' ');
      if (IsWrapped(i)) {
        const size_t indent = Characters(line);
        const size_t room = characters > indent ? characters - indent : 0;
        line += Wrapped(row[i], std::max<size_t>(room, 16), indent);
      } else {
        line += columns_[i] == 'l' ? row[i] + space : space + row[i];
      }
    };
    for (size_t i = 0; i < keys; ++i) add(i);
    for (size_t i = first; i < end; ++i) add(i);
    return line.erase(line.find_last_not_of(' ') + 1) + '\n';
  }

  std::string columns_;
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace fedmrn::cli
