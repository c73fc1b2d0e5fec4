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

  // Texts of the last column go on below themselves where they would be wider
  // than so many characters in all.
  std::string Text(size_t characters = std::string::npos) const {
    const size_t room = std::max<size_t>(RoomForLast(characters), 16);
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string space(widths_[i] - Characters(row[i]), ' ');
        if (columns_[i] == 'r') line += space;
        if (i + 1 < row.size()) {
          line += row[i] + (columns_[i] == 'l' ? space : "") + "  ";
        } else {
          line += columns_[i] == 'l' ? Wrapped(row[i], room, Characters(line))
                                     : row[i];
        }
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + '\n';
    }
    return text;
  }

  // To stdout, as wide as its terminal.
  void Print() const {
    const std::optional<TerminalSize> terminal = TerminalOf(STDOUT_FILENO);
    fmt::print("{}", terminal ? Text(terminal->columns) : Text());
  }

 private:
  // Words in lines of at most `width` characters, where they allow it; all but
  // the first behind `indent` spaces.
  static std::string Wrapped(std::string_view text, size_t width,
                             size_t indent) {
    std::string wrapped;
    while (Characters(text) > width) {
      const size_t most = CutTo(text, width + 1).size();
      size_t space = text.substr(0, most).rfind(' ');
      if (space == text.npos) space = text.find(' ');
      if (space == text.npos) break;
      wrapped +=
          std::string(text.substr(0, space)) + '\n' + std::string(indent, ' ');
      text.remove_prefix(space + 1);
    }
    return wrapped + std::string(text);
  }

  std::string columns_;
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace fedmrn::cli
