// Pictures, drawn by gnuplot.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fedmrn::cli {

// Whether the name ends in .svg or .png.
bool IsPicture(std::string_view path);

// Text in gnuplot's single quotes.
std::string GnuplotText(std::string_view text);

// The script's first lines: what to write, and where. In pixels.
std::string GnuplotHead(const std::string& path, double width, double height);

// What stands in the way of a picture at `path`, if anything: no gnuplot, a
// folder that is missing. Leaves an empty file there.
std::optional<std::string> PictureProblem(const std::string& path);

// Runs the script, which begins with GnuplotHead(path, ...). Returns what went
// wrong, if anything.
std::optional<std::string> DrawPicture(const std::string& script,
                                       const std::string& path);

}  // namespace fedmrn::cli
