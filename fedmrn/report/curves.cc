// Curves of accuracy, and accuracy against what it cost.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "fedmrn/report/canvas.h"
#include "fedmrn/report/looks.h"
#include "fedmrn/report/plot_names.h"
#include "fedmrn/report/plots.h"
#include "fedmrn/report/text.h"

namespace fedmrn::report {
namespace {

// Score by round, and the upload up to it in MB: means of the seeds.
struct Point {
  double round, score, deviation, megabytes;
};

std::vector<Point> CurveOf(const Group& group) {
  struct Seeds {
    std::vector<double> scores;
    double megabytes = 0;
  };
  std::map<uint32_t, Seeds> rounds;
  for (const SavedRun* run : group.runs) {
    const double scale = UnitOf(run->metric).scale;
    double megabytes = 0;
    for (const results::RoundRow& row : run->rows) {
      megabytes += static_cast<double>(row.uplink_bytes) / 1e6;
      if (std::isnan(row.score)) continue;
      rounds[row.round].scores.push_back(scale * row.score);
      rounds[row.round].megabytes += megabytes;
    }
  }
  std::vector<Point> curve;
  for (const auto& [round, seeds] : rounds) {
    // A round that only some seeds have would be a jump in the mean.
    if (seeds.scores.size() != group.runs.size()) continue;
    const results::Spread spread = results::SpreadOf(seeds.scores);
    curve.push_back({static_cast<double>(round), spread.mean,
                     std::isfinite(spread.std) ? spread.std : 0,
                     seeds.megabytes / static_cast<double>(spread.count)});
  }
  return curve;
}

// The range that shows what differs: the climb of the first rounds may begin
// below it.
std::string ScoreRange(const std::vector<std::vector<Point>>& curves,
                       bool percent) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double low = kInfinity, high = -kInfinity;
  for (const auto& curve : curves) {
    std::vector<double> values;
    for (const Point& point : curve) {
      values.push_back(point.score);
      high = std::max(high, point.score + point.deviation);
    }
    if (values.empty()) continue;
    std::ranges::sort(values);
    low = std::min(low, values[values.size() / 4]);
  }
  if (!percent) return "";  // gnuplot's own: such scores have no bounds
  if (high < low) return "set yrange [0:100]\n";
  const double room = std::max(1.0, high - low);
  return fmt::format("set yrange [{}:{}]\n",
                     std::max(0.0, std::floor(low - 0.6 * room)),
                     std::min(100.0, std::ceil(high + 0.05 * room)));
}

// Tics at powers of ten, and between them where there are few; no logarithms
// where there would be hardly any.
Axis UploadAxis(const std::vector<std::vector<Point>>& curves) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const auto& curve : curves) {
    for (const Point& point : curve) {
      if (point.megabytes <= 0) continue;
      least = std::min(least, point.megabytes);
      most = std::max(most, point.megabytes);
    }
  }
  const std::string label = "uploaded by all clients, MB";
  if (most <= 0) return {label, ""};
  if (most < 5 * least) {
    const double room = std::max(0.08 * (most - least), 0.02 * most);
    return {label,
            fmt::format("set xrange [{}:{}]\nset xtics {}\n", least - room,
                        most + room, TicStep(most - least + 2 * room))};
  }
  least /= 1.15;
  most *= 1.15;
  std::string tics;
  const auto decade = [](double value) {
    return static_cast<int>(std::floor(std::log10(value)));
  };
  for (int power = decade(least); power <= decade(most); ++power) {
    for (const int times : {1, 2, 5}) {
      const double at = times * std::pow(10, power);
      if (at < least || at > most || (times > 1 && most > 100 * least))
        continue;
      tics += fmt::format("{}'{:g}' {:g}", tics.empty() ? "" : ", ", at, at);
    }
  }
  return {label + " (log scale)",
          fmt::format("set logscale x\nset xrange [{}:{}]\nset xtics ({})\n",
                      least, most, tics)};
}

// Rounds are whole.
Axis RoundAxis(uint32_t rounds) {
  return {"round", fmt::format("set xrange [0:{}]\nset xtics {}\n", rounds,
                               std::max(1.0, TicStep(rounds)))};
}

// "curve", "curve-2".
std::string Numbered(std::string_view what, size_t number) {
  return number == 1 ? std::string(what) : fmt::format("{}-{}", what, number);
}

}  // namespace

std::vector<Sheet> SheetsOf(const Cell& cell) {
  constexpr size_t kMost = 16;
  const bool fits = cell.groups.size() <= kMost;
  std::vector<Sheet> sheets(1);
  const auto add = [&](const Group& group, const Group* first) {
    if (sheets.back().size() == kMost) sheets.emplace_back();
    if (sheets.back().empty() && first != nullptr) {
      sheets.back().push_back(first);
    }
    sheets.back().push_back(&group);
  };
  for (const Group& group : cell.groups) {
    if (fits || !group.variant()) add(group, nullptr);
  }
  if (fits) return sheets;
  // Variants of a method stand beside it, on sheets of their own.
  std::string_view method;
  for (const Group& group : cell.groups) {
    if (!group.variant()) continue;
    if (group.method != method && !sheets.back().empty()) sheets.emplace_back();
    method = group.method;
    add(group, cell.Standard(method));
  }
  return sheets;
}

Picture CurvePicture(const Setting& setting, const Cell& cell,
                     const Sheet& sheet, size_t number, Against against) {
  const bool upload = against == Against::kUpload;
  const std::map<std::string, Look> looks = LooksOf(setting);
  std::vector<std::vector<Point>> curves;
  std::vector<Line> lines;
  for (const Group* group : sheet) {
    curves.push_back(CurveOf(*group));
    const Look& look = looks.at(group->label);
    Line line{{group->label, look.colour, look.dashes}, ""};
    line.band = group->runs.size() > 1;
    for (const Point& point : curves.back()) {
      line.points +=
          fmt::format("{} {} {}\n", upload ? point.megabytes : point.round,
                      point.score, point.deviation);
    }
    if (!line.points.empty()) lines.push_back(std::move(line));
  }
  return LinePlot(
      PictureName(setting, cell,
                  Numbered(upload ? "upload-curve" : "round-curve", number)),
      PictureTitle(setting, cell,
                   fmt::format("{} {} against {}", setting.on, setting.metric,
                               upload ? "uploaded megabytes" : "rounds")),
      upload ? UploadAxis(curves) : RoundAxis(setting.rounds),
      {ScoreLabel(setting),
       ScoreRange(curves, results::IsShare(setting.metric))},
      lines);
}

Picture TradeOffPicture(const Setting& setting, const Cell& cell,
                        const Sheet& sheet, size_t number) {
  constexpr double kLeft = 68, kWidth = 430, kBeside = 24, kSample = 20,
                   kTop = 14, kTics = 54;
  std::vector<const Group*> groups;
  std::vector<std::vector<Point>> points;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  size_t longest = 28;  // so that pictures of a page are equally large
  const auto deviation = [](const Group& group) {
    return std::isfinite(group.last_ten.std) ? group.last_ten.std : 0;
  };
  for (const Group* group : sheet) {
    const double mean = group->last_ten.mean;
    if (std::isnan(mean)) continue;
    groups.push_back(group);
    points.push_back({{0, mean, 0, group->uploaded_mb}});
    longest = std::max(longest, group->label.size());
    low = std::min(low, mean - deviation(*group));
    high = std::max(high, mean + deviation(*group));
  }
  std::ranges::stable_sort(groups, std::greater(), [](const Group* group) {
    return group->last_ten.mean;
  });
  if (groups.empty()) low = high = 0;
  const double room = std::max(0.06 * (high - low), 0.005 * std::abs(high));
  low -= room;
  high += room > 0 ? room : 1;
  const double count = static_cast<double>(groups.size()),
               plot = std::max(250.0, count * kLineHeight);
  const double right =
      kBeside + kSample + kLetter * static_cast<double>(longest) + 4;
  Canvas canvas(kLeft, right, kTop, kTics, kTop + plot + kTics,
                static_cast<int>(kLeft + kWidth + right));
  const Axis axis = UploadAxis(points);
  canvas.Text(kLeft + kWidth / 2, kTop + plot + 41, axis.label, "center");
  canvas.Text(12, kTop + plot / 2, ScoreLabel(setting), "center rotate");
  canvas.Add(axis.script + fmt::format("set yrange [{}:{}]\n", low, high));
  // Names with their markers stand beside the plot, the most accurate first.
  const std::map<std::string, Look> looks = LooksOf(setting);
  std::string data;
  double place = kTop + kLineHeight / 2.0;
  for (const Group* group : groups) {
    const Look& look = looks.at(group->label);
    const double x = kLeft + kWidth + kBeside;
    canvas.Add(fmt::format(
        "set label '' at screen {},{} point pt {} ps 1 lc rgb '{}'\n",
        canvas.X(x), canvas.Y(place), look.marker, look.colour));
    canvas.Text(x + kSample, place, group->label, "left");
    place += kLineHeight;
    data += fmt::format("{} {} {} {} {}\n", group->uploaded_mb,
                        group->last_ten.mean, deviation(*group),
                        ColourNumber(look.colour), look.marker);
  }
  canvas.Add(fmt::format(
      "$dots << EOD\n{}EOD\nplot NaN, \\\n"
      "  $dots using 1:($2-$3):(0):(2*$3):4 with vectors nohead lw 1.5 lc rgb "
      "variable, \\\n  $dots using 1:2:5:4 with points pt variable ps 1 lc "
      "rgb variable\n",
      data));
  Picture picture = canvas.Finish(
      PictureName(setting, cell, Numbered("trade-off", number)),
      PictureTitle(setting, cell,
                   fmt::format("{} {} in the last ten rounds against the "
                               "upload of a run",
                               setting.on, setting.metric)));
  picture.wide = true;
  return picture;
}

}  // namespace fedmrn::report
