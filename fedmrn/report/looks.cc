#include "fedmrn/report/looks.h"

#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "fedmrn/report/paper.h"

namespace fedmrn::report {
namespace {

constexpr std::string_view kColours[] = {
    "#0072b2", "#2e9b5b", "#aa4499", "#e69f00", "#56b4e9",
    "#999933", "#d55e00", "#7a6fd0", "#44aa99", "#cc79a7"};

struct Stroke {
  std::string_view dashes;
  int marker;
};
// Discs are of what is solid.
constexpr Stroke kStrokes[] = {
    {"solid", 7}, {"'-'", 5}, {"'.'", 9}, {"'-.'", 13}, {"'-..'", 11}};

int MarkerOf(std::string_view dashes) {
  for (const Stroke& stroke : kStrokes) {
    if (stroke.dashes == dashes) return stroke.marker;
  }
  return kStrokes[0].marker;
}

}  // namespace

std::map<std::string, Look> LooksOf(const Setting& setting) {
  std::map<std::string, Look> looks;
  std::map<std::string_view, size_t> uses;  // of a colour
  std::map<std::pair<std::string, std::string_view>, size_t>
      stroke_uses;  // by a method
  std::set<std::pair<std::string_view, std::string_view>> taken;
  const auto take = [&](const Setting::Row& row, const Look& look) {
    looks[row.label] = look;
    ++uses[look.colour];
    ++stroke_uses[{row.method, look.dashes}];
    taken.emplace(look.colour, look.dashes);
  };
  std::vector<const Setting::Row*> variants;
  const std::vector<Setting::Row> rows = setting.Rows();
  std::set<std::string_view> methods;
  for (const Setting::Row& row : rows) {
    const MethodStyle& style = StyleOf(row.method);
    // Methods that nobody here knows share one style.
    const bool free = !taken.contains({style.colour, style.dashes});
    if (methods.insert(row.method).second && free) {
      take(row, {style.colour, style.dashes, MarkerOf(style.dashes)});
    } else {
      variants.push_back(&row);
    }
  }
  for (const Setting::Row* row : variants) {
    if (taken.size() >= std::size(kColours) * std::size(kStrokes)) {
      taken.clear();
    }
    Look best;
    std::tuple<size_t, size_t> best_uses;
    for (const Stroke& stroke : kStrokes) {
      for (const std::string_view colour : kColours) {
        if (taken.contains({colour, stroke.dashes})) continue;
        const std::tuple its(uses[colour],
                             stroke_uses[{row->method, stroke.dashes}]);
        if (best.marker != 0 && its >= best_uses) continue;
        best = {colour, stroke.dashes, stroke.marker};
        best_uses = its;
      }
    }
    take(*row, best);
  }
  return looks;
}

}  // namespace fedmrn::report
