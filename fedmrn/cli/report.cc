// fedmrn report: runs compared, as a page, tables and pictures.
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/base/files.h"
#include "fedmrn/cli/commands.h"
#include "fedmrn/report/groups.h"
#include "fedmrn/report/page.h"
#include "fedmrn/report/runs.h"
#include "fedmrn/report/tables.h"
#include "fedmrn/report/text.h"

namespace fedmrn::cli {
namespace {

struct ReportOptions {
  std::vector<std::string> dirs;
  std::string out = "report.html";
  std::string csv;
  std::string markdown;
  std::string plots;
  double target = std::nan("");
};

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  return std::string(
      text, std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &utc));
}

// A report may replace an older one, not what somebody else wrote.
Status CheckReplaceable(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) return Ok();
  const Result<Bytes> bytes = ReadFile(path);
  if (!bytes) return bytes.error();
  if (report::MadeByReport(AsText(*bytes))) return Ok();
  return Error{ErrorCode::kDuplicate,
               path +
                   ": is there already, and not made by fedmrn report: "
                   "remove it or choose another name"};
}

Status WritePictures(const std::string& folder,
                     const std::vector<report::Picture>& pictures) {
  FEDMRN_TRY(MakeFolder(folder));
  for (const report::Picture& picture : pictures) {
    for (const auto& [format, suffix] :
         {std::pair(report::PictureFormat::kSvg, ".svg"),
          std::pair(report::PictureFormat::kPng, ".png")}) {
      const std::string drawn = FEDMRN_TRY(report::Draw(picture, format));
      FEDMRN_TRY(WriteFileAtomically(folder + "/" + picture.name + suffix,
                                     AsBytes(drawn)));
    }
  }
  return Ok();
}

Status WriteReport(const ReportOptions& options) {
  for (const std::string& path : {options.out, options.csv, options.markdown}) {
    FEDMRN_TRY(CheckReplaceable(path));
  }
  report::Study study =
      report::MakeStudy(FEDMRN_TRY(report::ReadRuns(options.dirs)));
  study.target = options.target;
  const report::Page page =
      FEDMRN_TRY(report::MakePage(study, FEDMRN_VERSION, UtcNow()));
  if (!options.plots.empty()) {
    FEDMRN_TRY(WritePictures(options.plots, page.pictures));
    fmt::print("{:<9} {} (SVG and PNG: {})\n", "pictures", options.plots,
               page.pictures.size());
  }
  const auto write = [](const char* what, const std::string& path,
                        const std::string& text) -> Status {
    if (path.empty()) return Ok();
    FEDMRN_TRY(WriteFileAtomically(path, AsBytes(text)));
    fmt::print("{:<9} {}\n", what, path);
    return Ok();
  };
  FEDMRN_TRY(write("CSV", options.csv, report::CsvReport(study)));
  FEDMRN_TRY(
      write("Markdown", options.markdown, report::MarkdownReport(study)));
  FEDMRN_TRY(write("report", options.out, page.html));
  fmt::print("{:<9} {}", "runs", study.runs.size());
  if (study.unfinished > 0) {
    fmt::print(", {} not finished and only listed", study.unfinished);
  }
  if (study.repeated > 0) {
    fmt::print(", {} with the config of another", study.repeated);
  }
  fmt::print("\n");
  return Ok();
}

}  // namespace

void AddReport(Verb program) {
  const Verb report =
      program.AddVerb("report", "Finished runs on one page, beside the paper");
  report.Footer(
      "  fedmrn report runs\n"
      "  fedmrn report runs --out results.html --csv results.csv\n\n"
      "Takes every folder with a run.json at or below DIR. Runs that differ\n"
      "only in their seeds are averaged; every other configuration has its "
      "row\n"
      "in every table and its line in every plot. A difference is told where\n"
      "it exceeds twice its standard error over the seeds. The paper's "
      "numbers\n"
      "stand only beside runs of its protocol. The page is one file that "
      "opens\n"
      "from the disk, without network or script.");
  auto options = std::make_shared<ReportOptions>();
  report.AddOption("DIR", options->dirs, "Folders with results of fedmrn run")
      .Required();
  report.AddOption("--out", options->out, "The page")
      .Type("FILE")
      .ShowDefault();
  report.AddOption("--csv", options->csv, "Also a row per method and setting")
      .Type("FILE");
  report.AddOption("--markdown", options->markdown, "Also the tables")
      .Type("FILE");
  report
      .AddOption("--plots", options->plots,
                 "Also the page's pictures, as SVG and PNG")
      .Type("DIR");
  report
      .AddOption("--target", options->target,
                 "An accuracy, such as 0.8: rounds and upload until it is "
                 "reached; default: the runs' rounds.target_accuracy")
      .Type("SHARE");
  report.Do([options] {
    const Status done = WriteReport(*options);
    return done ? kExitOk : Fail("fedmrn report", done.error());
  });
}

}  // namespace fedmrn::cli
