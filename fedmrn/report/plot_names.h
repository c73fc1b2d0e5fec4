// What pictures and their axes are called.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "fedmrn/report/groups.h"
#include "fedmrn/report/text.h"

namespace fedmrn::report {

inline std::string PictureName(const Setting& setting, const Cell& cell,
                               std::string_view what) {
  // Partitions of one kind are told apart by number.
  size_t number = 1;
  for (const Cell* other = setting.cells.data(); other != &cell; ++other) {
    if (other->kind == cell.kind) ++number;
  }
  return fmt::format("{}-{}{}-{}", setting.slug, IdText(cell.kind),
                     number > 1 ? std::to_string(number) : "", what);
}

inline std::string PictureTitle(const Setting& setting, const Cell& cell,
                                std::string_view what) {
  return fmt::format("{}, {}: {}", setting.name, cell.name, what);
}

// "test accuracy, %", "validation accuracy, %"
inline std::string ScoreLabel(const Setting& setting) {
  return fmt::format("{} {}{}", setting.on, setting.metric,
                     results::IsShare(setting.metric) ? ", %" : "");
}

}  // namespace fedmrn::report
