#include "fedmrn/report/plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/report/paper.h"
#include "fedmrn/report/text.h"

namespace fedmrn::report {
namespace {

// Scaled to a phone's width the text is still as high as 10 pixels.
constexpr int kWidth = 480, kLineHeight = 20;

std::string Name(const Setting& setting, const Cell& cell,
                 std::string_view what) {
  // Partitions of one kind are told apart by number.
  size_t number = 1;
  for (const Cell* other = setting.cells.data(); other != &cell; ++other) {
    if (other->kind == cell.kind) ++number;
  }
  return fmt::format("{}-{}{}-{}", setting.slug, IdText(cell.kind),
                     number > 1 ? std::to_string(number) : "", what);
}

std::string Title(const Setting& setting, const Cell& cell,
                  std::string_view what) {
  return fmt::format("{}, {}: {}", setting.name, cell.name, what);
}

// "test accuracy, %"
std::string ScoreLabel(const Setting& setting) {
  return fmt::format("test {}{}", setting.metric,
                     results::IsShare(setting.metric) ? ", %" : "");
}

// In pixels of the picture; a letter of its text is about so wide.
constexpr double kLetter = 8.6;

// Where things stand in a picture: gnuplot counts from the bottom, in parts.
class Canvas {
 public:
  Canvas(double left, double right, double top, double bottom, double height,
         int width = kWidth)
      : width_(width), height_(height) {
    script_ = fmt::format(
        "set border 3 lc rgb '{axis}'\n"
        "set tics nomirror scale 0.5 textcolor rgb '{ink}'\n"
        "set grid lc rgb '{grid}' lt 1 lw 1\n"
        "set style fill solid 1 noborder\n"
        "unset key\n"
        "set lmargin at screen {}\n"
        "set rmargin at screen {}\n"
        "set tmargin at screen {}\n"
        "set bmargin at screen {}\n",
        X(left), X(width - right), Y(top), Y(height - bottom),
        fmt::arg("axis", kAxis), fmt::arg("ink", kInk),
        fmt::arg("grid", kGrid));
  }

  double X(double pixels) const { return pixels / width_; }
  double Y(double pixels) const { return 1 - pixels / height_; }
  void Add(const std::string& script) { script_ += script; }
  // `place`: left, center or right, and rotate.
  void Text(double x, double y, std::string_view text, std::string_view place) {
    Add(fmt::format("set label {} at screen {},{} {} textcolor rgb '{}'\n",
                    GnuplotText(text), X(x), Y(y), place, kInk));
  }
  Picture Finish(std::string name, std::string title) {
    return {std::move(name), std::move(title), width_,
            static_cast<int>(height_), std::move(script_)};
  }

 private:
  int width_;
  double height_;
  std::string script_;
};

// A key below the plot that fills its lines as words do. gnuplot's own knows
// columns only, as wide as the longest title.
struct KeyEntry {
  std::string title;
  std::string colour, dashes;  // no dashes: a box instead of a line
  double width = 0;
};

class Key {
 public:
  explicit Key(std::vector<KeyEntry> entries) : entries_(std::move(entries)) {
    double x = kLeft;
    for (const KeyEntry& entry : entries_) {
      const double width =
          kSample + kLetter * static_cast<double>(entry.title.size());
      if (x > kLeft && x + width > kWidth) {
        x = kLeft;
        ++lines_;
      }
      places_.push_back({x, lines_});
      x += width + kGap;
    }
  }

  double height() const {
    return entries_.empty() ? 0 : (lines_ + 1.0) * kLineHeight + 6;
  }

  void Draw(Canvas& canvas, double top) const {
    for (size_t i = 0; i < entries_.size(); ++i) {
      const KeyEntry& entry = entries_[i];
      const double x = places_[i].x,
                   y = top + (places_[i].line + 0.5) * kLineHeight;
      if (entry.dashes.empty()) {
        canvas.Add(fmt::format(
            "set object rectangle from screen {},{} to screen {},{} fc rgb "
            "'{}' fs solid 1 noborder\n",
            canvas.X(x + 8), canvas.Y(y + 5), canvas.X(x + 20), canvas.Y(y - 5),
            entry.colour));
      } else {
        canvas.Add(fmt::format(
            "set arrow from screen {},{} to screen {},{} nohead lw {} lc rgb "
            "'{}' dt {}\n",
            canvas.X(x), canvas.Y(y), canvas.X(x + 24), canvas.Y(y),
            entry.width, entry.colour, entry.dashes));
      }
      canvas.Text(x + kSample, y, entry.title, "left");
    }
  }

 private:
  static constexpr double kLeft = 14, kSample = 30, kGap = 12;
  struct Place {
    double x;
    int line;
  };
  std::vector<KeyEntry> entries_;
  std::vector<Place> places_;
  int lines_ = 0;
};

// A line of a plot of lines, with its points.
struct Line {
  KeyEntry key;
  std::string points;  // "x y" or "x y std" a line
  bool marks = false;  // a dot and a whisker on every point
};

Picture LinePlot(std::string name, std::string title, std::string_view x_label,
                 std::string_view y_label, const std::string& ranges,
                 const std::vector<Line>& lines) {
  constexpr double kPlot = 250, kLeft = 68, kRight = 18, kTop = 14, kTics = 54;
  std::vector<KeyEntry> entries;
  for (const Line& line : lines) entries.push_back(line.key);
  const Key key(std::move(entries));
  Canvas canvas(kLeft, kRight, kTop, kTics + key.height(),
                kTop + kPlot + kTics + key.height());
  canvas.Text((kLeft + kWidth - kRight) / 2, kTop + kPlot + 41, x_label,
              "center");
  canvas.Text(12, kTop + kPlot / 2, y_label, "center rotate");
  key.Draw(canvas, kTop + kPlot + kTics);
  canvas.Add(ranges);
  for (size_t i = 0; i < lines.size(); ++i) {
    canvas.Add(fmt::format("$d{} << EOD\n{}EOD\n", i, lines[i].points));
  }
  // Even where there is no line, the empty axes are a plot.
  canvas.Add("plot NaN");
  for (size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    canvas.Add(
        fmt::format(", \\\n  $d{} using 1:2 with lines lw {} lc rgb '{}' dt {}",
                    i, line.key.width, line.key.colour, line.key.dashes));
    if (!line.marks) continue;
    // Not as error bars, around whose points gnuplot leaves white rings.
    canvas.Add(fmt::format(
        ", \\\n  $d{0} using 1:($2-$3):(0):(2*$3) with vectors nohead lw 1.5 "
        "lc rgb '{1}', \\\n  $d{0} using 1:2 with points pt 7 ps 0.6 lc rgb "
        "'{1}'",
        i, line.key.colour));
  }
  canvas.Add("\n");
  return canvas.Finish(std::move(name), std::move(title));
}

// Score by round, and the upload up to it in MB: means of the seeds.
struct Point {
  double round, score, megabytes;
};

std::vector<Point> CurveOf(const Group& group) {
  std::map<uint32_t, Point> sums;
  std::map<uint32_t, size_t> counts;
  for (const SavedRun* run : group.runs) {
    const double scale = UnitOf(run->metric).scale;
    double megabytes = 0;
    for (const results::RoundRow& row : run->rows) {
      megabytes += static_cast<double>(row.uplink_bytes) / 1e6;
      if (std::isnan(row.score)) continue;
      Point& sum = sums[row.round];
      sum.score += scale * row.score;
      sum.megabytes += megabytes;
      ++counts[row.round];
    }
  }
  std::vector<Point> curve;
  for (const auto& [round, sum] : sums) {
    // A round that only some seeds have would be a jump in the mean.
    if (counts[round] != group.runs.size()) continue;
    const double count = static_cast<double>(counts[round]);
    curve.push_back(
        {static_cast<double>(round), sum.score / count, sum.megabytes / count});
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
    for (const Point& point : curve) values.push_back(point.score);
    if (values.empty()) continue;
    std::ranges::sort(values);
    low = std::min(low, values[values.size() / 4]);
    high = std::max(high, values.back());
  }
  if (!percent) return "";  // gnuplot's own: such scores have no bounds
  if (high < low) return "set yrange [0:100]\n";
  const double room = std::max(1.0, high - low);
  return fmt::format("set yrange [{}:{}]\n",
                     std::max(0.0, std::floor(low - 0.6 * room)),
                     std::min(100.0, std::ceil(high + 0.05 * room)));
}

struct Axis {
  std::string label, script;
};

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

// How the groups of a sheet are drawn: the first of a method as the method is
// everywhere, others in ways that are not taken yet.
std::vector<KeyEntry> LooksOf(const Sheet& sheet) {
  constexpr std::string_view kColours[] = {"#0072b2", "#2e9b5b", "#aa4499",
                                           "#999933", "#d55e00", "#56b4e9",
                                           "#7a6fd0", "#e69f00"};
  constexpr std::string_view kDashes[] = {"solid", "'-'", "'.'", "'_'"};
  std::vector<KeyEntry> looks;
  std::set<std::string_view> methods;
  std::set<std::pair<std::string_view, std::string_view>> taken;
  for (const Group* group : sheet) {
    const MethodStyle& style = StyleOf(group->method);
    KeyEntry look{group->label, "", "", style.line_width};
    if (methods.insert(group->method).second) {
      look.colour = style.colour;
      look.dashes = style.dashes;
      taken.emplace(style.colour, style.dashes);
    }
    looks.push_back(std::move(look));
  }
  for (KeyEntry& look : looks) {
    for (const std::string_view dashes : kDashes) {
      for (const std::string_view colour : kColours) {
        if (look.colour.empty() && taken.emplace(colour, dashes).second) {
          look.colour = colour;
          look.dashes = dashes;
          look.width = 2;
        }
      }
    }
    if (look.colour.empty()) look.colour = kAxis, look.dashes = "solid";
  }
  return looks;
}

// "curve", "curve-2".
std::string Numbered(std::string_view what, size_t number) {
  return number == 1 ? std::string(what) : fmt::format("{}-{}", what, number);
}

unsigned ColourNumber(std::string_view colour) {
  return static_cast<unsigned>(
      std::stoul(std::string(colour.substr(1)), nullptr, 16));
}

struct Bar {
  std::string label;
  std::vector<std::string_view> colours;  // of its parts
  std::vector<double> parts;
  std::string text;  // behind it
  double std = 0;    // a whisker at its end, if above 0

  double length() const {
    double sum = 0;
    for (const double part : parts) sum += part;
    return sum;
  }
};

struct BarAxis {
  std::string label;
  double from = 0;
  double to = 0;  // longer bars are cut off there
  std::vector<KeyEntry> key = {};
};

// Horizontal bars: their labels need no turned head, on a phone either.
Picture BarPlot(std::string name, std::string title, const BarAxis& axis,
                const std::vector<Bar>& bars) {
  constexpr double kBar = 26, kTop = 8, kTics = 54;
  size_t label = 0, text = 0;
  for (const Bar& bar : bars) {
    label = std::max(label, bar.label.size());
    text = std::max(text, bar.text.size());
  }
  const double left = std::max(kLetter * static_cast<double>(label) + 16, 70.0),
               right = kLetter * static_cast<double>(text) + 14,
               count = static_cast<double>(bars.size());
  // Long labels take nothing from the bars.
  const int width = std::max(kWidth, static_cast<int>(left + right + 110));
  const Key key(axis.key);
  Canvas canvas(left, right, kTop, kTics + key.height(),
                kTop + kBar * count + kTics + key.height(), width);
  canvas.Text(width / 2.0, kTop + kBar * count + 41, axis.label, "center");
  key.Draw(canvas, kTop + kBar * count + kTics);
  std::string script = fmt::format(
      "unset grid\nset grid x lc rgb '{}' lt 1 lw 1\n"
      "set border 2 lc rgb '{}'\n"
      "set xtics scale 0 {}\nset ytics scale 0 (",
      kGrid, kAxis, TicStep(axis.to - axis.from));
  for (size_t i = 0; i < bars.size(); ++i) {
    script += fmt::format("{}{} {}", i == 0 ? "" : ", ",
                          GnuplotText(bars[i].label), i);
  }
  script += fmt::format(")\nset yrange [{}:-0.5]\nset xrange [{}:{}]\n",
                        count - 0.5, axis.from, axis.to);
  std::string parts, whiskers;
  const auto part_text = [&](double from, double to, size_t bar,
                             std::string_view colour) {
    const double middle = static_cast<double>(bar);
    return fmt::format("{} {} {} {} {} {}\n", from, to, middle, middle - 0.34,
                       middle + 0.34, ColourNumber(colour));
  };
  for (size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    double from = axis.from, sum = 0;
    for (size_t part = 0; part < bar.parts.size(); ++part) {
      sum += bar.parts[part];
      const double to = std::clamp(sum, axis.from, axis.to);
      if (sum > axis.to && from < axis.to) {
        // A gap before the end shows that the bar goes on.
        const double length = axis.to - axis.from;
        const double gap = std::max(from, axis.to - 0.08 * length);
        parts += part_text(from, gap, i, bar.colours[part]);
        from = std::max(from, axis.to - 0.06 * length);
      }
      parts += part_text(from, to, i, bar.colours[part]);
      from = to;
    }
    if (bar.std > 0) whiskers += fmt::format("{} {} {}\n", sum, i, bar.std);
    script += fmt::format(
        "set label {} at {},{} left offset 0.6,0 textcolor rgb '{}' front\n",
        GnuplotText(bar.text), std::min(axis.to, sum + bar.std), i, kInk);
  }
  script += fmt::format("$parts << EOD\n{}EOD\n$whiskers << EOD\n{}EOD\n",
                        parts, whiskers);
  script += "plot $parts using 1:3:1:2:4:5:6 with boxxyerror lc rgb variable";
  if (!whiskers.empty()) {
    script += fmt::format(
        ", \\\n  $whiskers using ($1-$3):2:(2*$3):(0) with vectors nohead lw "
        "1.5 lc rgb '{}'",
        kMuted);
  }
  canvas.Add(script + "\n");
  return canvas.Finish(std::move(name), std::move(title));
}

Bar ScoreBar(const Group& group, int digits) {
  const bool several = std::isfinite(group.best.std);
  return {group.label,
          {StyleOf(group.method).colour},
          {group.best.mean},
          several ? fmt::format("{:.{}f} ± {:.{}f}", group.best.mean, digits,
                                group.best.std, digits)
                  : fmt::format("{:.{}f}", group.best.mean, digits),
          several ? group.best.std : 0};
}

template <typename Of>
Picture TimePicture(const Setting& setting, std::string_view what,
                    const std::string& label, int digits, Of value_of) {
  std::vector<Bar> bars;
  double most = 0;
  for (const Setting::Row& row : setting.Rows()) {
    const double value = value_of(CostOf(row.runs));
    if (!std::isfinite(value)) continue;
    bars.push_back({row.label,
                    {StyleOf(row.method).colour},
                    {value},
                    fmt::format("{:.{}f}", value, digits)});
    most = std::max(most, value);
  }
  return BarPlot(fmt::format("{}-{}", setting.slug, what),
                 fmt::format("{}: {}", setting.name, label),
                 {label, 0, most > 0 ? most : 1}, bars);
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
  const std::vector<KeyEntry> looks = LooksOf(sheet);
  std::vector<std::vector<Point>> curves;
  std::vector<Line> lines;
  for (size_t i = 0; i < sheet.size(); ++i) {
    curves.push_back(CurveOf(*sheet[i]));
    Line line{looks[i], ""};
    for (const Point& point : curves.back()) {
      line.points += fmt::format(
          "{} {}\n", upload ? point.megabytes : point.round, point.score);
    }
    if (!line.points.empty()) lines.push_back(std::move(line));
  }
  const Axis axis =
      upload
          ? UploadAxis(curves)
          : Axis{"round", fmt::format("set xrange [0:{}]\n", setting.rounds)};
  return LinePlot(
      Name(setting, cell,
           Numbered(upload ? "upload-curve" : "round-curve", number)),
      Title(setting, cell,
            fmt::format("test {} against {}", setting.metric,
                        upload ? "uploaded megabytes" : "rounds")),
      axis.label, ScoreLabel(setting),
      ScoreRange(curves, results::IsShare(setting.metric)) + axis.script,
      lines);
}

Picture TradeOffPicture(const Setting& setting, const Cell& cell,
                        const Sheet& sheet, size_t number) {
  constexpr double kLeft = 68, kPlotWidth = 430, kLead = 24, kTop = 14,
                   kTics = 54;
  const std::vector<KeyEntry> looks = LooksOf(sheet);
  struct Dot {
    const Group* group;
    const KeyEntry* look;
    double deviation;
  };
  std::vector<Dot> dots;
  std::vector<std::vector<Point>> points;
  for (size_t i = 0; i < sheet.size(); ++i) {
    const results::Spread& score = sheet[i]->last_ten;
    if (std::isnan(score.mean)) continue;
    dots.push_back(
        {sheet[i], &looks[i], std::isfinite(score.std) ? score.std : 0});
    points.push_back({{0, score.mean, sheet[i]->uploaded_mb}});
  }
  std::ranges::stable_sort(dots, std::greater(), [](const Dot& dot) {
    return dot.group->last_ten.mean;
  });
  double low = std::numeric_limits<double>::infinity(), high = -low;
  size_t longest = 30;  // so that pictures of a page are equally large
  for (const Dot& dot : dots) {
    longest = std::max(longest, dot.look->title.size());
    low = std::min(low, dot.group->last_ten.mean - dot.deviation);
    high = std::max(high, dot.group->last_ten.mean + dot.deviation);
  }
  if (dots.empty()) low = high = 0;
  const double room = std::max(0.06 * (high - low), 0.005 * std::abs(high));
  low -= room;
  high += room > 0 ? room : 1;
  const double count = static_cast<double>(dots.size()),
               plot = std::max(250.0, count * kLineHeight);
  const double right = kLead + kLetter * static_cast<double>(longest) + 4;
  Canvas canvas(kLeft, right, kTop, kTics, kTop + plot + kTics,
                static_cast<int>(kLeft + kPlotWidth + right));
  const Axis axis = UploadAxis(points);
  canvas.Text(kLeft + kPlotWidth / 2, kTop + plot + 41, axis.label, "center");
  canvas.Text(12, kTop + plot / 2, ScoreLabel(setting), "center rotate");
  canvas.Add(axis.script + fmt::format("set yrange [{}:{}]\n", low, high));
  // Beside the plot, in the order of the points and as near as there is room;
  // a line leads to the point.
  std::vector<double> places;
  for (const Dot& dot : dots) {
    const double at =
        kTop + plot * (high - dot.group->last_ten.mean) / (high - low);
    places.push_back(
        places.empty() ? at : std::max(at, places.back() + kLineHeight));
  }
  double below = kTop + plot;
  for (double& place : std::views::reverse(places)) {
    place = std::min(place, below - kLineHeight / 2.0);
    below = place - kLineHeight / 2.0;
  }
  std::string data;
  for (size_t i = 0; i < dots.size(); ++i) {
    const auto& [group, look, deviation] = dots[i];
    const double x = kLeft + kPlotWidth + kLead;
    canvas.Add(fmt::format(
        "set arrow from {},{} to screen {},{} nohead lw 0.75 lc rgb '{}'\n",
        group->uploaded_mb, group->last_ten.mean, canvas.X(x - 4),
        canvas.Y(places[i]), look->colour));
    canvas.Text(x, places[i], look->title, "left");
    data +=
        fmt::format("{} {} {} {}\n", group->uploaded_mb, group->last_ten.mean,
                    deviation, ColourNumber(look->colour));
  }
  canvas.Add(fmt::format(
      "$dots << EOD\n{}EOD\nplot NaN, \\\n"
      "  $dots using 1:($2-$3):(0):(2*$3):4 with vectors nohead lw 1.5 lc rgb "
      "variable, \\\n  $dots using 1:2:4 with points pt 7 ps 1 lc rgb "
      "variable\n",
      data));
  Picture picture = canvas.Finish(
      Name(setting, cell, Numbered("trade-off", number)),
      Title(setting, cell,
            fmt::format("test {} in the last ten rounds against the upload of "
                        "a run",
                        setting.metric)));
  picture.wide = true;
  return picture;
}

std::optional<Picture> AblationPicture(const Setting& setting,
                                       const Cell& cell) {
  const auto masks_afterwards = [](const Group& group) {
    return group.method == "fedavg-sm" || group.method == "fedavg-sms";
  };
  if (std::ranges::none_of(cell.groups, [&](const Group& group) {
        return group.ablation || masks_afterwards(group);
      })) {
    return std::nullopt;
  }
  // One digit less than in tables: bars are for the eye.
  const int digits = UnitOf(setting.metric).digits - 1;
  std::vector<Bar> bars;
  double low = 100, high = 0;
  for (const std::string_view method :
       {"fedavg", "signsgd", "fedmrn", "fedavg-sm", "fedmrns", "fedavg-sms"}) {
    for (const Group& group : cell.groups) {
      if (group.method != method || std::isnan(group.best.mean)) continue;
      if (!group.standard && !group.ablation) continue;
      bars.push_back(ScoreBar(group, digits));
      low = std::min(low, group.best.mean);
      high = std::max(high, group.best.mean + bars.back().std);
    }
  }
  // From zero on, the differences would be too small to see.
  const double step = high - low > 20 ? 10 : 5;
  const double from =
      std::max(0.0, step * (std::ceil((low - 0.3 * (high - low)) / step) - 1));
  return BarPlot(
      Name(setting, cell, "ablation"),
      Title(
          setting, cell,
          fmt::format("test {} with parts of FedMRN left out", setting.metric)),
      {fmt::format(
           "{}{}", ScoreLabel(setting),
           from > 0 ? fmt::format(" (axis starts at {:.0f})", from) : ""),
       from, high},
      bars);
}

std::optional<Picture> NoisePicture(const Setting& setting, const Cell& cell,
                                    std::string_view method) {
  struct Distribution {
    std::string_view name, colour, dashes;
  };
  constexpr Distribution kDistributions[] = {
      {"uniform", "#d55e00", "solid"},
      {"gaussian", "#0072b2", "'-'"},
      {"bernoulli", "#2e9b5b", "'.'"},
  };
  std::vector<const Group*> groups;
  bool varied = false;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const Group& group : cell.groups) {
    if (group.method != method || !(group.standard || group.noise_variant)) {
      continue;
    }
    const double magnitude = group.runs.front()->Number("method.magnitude", 0);
    if (magnitude <= 0 || std::isnan(group.best.mean)) continue;
    groups.push_back(&group);
    varied |= group.noise_variant;
    least = std::min(least, magnitude);
    most = std::max(most, magnitude);
  }
  if (!varied) return std::nullopt;
  std::ranges::sort(groups, {}, [](const Group* group) {
    return group->runs.front()->Number("method.magnitude", 0);
  });
  const double low_x = least / 1.3, high_x = most * 1.3;
  std::vector<Line> lines;
  if (const Group* fedavg = cell.Standard("fedavg")) {
    lines.push_back({{"FedAvg", kInk, "'-'", 1.5},
                     fmt::format("{} {mean}\n{} {mean}\n", low_x, high_x,
                                 fmt::arg("mean", fedavg->best.mean))});
  }
  for (const Distribution& distribution : kDistributions) {
    Line line{{std::string(distribution.name), std::string(distribution.colour),
               std::string(distribution.dashes), 2.5},
              "",
              true};
    for (const Group* group : groups) {
      const SavedRun& run = *group->runs.front();
      if (run.Get("method.noise") != distribution.name) continue;
      line.points += fmt::format(
          "{} {} {}\n", run.Number("method.magnitude", 0), group->best.mean,
          std::isfinite(group->best.std) ? group->best.std : 0.0);
    }
    if (!line.points.empty()) lines.push_back(std::move(line));
  }
  // Doubling steps, as the paper's; their own numbers as tics.
  std::string ranges = fmt::format(
      "set logscale x\nset xrange [{}:{}]\nset offsets graph 0, graph 0, graph "
      "0.08, graph 0.08\nset xtics (",
      low_x, high_x);
  double previous = 0;
  for (const Group* group : groups) {
    const double magnitude = group->runs.front()->Number("method.magnitude", 0);
    if (magnitude < 1.4 * previous) continue;  // their texts would overlap
    ranges += fmt::format("{}'{:g}' {:g}", previous > 0 ? ", " : "", magnitude,
                          magnitude);
    previous = magnitude;
  }
  ranges += ")\n";
  return LinePlot(
      Name(setting, cell, fmt::format("noise-{}", method)),
      Title(setting, cell,
            fmt::format("test {} of {} against the noise's magnitude",
                        setting.metric, MethodTitle(method))),
      "magnitude of the noise (log scale)", ScoreLabel(setting), ranges, lines);
}

Picture TrainTimePicture(const Setting& setting) {
  return TimePicture(setting, "train-time", "local training of a client, s", 2,
                     [](const Cost& cost) { return cost.train_s; });
}

Picture CompressionTimePicture(const Setting& setting) {
  return TimePicture(setting, "compression-time",
                     "compression of its update, ms", 2,
                     [](const Cost& cost) { return 1000 * cost.encode_s; });
}

Picture UploadPicture(const Setting& setting) {
  constexpr std::string_view kPayload = "#7f93ad", kPlain = "#c28e3a",
                             kHeader = kInk;
  std::vector<Bar> bars;
  double most = 0, most_compressed = 0;
  for (const Setting::Row& row : setting.Rows()) {
    const Cost cost = CostOf(row.runs);
    if (!std::isfinite(cost.bits())) continue;
    bars.push_back({row.label,
                    {kPayload, kPlain, kHeader},
                    {cost.payload_bits, cost.plain_bits, cost.header_bits},
                    fmt::format("{:.3f}", cost.bits())});
    most = std::max(most, cost.bits());
    // Beside whole floats nothing could be seen of the rest.
    if (cost.bits() < 8) {
      most_compressed = std::max(most_compressed, cost.bits());
    }
  }
  return BarPlot(fmt::format("{}-upload", setting.slug),
                 fmt::format("{}: upload in bits per parameter", setting.name),
                 {"upload, bits per parameter",
                  0,
                  most_compressed > 0 ? most_compressed : most,
                  {{"payload", std::string(kPayload), ""},
                   {"dense values", std::string(kPlain), ""},
                   {"header and checksum", std::string(kHeader), ""}}},
                 bars);
}

}  // namespace fedmrn::report
