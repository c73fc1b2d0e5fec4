#include "fedmrn/report/canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "fedmrn/report/text.h"

namespace fedmrn::report {
namespace {

// A key below the plot that fills its lines as words do. gnuplot's own knows
// columns only, as wide as the longest title.
class Key {
 public:
  explicit Key(std::vector<KeyEntry> entries) : entries_(std::move(entries)) {
    double x = kLeft;
    for (const KeyEntry& entry : entries_) {
      // A letter more: of wide ones a title may be longer.
      const double width =
          kSample + kLetter * static_cast<double>(entry.title.size() + 1);
      if (x > kLeft && x + width > kPlotWidth) {
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
            "set arrow from screen {},{} to screen {},{} nohead lw 2 lc rgb "
            "'{}' dt {}\n",
            canvas.X(x - 6), canvas.Y(y), canvas.X(x + 24), canvas.Y(y),
            entry.colour, entry.dashes));
      }
      canvas.Text(x + kSample, y, entry.title, "left");
    }
  }

 private:
  static constexpr double kLeft = 14, kSample = 30, kGap = 10;
  struct Place {
    double x;
    int line;
  };
  std::vector<KeyEntry> entries_;
  std::vector<Place> places_;
  int lines_ = 0;
};

constexpr double kHalfBar = 0.34;  // of the room for one

// One whose end cannot be shown: a slanting gap, and an end torn off.
std::string TornPart(double from, double to, double length, size_t bar,
                     std::string_view colour) {
  const double top = static_cast<double>(bar) - kHalfBar,
               bottom = static_cast<double>(bar) + kHalfBar;
  const double slant = 0.04 * length, gap = 0.045 * length,
               break_at = std::max(from, to - 0.22 * length);
  std::vector<std::pair<double, double>> left = {{from, top},
                                                 {break_at + slant, top},
                                                 {break_at, bottom},
                                                 {from, bottom}},
                                         right = {
                                             {break_at + slant + gap, top}};
  constexpr int kTeeth = 3;
  for (int i = 0; i <= 2 * kTeeth; ++i) {
    right.emplace_back(i % 2 == 0 ? to : to - slant,
                       top + (bottom - top) * i / (2 * kTeeth));
  }
  right.emplace_back(break_at + gap, bottom);
  std::string script;
  for (auto& corners : {left, right}) {
    script += "set object polygon";
    for (size_t i = 0; i <= corners.size(); ++i) {
      const auto& [x, y] = corners[i % corners.size()];
      script += fmt::format("{} {},{}", i == 0 ? " from" : " to", x, y);
    }
    script += fmt::format(" fc rgb '{}' fs solid 1 noborder\n", colour);
  }
  return script;
}

}  // namespace

Canvas::Canvas(double left, double right, double top, double bottom,
               double height, int width)
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
      fmt::arg("axis", kAxis), fmt::arg("ink", kInk), fmt::arg("grid", kGrid));
}

void Canvas::Text(double x, double y, std::string_view text,
                  std::string_view place) {
  Add(fmt::format("set label {} at screen {},{} {} textcolor rgb '{}'\n",
                  GnuplotText(text), X(x), Y(y), place, kInk));
}

Picture Canvas::Finish(std::string name, std::string title) {
  return {std::move(name), std::move(title), width_, static_cast<int>(height_),
          std::move(script_)};
}

unsigned ColourNumber(std::string_view colour) {
  return static_cast<unsigned>(
      std::stoul(std::string(colour.substr(1)), nullptr, 16));
}

Picture LinePlot(std::string name, std::string title, const Axis& x,
                 const Axis& y, const std::vector<Line>& lines) {
  constexpr double kPlot = 250, kLeft = 68, kRight = 18, kTop = 14, kTics = 54;
  std::vector<KeyEntry> entries;
  for (const Line& line : lines) entries.push_back(line.key);
  const Key key(std::move(entries));
  Canvas canvas(kLeft, kRight, kTop, kTics + key.height(),
                kTop + kPlot + kTics + key.height());
  canvas.Text((kLeft + kPlotWidth - kRight) / 2, kTop + kPlot + 41, x.label,
              "center");
  canvas.Text(12, kTop + kPlot / 2, y.label, "center rotate");
  key.Draw(canvas, kTop + kPlot + kTics);
  canvas.Add(x.script + y.script);
  for (size_t i = 0; i < lines.size(); ++i) {
    canvas.Add(fmt::format("$d{} << EOD\n{}EOD\n", i, lines[i].points));
  }
  // Even where there is no line, the empty axes are a plot.
  canvas.Add("plot NaN");
  // Bands first, so that they hide no line; gnuplot's colours begin with how
  // much shines through.
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].band) continue;
    canvas.Add(fmt::format(
        ", \\\n  $d{} using 1:($2-$3):($2+$3) with filledcurves lc rgb '#d0{}'",
        i, lines[i].key.colour.substr(1)));
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    canvas.Add(
        fmt::format(", \\\n  $d{} using 1:2 with lines lw 2 lc rgb '{}' dt {}",
                    i, line.key.colour, line.key.dashes));
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
  const int width = std::max(kPlotWidth, static_cast<int>(left + right + 130));
  const Key key(axis.key);
  Canvas canvas(left, right, kTop, kTics + key.height(),
                kTop + kBar * count + kTics + key.height(), width);
  // Below the bars, but within the picture.
  const double half = kLetter * static_cast<double>(axis.label.size()) / 2;
  canvas.Text(std::max(half, std::min((left + width - right) / 2,
                                      static_cast<double>(width) - half)),
              kTop + kBar * count + 41, axis.label, "center");
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
  for (size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    double from = axis.from, sum = 0;
    for (size_t part = 0; part < bar.parts.size() && from < axis.to; ++part) {
      sum += bar.parts[part];
      if (sum > axis.to) {
        script +=
            TornPart(from, axis.to, axis.to - axis.from, i, bar.colours[part]);
        from = axis.to;
        continue;
      }
      const double to = std::max(sum, axis.from),
                   middle = static_cast<double>(i);
      parts += fmt::format("{} {} {} {} {} {}\n", from, to, middle,
                           middle - kHalfBar, middle + kHalfBar,
                           ColourNumber(bar.colours[part]));
      from = to;
    }
    if (bar.std > 0) whiskers += fmt::format("{} {} {}\n", sum, i, bar.std);
    script += fmt::format(
        "set label {} at {},{} left offset 0.6,0 textcolor rgb '{}' front\n",
        GnuplotText(bar.text), std::min(axis.to, sum + bar.std), i, kInk);
  }
  script += fmt::format("$parts << EOD\n{}EOD\n$whiskers << EOD\n{}EOD\n",
                        parts, whiskers);
  // Where all are torn off, the axes alone are a plot.
  script += "plot NaN";
  if (!parts.empty()) {
    script +=
        ", \\\n  $parts using 1:3:1:2:4:5:6 with boxxyerror lc rgb variable";
  }
  if (!whiskers.empty()) {
    script += fmt::format(
        ", \\\n  $whiskers using ($1-$3):2:(2*$3):(0) with vectors nohead lw "
        "1.5 lc rgb '{}'",
        kMuted);
  }
  canvas.Add(script + "\n");
  return canvas.Finish(std::move(name), std::move(title));
}

}  // namespace fedmrn::report
