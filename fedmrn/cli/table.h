// A table of text for people: columns as wide as their widest cell.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace fedmrn::cli {

class Table {
 public:
  // The first `left` columns are text, the others numbers, on the right.
  Table(std::vector<std::string> header, size_t left) : left_(left) {
    Add(std::move(header));
  }

  // As many cells as the header has.
  void Add(std::vector<std::string> cells) {
    widths_.resize(cells.size());
    for (size_t i = 0; i < cells.size(); ++i) {
      widths_[i] = std::max(widths_[i], Characters(cells[i]));
    }
    rows_.push_back(std::move(cells));
  }

  std::string Text() const {
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string space(widths_[i] - Characters(row[i]), ' ');
        if (i > 0) line += "  ";
        line += i < left_ ? row[i] + space : space + row[i];
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + '\n';
    }
    return text;
  }

 private:
  // Of UTF-8: all bytes but those that continue a character.
  static size_t Characters(const std::string& text) {
    return static_cast<size_t>(
        std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
  }

  size_t left_;
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace fedmrn::cli
