// Pictures by gnuplot. A script draws in the colours below, on white; inlined
// in a page these become the page's own, so that one script serves a file, a
// light page and a dark one.
#pragma once

#include <string>
#include <string_view>

#include "fedmrn/base/result.h"

namespace fedmrn::report {

inline constexpr char kInk[] = "#222222";    // text, what stands out
inline constexpr char kMuted[] = "#666666";  // text of less weight
inline constexpr char kAxis[] = "#888888";
inline constexpr char kGrid[] = "#e4e4e4";

struct Picture {
  std::string name;   // of its file, and in ids of the page: a-z, 0-9 and -
  std::string title;  // for those who cannot see it
  int width = 0;      // pixels; 14 of them are the height of text
  int height = 0;
  // Without terminal and output. May use point_radius, in pixels, of a point
  // of size 1.
  std::string script;
  // Too wide for a phone: is moved sideways rather than made small.
  bool wide = false;
};

enum class PictureFormat { kSvg, kPng };

// The bytes of the picture's file. Fails with a sentence if gnuplot is missing
// or cannot draw it.
Result<std::string> Draw(const Picture& picture, PictureFormat format);

// Whether the name ends in .svg or .png.
bool IsPictureName(std::string_view path);
// To a file of such a name, in the format that it tells.
Status WritePicture(const Picture& picture, const std::string& path);

// 1, 2 or 5 times a power of ten: at most about four steps in `range`.
double TicStep(double range);

// An SVG from Draw as an element of an HTML page that defines --ink, --muted,
// --axis and --grid.
std::string InlineSvg(std::string_view svg, const Picture& picture);

}  // namespace fedmrn::report
