#include "fedmrn/report/gnuplot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fedmrn/base/files.h"
#include "fedmrn/base/process.h"
#include "fedmrn/report/text.h"

namespace fedmrn::report {
namespace {

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// "#e4e4e4" in the two ways in which gnuplot writes it.
void ReplaceColour(std::string& text, std::string_view colour,
                   std::string_view to) {
  const auto part = [&](size_t at) {
    return std::stoi(std::string(colour.substr(at, 2)), nullptr, 16);
  };
  const int r = part(1), g = part(3), b = part(5);
  ReplaceAll(text, fmt::format("rgb({:3}, {:3}, {:3})", r, g, b), to);
  ReplaceAll(text, fmt::format("rgb({},{},{})", r, g, b), to);
}

std::string FirstLine(std::string_view text) {
  // gnuplot repeats the script's line with a ^ below it, then says why.
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t first = line.find_first_not_of(" \t");
    if (line.find_first_not_of(" \t^") != line.npos) {
      return std::string(line.substr(first));
    }
  }
  return "it gives no reason";
}

}  // namespace

Result<std::string> Draw(const Picture& picture, PictureFormat format) {
  const bool svg = format == PictureFormat::kSvg;
  const std::string terminal =
      svg ? fmt::format(
                "svg size {},{} font 'sans-serif,14' background "
                "'#ffffff' noenhanced",
                picture.width, picture.height)
          : fmt::format(
                "pngcairo size {},{} font 'sans-serif,10.5' fontscale "
                "2 linewidth 2 pointscale 2 noenhanced",
                2 * picture.width, 2 * picture.height);
  Result<Finished> drawn = RunProgram(
      {"gnuplot"}, fmt::format("set terminal {}\npoint_radius = {}\n{}",
                               terminal, svg ? 5.25 : 3.075, picture.script));
  if (!drawn && drawn.error().code == ErrorCode::kUnavailable) {
    return Error{ErrorCode::kFailed,
                 "gnuplot draws the pictures and is not installed (Debian: apt "
                 "install gnuplot-nox)"};
  }
  if (!drawn) return drawn.error();
  if (drawn->exit_code != 0 || drawn->out.empty()) {
    return Error{
        ErrorCode::kFailed,
        fmt::format("gnuplot could not draw {} (exit code {}): {}",
                    picture.name, drawn->exit_code, FirstLine(drawn->err))};
  }
  return std::move(drawn->out);
}

bool IsPictureName(std::string_view path) {
  return path.ends_with(".svg") || path.ends_with(".png");
}

Status WritePicture(const Picture& picture, const std::string& path) {
  const Result<std::string> drawn =
      Draw(picture,
           path.ends_with(".png") ? PictureFormat::kPng : PictureFormat::kSvg);
  if (!drawn) return drawn.error();
  return WriteFileAtomically(path, AsBytes(*drawn));
}

double TicStep(double range) {
  if (!(range > 0)) return 1;
  const double unit = std::pow(10, std::floor(std::log10(range / 4)));
  for (const int times : {1, 2, 5}) {
    if (range <= 4 * times * unit) return times * unit;
  }
  return 10 * unit;
}

std::string InlineSvg(std::string_view svg, const Picture& picture) {
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{}-title\""
      "{}>\n<title id=\"{}-title\">{}</title>\n",
      picture.width, picture.height, picture.name,
      // Its text need not become larger than the page's.
      picture.wide ? fmt::format(" class=\"wide\" style=\"max-width:{}px\"",
                                 picture.width * 6 / 5)
                   : "",
      picture.name, HtmlText(picture.title));
  // From the canvas on, without gnuplot's own titles and white ground, and
  // without the empty groups that are half of its lines.
  svg.remove_prefix(
      std::min(svg.find("<g id=\"gnuplot_canvas\">"), svg.size()));
  std::string body;
  std::string_view held;  // a line that opens a group, empty so far
  while (!svg.empty()) {
    const std::string_view line = svg.substr(0, svg.find('\n'));
    svg.remove_prefix(std::min(svg.size(), line.size() + 1));
    if (line.empty()) continue;
    if (!held.empty() && line == "</g>") {
      held = {};
      continue;
    }
    if (!held.empty()) body.append(held) += '\n';
    held = {};
    if (line.starts_with("<rect x=\"0\" y=\"0\"")) continue;
    if (line.starts_with("<g fill=\"none\"")) {
      held = line;
      continue;
    }
    const size_t title = line.find("<title>");
    body.append(line.substr(0, title)) += '\n';
  }
  // Ids are the page's, so each picture needs its own.
  for (const char* id : {"id='", "id=\"", "xlink:href='#", "url(#"}) {
    ReplaceAll(body, id, id + picture.name + "-");
  }
  ReplaceColour(body, kInk, "var(--ink)");
  ReplaceColour(body, kMuted, "var(--muted)");
  ReplaceColour(body, kAxis, "var(--axis)");
  ReplaceColour(body, kGrid, "var(--grid)");
  // The stylesheet gives the page's own font.
  ReplaceAll(body, " font-family=\"sans-serif\"", "");
  return out + body;
}

}  // namespace fedmrn::report
