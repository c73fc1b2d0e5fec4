#include "fedmrn/report/plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "fedmrn/report/paper.h"
#include "fedmrn/report/text.h"

namespace fedmrn {
namespace {

// Scaled to a phone's width the text is still as high as 10 pixels.
constexpr int kWidth = 480, kLineHeight = 20;

std::string Name(const Setting& setting, const Cell& cell,
                 std::string_view what) {
  // The paper has one partition of a kind; others are told apart by number.
  return cell.paper ? fmt::format("{}-{}-{}", setting.slug, cell.kind, what)
                    : fmt::format("{}-partition{}-{}", setting.slug,
                                  &cell - setting.cells.data() + 1, what);
}

std::string Title(const Setting& setting, const Cell& cell,
                  std::string_view what) {
  return fmt::format("{}, {}: {}", setting.name, cell.name, what);
}

// Room on the left for the axis' texts, on the right for the last tic's.
std::string Frame(double left, double right, double top, double bottom,
                  double height) {
  return fmt::format(
      "set border 3 lc rgb '{axis}'\n"
      "set tics nomirror scale 0.5 textcolor rgb '{ink}'\n"
      "set grid lc rgb '{grid}' lt 1 lw 1\n"
      "set style fill solid 1 noborder\n"
      "set pointintervalbox 0\n"
      "set lmargin at screen {}\n"
      "set rmargin at screen {}\n"
      "set tmargin at screen {}\n"
      "set bmargin at screen {}\n",
      left / kWidth, 1 - right / kWidth, 1 - top / height, bottom / height,
      fmt::arg("axis", kAxis), fmt::arg("ink", kInk), fmt::arg("grid", kGrid));
}

std::string AxisLabels(std::string_view x, std::string_view y) {
  return fmt::format(
      "set xlabel {} textcolor rgb '{}'\nset ylabel {} textcolor rgb '{}' "
      "offset 1\n",
      GnuplotText(x), kInk, GnuplotText(y), kInk);
}

// A line of a plot of lines, with its points.
struct Line {
  std::string title;
  std::string colour, dashes;
  double width = 2;
  std::string points;  // "x y" or "x y std" a line
  bool marks = false;  // a dot and a whisker on every point
};

// A plot of lines, its key below in columns.
Picture LinePlot(std::string name, std::string title, std::string_view x_label,
                 const std::string& ranges, const std::vector<Line>& lines) {
  constexpr double kPlot = 250, kTop = 14, kAxisText = 52;
  size_t longest = 0;
  for (const Line& line : lines) longest = std::max(longest, line.title.size());
  // A letter is about 7 pixels wide, a sample of the line 40.
  const size_t columns = std::clamp<size_t>(
      (kWidth - 20) / (7 * longest + 50), 1, std::max<size_t>(1, lines.size()));
  const size_t key_rows = (lines.size() + columns - 1) / columns;
  const double bottom = kAxisText + static_cast<double>(key_rows) * kLineHeight;
  const double height = kTop + kPlot + bottom;
  std::string script = Frame(62, 18, kTop, bottom, height);
  script += AxisLabels(x_label, "test accuracy, %");
  script += fmt::format(
      "set key at screen 0.5,{} center bottom horizontal maxcols {} samplen 2 "
      "height 0 width 0 spacing 1 textcolor rgb '{}'\n{}",
      4 / height, columns, kInk, ranges);
  for (size_t i = 0; i < lines.size(); ++i) {
    script += fmt::format("$d{} << EOD\n{}EOD\n", i, lines[i].points);
  }
  script += "plot ";
  for (size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    script += fmt::format(
        "{}$d{} using 1:2 with lines lw {} lc rgb '{}' dt {} title {}",
        i == 0 ? "" : ", \\\n  ", i, line.width, line.colour, line.dashes,
        GnuplotText(line.title));
    if (line.marks) {
      script += fmt::format(
          ", \\\n  $d{} using 1:2:3 with yerrorbars pt 7 ps 0.6 lc rgb '{}' "
          "notitle",
          i, line.colour);
    }
  }
  return {std::move(name), std::move(title), kWidth, static_cast<int>(height),
          script + "\n"};
}

// Accuracy by round, and the upload up to it in MB: means of the seeds.
struct Point {
  double round, accuracy, megabytes;
};

std::vector<Point> CurveOf(const Group& group) {
  std::map<uint32_t, Point> sums;
  std::map<uint32_t, size_t> counts;
  for (const SavedRun* run : group.runs) {
    double megabytes = 0;
    for (const RoundRow& row : run->rows) {
      megabytes += static_cast<double>(row.uplink_bytes) / 1e6;
      if (std::isnan(row.accuracy)) continue;
      Point& sum = sums[row.round];
      sum.accuracy += 100 * row.accuracy;
      sum.megabytes += megabytes;
      ++counts[row.round];
    }
  }
  std::vector<Point> curve;
  for (const auto& [round, sum] : sums) {
    // A round that only some seeds have would be a jump in the mean.
    if (counts[round] != group.runs.size()) continue;
    const double count = static_cast<double>(counts[round]);
    curve.push_back({static_cast<double>(round), sum.accuracy / count,
                     sum.megabytes / count});
  }
  return curve;
}

// The range that shows what differs: the climb of the first rounds may begin
// below it.
std::string AccuracyRange(const std::vector<std::vector<Point>>& curves) {
  double low = 100, high = 0;
  for (const auto& curve : curves) {
    std::vector<double> values;
    for (const Point& point : curve) values.push_back(point.accuracy);
    if (values.empty()) continue;
    std::ranges::sort(values);
    low = std::min(low, values[values.size() / 4]);
    high = std::max(high, values.back());
  }
  if (high < low) return "set yrange [0:100]\n";
  const double room = std::max(1.0, high - low);
  return fmt::format("set yrange [{}:{}]\n",
                     std::max(0.0, std::floor(low - 0.6 * room)),
                     std::min(100.0, std::ceil(high + 0.05 * room)));
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
  std::vector<std::pair<std::string, std::string_view>> key;  // name, colour
};

// Horizontal bars: their labels need no turned head, on a phone either.
Picture BarPlot(std::string name, std::string title, const BarAxis& axis,
                const std::vector<Bar>& bars) {
  constexpr double kBar = 26, kTop = 8, kAxisText = 48;
  size_t longest = 0, text = 0;
  for (const Bar& bar : bars) {
    longest = std::max(longest, bar.label.size());
    text = std::max(text, bar.text.size());
  }
  const double left = std::clamp(7.4 * static_cast<double>(longest) + 16, 70.0,
                                 240.0),
               right = 7.4 * static_cast<double>(text) + 10;
  const double bottom = kAxisText + (axis.key.empty() ? 0 : kLineHeight);
  const double height = kTop + kBar * static_cast<double>(bars.size()) + bottom;
  std::string script = Frame(left, right, kTop, bottom, height);
  script += AxisLabels(axis.label, "");
  script += fmt::format(
      "unset grid\nset grid x lc rgb '{}' lt 1 lw 1\n"
      "set border 2 lc rgb '{}'\n"
      "set xtics scale 0 autofreq\nset ytics scale 0 (",
      kGrid, kAxis);
  for (size_t i = 0; i < bars.size(); ++i) {
    script += fmt::format("{}{} {}", i == 0 ? "" : ", ",
                          GnuplotText(bars[i].label), i);
  }
  script +=
      fmt::format(")\nset yrange [{}:-0.5]\nset xrange [{}:{}]\n",
                  static_cast<double>(bars.size()) - 0.5, axis.from, axis.to);
  if (axis.key.empty()) {
    script += "unset key\n";
  } else {
    script += fmt::format(
        "set key at screen 0.5,{} center bottom horizontal maxcols {} samplen "
        "1 textcolor rgb '{}'\n",
        4 / height, axis.key.size(), kInk);
  }
  script += "$parts << EOD\n";
  for (size_t i = 0; i < bars.size(); ++i) {
    double from = axis.from;
    double at = 0;
    for (size_t part = 0; part < bars[i].parts.size(); ++part) {
      at += bars[i].parts[part];
      const double to = std::clamp(at, axis.from, axis.to);
      script += fmt::format(
          "{} {} {} {} {} {}\n", from, to, i, static_cast<double>(i) - 0.34,
          static_cast<double>(i) + 0.34, ColourNumber(bars[i].colours[part]));
      from = to;
    }
  }
  script += "EOD\n$ends << EOD\n";
  for (size_t i = 0; i < bars.size(); ++i) {
    script += fmt::format("{} {} {}\n", bars[i].length(), i,
                          bars[i].std > 0 ? bars[i].std : 0);
  }
  script += "EOD\n";
  for (size_t i = 0; i < bars.size(); ++i) {
    const bool cut = bars[i].length() > axis.to;
    // The whisker, if there is one, ends before the text begins.
    const double end = std::min(
        axis.to, bars[i].length() + (bars[i].std > 0 ? bars[i].std : 0));
    script += fmt::format(
        "set label {} at {},{} left offset 0.6,0 textcolor rgb '{}' front\n",
        GnuplotText(bars[i].text + (cut ? " →" : "")), end, i, kInk);
  }
  script +=
      "plot $parts using 1:3:1:2:4:5:6 with boxxyerror lc rgb variable "
      "notitle";
  const bool whiskers =
      std::ranges::any_of(bars, [](const Bar& bar) { return bar.std > 0; });
  if (whiskers) {
    script += fmt::format(
        ", \\\n  $ends using 1:2:3 with xerrorbars pt -1 lw 1.5 lc rgb '{}' "
        "notitle",
        kAxis);
  }
  for (const auto& [part, colour] : axis.key) {
    script += fmt::format(", \\\n  NaN with boxes lc rgb '{}' title {}", colour,
                          GnuplotText(part));
  }
  return {std::move(name), std::move(title), kWidth, static_cast<int>(height),
          script + "\n"};
}

Bar AccuracyBar(const Group& group) {
  const bool several = std::isfinite(group.best.std);
  return {group.label,
          {StyleOf(group.method).colour},
          {group.best.mean},
          several
              ? fmt::format("{:.1f} ± {:.1f}", group.best.mean, group.best.std)
              : fmt::format("{:.1f}", group.best.mean),
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
                 {label, 0, most > 0 ? most : 1, {}}, bars);
}

}  // namespace

Picture CurvePicture(const Setting& setting, const Cell& cell,
                     Against against) {
  const bool upload = against == Against::kUpload;
  std::vector<std::vector<Point>> curves;
  std::vector<Line> lines;
  std::map<std::string, int> variants;
  for (const Group* group : cell.Compared()) {
    const MethodStyle& style = StyleOf(group->method);
    curves.push_back(CurveOf(*group));
    Line line{group->label, std::string(style.colour),
              std::string(style.dashes), style.line_width, ""};
    // Variants of a method share its colour.
    if (variants[group->method]++ > 0) line.dashes = "'_'";
    for (const Point& point : curves.back()) {
      line.points += fmt::format(
          "{} {}\n", upload ? point.megabytes : point.round, point.accuracy);
    }
    if (!line.points.empty()) lines.push_back(std::move(line));
  }
  std::string ranges = AccuracyRange(curves);
  ranges += upload ? "set logscale x\nset format x '%g'\n"
                   : fmt::format("set xrange [0:{}]\n", setting.rounds);
  return LinePlot(Name(setting, cell, upload ? "upload-curve" : "round-curve"),
                  Title(setting, cell,
                        upload ? "test accuracy against uploaded megabytes"
                               : "test accuracy against rounds"),
                  upload ? "uploaded by all clients, MB (log scale)" : "round",
                  ranges, lines);
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
  std::vector<Bar> bars;
  double low = 100, high = 0;
  for (const std::string_view method :
       {"fedavg", "signsgd", "fedmrn", "fedavg-sm", "fedmrns", "fedavg-sms"}) {
    for (const Group& group : cell.groups) {
      if (group.method != method || std::isnan(group.best.mean)) continue;
      if (!group.standard && !group.ablation) continue;
      bars.push_back(AccuracyBar(group));
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
      Title(setting, cell, "test accuracy with parts of FedMRN left out"),
      {fmt::format(
           "test accuracy, %{}",
           from > 0 ? fmt::format(" (axis starts at {:.0f})", from) : ""),
       from,
       high,
       {}},
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
    lines.push_back({"FedAvg", kInk, "'-'", 1.5,
                     fmt::format("{} {mean}\n{} {mean}\n", low_x, high_x,
                                 fmt::arg("mean", fedavg->best.mean))});
  }
  for (const Distribution& distribution : kDistributions) {
    Line line{std::string(distribution.name),
              std::string(distribution.colour),
              std::string(distribution.dashes),
              2.5,
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
            fmt::format("test accuracy of {} against the noise's magnitude",
                        MethodTitle(method))),
      "magnitude of the noise (log scale)", ranges, lines);
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
  constexpr std::string_view kPayload = "#7f93ad", kDense = "#c28e3a",
                             kHeader = kInk;
  std::vector<Bar> bars;
  double most = 0, most_compressed = 0;
  for (const Setting::Row& row : setting.Rows()) {
    const Cost cost = CostOf(row.runs);
    if (!std::isfinite(cost.bits())) continue;
    bars.push_back({row.label,
                    {kPayload, kDense, kHeader},
                    {cost.payload_bits, cost.dense_bits, cost.header_bits},
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
                  {{"payload", kPayload},
                   {"dense values", kDense},
                   {"header, checksum", kHeader}}},
                 bars);
}

}  // namespace fedmrn
