// Plots of lines and of bars, whatever they show.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/report/gnuplot.h"

namespace fedmrn::report {

// In pixels of a picture. Scaled to a phone's width the text is still as high
// as 10 pixels; a letter is about so wide.
inline constexpr int kPlotWidth = 480, kLineHeight = 20;
inline constexpr double kLetter = 8.6;

// Where things stand in a picture: gnuplot counts from the bottom, in parts.
class Canvas {
 public:
  Canvas(double left, double right, double top, double bottom, double height,
         int width = kPlotWidth);

  double X(double pixels) const { return pixels / width_; }
  double Y(double pixels) const { return 1 - pixels / height_; }
  void Add(const std::string& script) { script_ += script; }
  // `place`: left, center or right, and rotate.
  void Text(double x, double y, std::string_view text, std::string_view place);
  Picture Finish(std::string name, std::string title);

 private:
  int width_;
  double height_;
  std::string script_;
};

// A line of the key below a plot.
struct KeyEntry {
  std::string title;
  std::string_view colour, dashes;  // no dashes: a box instead of a line
};

struct Line {
  KeyEntry key;
  std::string points;  // "x y deviation" a line
  bool band = false;   // the deviation around it, shaded
  bool marks = false;  // a dot and a whisker on every point
};

struct Axis {
  std::string label, script;  // gnuplot's range and tics
};

Picture LinePlot(std::string name, std::string title, const Axis& x,
                 const Axis& y, const std::vector<Line>& lines);

struct Bar {
  std::string label;
  std::vector<std::string_view> colours;  // of its parts
  std::vector<double> parts;
  std::string text;  // behind it
  double std = 0;    // a whisker at its end, if above 0
};

struct BarAxis {
  std::string label;
  double from = 0;
  double to = 0;  // longer bars are torn off there
  std::vector<KeyEntry> key = {};
};

// Horizontal: labels need no turned head, on a phone either.
Picture BarPlot(std::string name, std::string title, const BarAxis& axis,
                const std::vector<Bar>& bars);

// "#d55e00" as gnuplot's number.
unsigned ColourNumber(std::string_view colour);

}  // namespace fedmrn::report
