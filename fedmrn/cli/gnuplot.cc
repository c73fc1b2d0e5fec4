#include "fedmrn/cli/gnuplot.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fedmrn::cli {
namespace {

bool IsPng(std::string_view path) { return path.ends_with(".png"); }

}  // namespace

bool IsPicture(std::string_view path) {
  return path.ends_with(".svg") || IsPng(path);
}

std::string GnuplotText(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    out += c;
    if (c == '\'') out += c;  // the only special character
  }
  return out + "'";
}

std::string GnuplotHead(const std::string& path, double width, double height) {
  return fmt::format(
      "set terminal {} size {:.0f},{:.0f} {}font 'sans,13'\n"
      "set output {}\n",
      IsPng(path) ? "pngcairo" : "svg", width, height,
      IsPng(path) ? "" : "background '#ffffff' ", GnuplotText(path));
}

std::optional<std::string> PictureProblem(const std::string& path) {
  if (std::system("command -v gnuplot >/dev/null 2>&1") != 0) {
    return "gnuplot draws the picture and is not installed (Debian: apt "
           "install gnuplot-nox)";
  }
  // gnuplot's own word on a file that cannot be written is no help.
  if (std::FILE* file = std::fopen(path.c_str(), "wb")) {
    std::fclose(file);
    return std::nullopt;
  }
  return fmt::format("{}: cannot write it: {}", path, std::strerror(errno));
}

std::optional<std::string> DrawPicture(const std::string& script,
                                       const std::string& path) {
  if (auto problem = PictureProblem(path)) return problem;
  std::FILE* gnuplot = popen("gnuplot", "w");
  if (gnuplot == nullptr) {
    return fmt::format("cannot start gnuplot: {}", std::strerror(errno));
  }
  const bool written =
      std::fwrite(script.data(), 1, script.size(), gnuplot) == script.size();
  if (pclose(gnuplot) != 0 || !written) {
    return fmt::format("{}: gnuplot could not draw it", path);
  }
  return std::nullopt;
}

}  // namespace fedmrn::cli
