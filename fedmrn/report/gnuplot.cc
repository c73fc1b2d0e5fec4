#include "fedmrn/report/gnuplot.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "fedmrn/base/files.h"
#include "fedmrn/report/text.h"

namespace fedmrn::report {
namespace {

// A folder that goes away with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code ignored;
    path_ = (std::filesystem::temp_directory_path(ignored) / "fedmrn-XXXXXX")
                .string();
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

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
    if (line.find_first_not_of(" \t^") != line.npos) return std::string(line);
  }
  return "it gives no reason";
}

}  // namespace

Result<std::string> Draw(const Picture& picture, PictureFormat format) {
  if (std::system("command -v gnuplot >/dev/null 2>&1") != 0) {
    return Error{ErrorCode::kUnavailable,
                 "gnuplot draws the pictures and is not installed (Debian: apt "
                 "install gnuplot-nox)"};
  }
  const TemporaryFolder folder;
  if (folder.path().empty()) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("cannot make a temporary folder: {}",
                             std::strerror(errno))};
  }
  const std::string script = folder.path() + "/script",
                    out = folder.path() + "/picture",
                    errors = folder.path() + "/errors";
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
  const Status written = WriteFileAtomically(
      script,
      AsBytes(fmt::format(
          "set terminal {}\nset output {}\npoint_radius = {}\n{}", terminal,
          GnuplotText(out), svg ? 5.25 : 3.075, picture.script)));
  if (!written) return written.error();
  // Not through a pipe: writing to a gnuplot that has given up is a signal.
  const int code = std::system(fmt::format("gnuplot {} >/dev/null 2>{}",
                                           ShellWord(script), ShellWord(errors))
                                   .c_str());
  const Result<Bytes> bytes = ReadFile(out);
  if (code != 0 || !bytes || bytes->empty()) {
    const Result<Bytes> said = ReadFile(errors);
    return Error{ErrorCode::kUnavailable,
                 fmt::format("gnuplot could not draw {}: {}", picture.name,
                             FirstLine(said ? AsText(*said) : ""))};
  }
  return std::string(AsText(*bytes));
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

std::string InlineSvg(std::string_view svg, const Picture& picture) {
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{}-title\""
      "{}>\n<title id=\"{}-title\">{}</title>\n",
      picture.width, picture.height, picture.name,
      picture.wide ? " class=\"wide\"" : "", picture.name,
      HtmlText(picture.title));
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
