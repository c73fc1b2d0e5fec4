#include "fedmrn/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "fedmrn/report/class_table.h"
#include "fedmrn/report/labels.h"
#include "fedmrn/report/paper.h"
#include "fedmrn/report/plots.h"
#include "fedmrn/report/tables.h"
#include "fedmrn/report/text.h"
#include "fedmrn/sim/config.h"

namespace fedmrn::report {
namespace {

constexpr char kStyle[] = R"css(
:root {
  color-scheme: light dark;
  --ground: #ffffff; --panel: #f6f7f9; --ink: #1d2126; --muted: #5b6570;
  --axis: #8a929b; --grid: #e6e8eb; --accent: #b84a00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171a; --panel: #1c2126; --ink: #e4e7ea; --muted: #9ba5af;
    --axis: #717a84; --grid: #2c3238; --accent: #f28b46;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body {
  margin: 0 auto; padding: 2.5rem 1rem 4rem; max-width: 74rem;
  background: var(--ground); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans",
    "DejaVu Sans", sans-serif;
  overflow-wrap: anywhere;
}
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 {
  font-size: 1.35rem; line-height: 1.25; margin: 3.5rem 0 .75rem;
  padding-top: 1rem; border-top: 1px solid var(--grid);
}
h3 { font-size: 1.05rem; margin: 2rem 0 .25rem; }
p { margin: .5rem 0; max-width: 46rem; }
a { color: var(--accent); }
.lead { font-size: 1.1rem; color: var(--muted); }
.note { color: var(--muted); font-size: .92rem; }
.unlike { border-left: 3px solid var(--accent); padding-left: .75rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem;
  margin: 1.25rem 0; font-size: .95rem; }
dt { color: var(--muted); }
dd { margin: 0; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem;
  padding: 0; margin: 1rem 0; }
nav a { text-decoration: none; }
nav a:hover { text-decoration: underline; }
.table { overflow-x: auto; margin: .75rem 0 1.25rem; max-width: 100%; }
table { border-collapse: collapse; font-size: .86rem; line-height: 1.35;
  font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: .3rem .4rem; text-align: right; white-space: nowrap;
  font-weight: 400; border-bottom: 1px solid var(--grid); }
thead th { color: var(--muted); font-size: .82rem; vertical-align: bottom; }
thead th[colspan] { text-align: center; color: var(--ink); font-weight: 600; }
th:first-child { text-align: left; }
thead tr:last-child:not(:first-child) th:first-child { text-align: right; }
.first { border-left: 1px solid var(--grid); }
tbody th, thead tr:first-child th:first-child {
  position: sticky; left: 0; background: var(--ground);
}
td b { font-weight: 700; }
td[style] { background: rgb(222 120 50 / calc(.75 * var(--shade))); }
.plots { display: grid; gap: 1.25rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
.plots.one { grid-template-columns: minmax(0, 34rem); }
.plots.wide { grid-template-columns: minmax(0, 1fr); }
figure { margin: .75rem 0 0; min-width: 0; }
figure svg { display: block; width: 100%; height: auto; }
figure svg text { font-family: inherit; }
figcaption { font-size: .9rem; color: var(--muted); margin-bottom: .25rem; }
.sideways { overflow-x: auto; }
.sideways svg { min-width: 52rem; }
.run { border-bottom: 1px solid var(--grid); padding: .45rem 0; }
.run p { margin: .15rem 0; font-size: .88rem; max-width: none; }
code, pre { font: .84rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas,
  "DejaVu Sans Mono", monospace; }
pre { background: var(--panel); padding: .6rem .75rem; margin: .35rem 0;
  overflow-x: auto; border-radius: 4px; overflow-wrap: normal; }
summary { cursor: pointer; font-size: .9rem; color: var(--muted); }
summary b { color: var(--ink); font-weight: 600; margin-right: .5rem; }
@media (max-width: 30rem) {
  body { padding-top: 1.5rem; }
  h1 { font-size: 1.6rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .4rem; }
}
@media print { h2, h3 { break-after: avoid; } }
)css";

constexpr char kMarker[] = "<!-- made by fedmrn report -->";

class PageWriter {
 public:
  PageWriter(const Study& study, std::string_view version,
             std::string_view created)
      : study_(study), version_(version), created_(created) {}

  Result<Page> Write() {
    Accuracy();
    Target();
    Convergence();
    TradeOff();
    Ablation();
    Noise();
    Time();
    Upload();
    Labels();
    Runs();
    if (error_) return *error_;
    Page page;
    page.html = fmt::format(
        "<!doctype html>\n{}\n<html lang=\"en\">\n<head>\n"
        "<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, "
        "initial-scale=1\">\n"
        "<link rel=\"icon\" href=\"data:,\">\n"
        "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n",
        kMarker, HtmlText(Title()), kStyle);
    page.html += Head() + "<main>\n" + body_ + "</main>\n</body>\n</html>\n";
    page.pictures = std::move(pictures_);
    return page;
  }

 private:
  struct Contents {
    std::string id, title;
  };

  void Section(const std::string& id, const std::string& title,
               const std::string& text) {
    contents_.push_back({id, title});
    body_ += fmt::format("<h2 id=\"{}\">{}</h2>\n", id, HtmlText(title));
    if (!text.empty()) Paragraph("", text);
  }

  void Heading(const std::string& title) {
    body_ += fmt::format("<h3>{}</h3>\n", HtmlText(title));
  }

  void Paragraph(const char* style, const std::string& text) {
    body_ +=
        fmt::format("<p{}>{}</p>\n",
                    *style == '\0' ? "" : fmt::format(" class=\"{}\"", style),
                    HtmlText(text));
  }

  // `captions` beside `pictures`.
  void Figures(const std::vector<Picture>& pictures,
               const std::vector<std::string>& captions) {
    body_ +=
        fmt::format("<div class=\"plots{}\">\n", pictures[0].wide ? " wide"
                                                 : pictures.size() == 1 ? " one"
                                                                        : "");
    for (size_t i = 0; i < pictures.size(); ++i) {
      const Picture& picture = pictures[i];
      if (error_) return;  // the first says enough
      const Result<std::string> svg = Draw(picture, PictureFormat::kSvg);
      if (!svg) {
        error_ = svg.error();
        return;
      }
      body_ += "<figure>\n";
      if (!captions[i].empty()) {
        body_ +=
            fmt::format("<figcaption>{}</figcaption>\n", HtmlText(captions[i]));
      }
      body_ += fmt::format("<div{}>\n{}</div>\n</figure>\n",
                           picture.wide ? " class=\"sideways\"" : "",
                           InlineSvg(*svg, picture));
      pictures_.push_back(picture);
    }
    body_ += "</div>\n";
  }

  std::string Title() const {
    return study_.title.empty() ? "FedMRN: results" : study_.title;
  }

  std::string Head() const {
    std::set<std::string> versions, machines;
    std::string first, last;
    for (const SavedRun& run : study_.runs) {
      versions.insert(run.version);
      if (!run.machine.empty()) machines.insert(run.machine);
      const std::string day = run.started.substr(0, 10);
      if (first.empty() || day < first) first = day;
      last = std::max(last, day);
    }
    std::string runs = Counted(study_.runs.size(), "run");
    if (study_.unfinished > 0) {
      runs += fmt::format("; {} not finished, not in any figure",
                          study_.unfinished);
    }
    if (study_.repeated > 0) {
      runs += fmt::format("; {} with the config of another, counted once",
                          study_.repeated);
    }
    const bool papers =
        std::ranges::any_of(study_.settings, [](const Setting& setting) {
          return std::ranges::any_of(setting.cells, [&](const Cell& cell) {
            return setting.IsPapers(cell);
          });
        });
    std::string head = fmt::format(
        "<header>\n<h1>{}</h1>\n"
        "<p class=\"lead\">Federated learning methods compared by the accuracy "
        "they reach and the bytes their clients upload{}. Every figure about "
        "upload is a sum of real frame lengths.</p>\n<dl>\n",
        HtmlText(Title()),
        papers ? "; beside the numbers of the paper where the protocol is the "
                 "paper's"
               : "");
    const auto item = [&](const char* name, const std::string& value) {
      if (value.empty()) return;
      head += fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, HtmlText(value));
    };
    item("Runs", runs);
    item("Run on",
         first == last ? first : fmt::format("{} to {}", first, last));
    item("By fedmrn", fmt::format("{}", fmt::join(versions, ", ")));
    item("Machine", fmt::format("{}", fmt::join(machines, "; ")));
    item("This page", fmt::format("{}, fedmrn {}", created_, version_));
    head += "</dl>\n<nav aria-label=\"Contents\"><ul>\n";
    for (const Contents& entry : contents_) {
      head += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", entry.id,
                          HtmlText(entry.title));
    }
    return head + "</ul></nav>\n</header>\n";
  }

  void Accuracy() {
    if (study_.settings.empty()) return;
    Section("accuracy", "Accuracy", kAccuracyText);
    for (const Setting& setting : study_.settings) {
      for (const Cell& cell : setting.cells) {
        Heading(setting.name + ", " + cell.name);
        const bool unlike =
            FindPaperData(setting.data) != nullptr && !setting.IsPapers(cell);
        Paragraph(unlike ? "note unlike" : "note", ProtocolNote(setting, cell));
        body_ += HtmlTable(AccuracyTable(setting, cell));
      }
    }
    const Table losses = LossTable(study_);
    if (losses.rows.empty()) return;
    Section("loss", "Accuracy against FedAvg", kLossText);
    body_ += HtmlTable(losses);
  }

  void Target() {
    bool begun = false;
    for (const Setting& setting : study_.settings) {
      const double target = TargetOf(study_, setting);
      if (std::isnan(target)) continue;
      if (!begun) Section("target", "To a target", kTargetText);
      begun = true;
      for (const Cell& cell : setting.cells) {
        Heading(setting.name + ", " + cell.name);
        body_ += HtmlTable(TargetTable(setting, cell, target));
      }
    }
  }

  // `pictures_of` a setting's cell, those that there are.
  template <typename Of>
  void OfCells(const std::string& id, const std::string& title,
               const std::string& text, Of pictures_of) {
    bool begun = false;
    for (const Setting& setting : study_.settings) {
      for (const Cell& cell : setting.cells) {
        std::vector<Picture> pictures;
        std::vector<std::string> captions;
        pictures_of(setting, cell, pictures, captions);
        if (pictures.empty()) continue;
        if (!begun) Section(id, title, text);
        begun = true;
        Heading(setting.name + ", " + cell.name);
        Figures(pictures, captions);
      }
    }
  }

  void Convergence() {
    OfCells("convergence", "Convergence",
            "Accuracy against rounds, and against what all clients have "
            "uploaded so far: further left is cheaper. Means of the seeds; the "
            "band around a line is their standard deviation.",
            [](const Setting& setting, const Cell& cell, auto& pictures,
               auto& captions) {
              if (setting.rounds < 2) return;  // a point is no curve
              const std::vector<Sheet> sheets = SheetsOf(cell);
              for (size_t i = 0; i < sheets.size(); ++i) {
                for (const auto& [against, caption] :
                     {std::pair(Against::kRounds, "Against rounds"),
                      std::pair(Against::kUpload, "Against upload")}) {
                  pictures.push_back(
                      CurvePicture(setting, cell, sheets[i], i + 1, against));
                  captions.push_back(caption);
                }
              }
            });
  }

  void TradeOff() {
    OfCells("trade-off", "Accuracy against upload",
            "Mean accuracy of the last ten rounds against what all "
            "clients have uploaded in a whole run; further up and left is "
            "better. The names stand in the order of accuracy; bars on the "
            "points: the deviation over seeds.",
            [](const Setting& setting, const Cell& cell, auto& pictures,
               auto& captions) {
              if (cell.groups.size() < 2) return;  // nothing to weigh
              const std::vector<Sheet> sheets = SheetsOf(cell);
              for (size_t i = 0; i < sheets.size(); ++i) {
                pictures.push_back(
                    TradeOffPicture(setting, cell, sheets[i], i + 1));
                captions.push_back("");
              }
            });
  }

  void Ablation() {
    OfCells("ablation", "Ablation",
            "Best accuracy of FedMRN and FedMRNS without stochastic masks "
            "(SM), without progressive masking (PM) and without both (PSM), "
            "and of FedAvg with stochastic masks drawn after training.",
            [](const Setting& setting, const Cell& cell, auto& pictures,
               auto& captions) {
              if (auto picture = AblationPicture(setting, cell)) {
                pictures.push_back(std::move(*picture));
                captions.push_back("");
              }
            });
  }

  void Noise() {
    OfCells("noise", "Noise",
            "Best accuracy against the magnitude of the noise, for each of its "
            "distributions.",
            [](const Setting& setting, const Cell& cell, auto& pictures,
               auto& captions) {
              for (const char* method : {"fedmrn", "fedmrns"}) {
                auto picture = NoisePicture(setting, cell, method);
                if (!picture) continue;
                pictures.push_back(std::move(*picture));
                captions.push_back(MethodTitle(method));
              }
            });
  }

  void Time() {
    if (study_.settings.empty()) return;
    Section("time", "Time of a client",
            "Local training and the compression of its result, mean over all "
            "clients of all rounds, as measured while the runs were made. "
            "Clients that train at the same time share the machine.");
    for (const Setting& setting : study_.settings) {
      Heading(setting.name);
      Figures({TrainTimePicture(setting), CompressionTimePicture(setting)},
              {"Training", "Compression"});
      body_ += HtmlTable(TimeTable(setting));
    }
  }

  void Upload() {
    if (study_.settings.empty()) return;
    Section(
        "upload", "Upload",
        "Bits per masked parameter in the frames that clients sent. "
        "Payload: the compressed parameters; dense: batch norm and other "
        "values that travel as floats; header: header and checksum. \"1 "
        "in\": how many times smaller than the whole model in float32. "
        "MB: upload of a whole run, all clients. A bar that is torn off goes "
        "on far beyond the axis; its number stands behind it.");
    for (const Setting& setting : study_.settings) {
      Heading(setting.name);
      Figures({UploadPicture(setting)}, {""});
      body_ += HtmlTable(UploadTable(setting));
    }
  }

  // A run's data and partition as this program knows them.
  static Result<sim::Config> PartitionConfig(const SavedRun& run) {
    std::vector<std::string> settings;
    for (const sim::ConfigKey& key : sim::ConfigKeys()) {
      const bool needed =
          key.role == KeyRole::kSeed || key.role == KeyRole::kData ||
          key.role == KeyRole::kPartition || key.name.starts_with("data.");
      const std::string value = run.Get(key.name);
      if (needed && !value.empty()) {
        settings.push_back(fmt::format("{}={}", key.name, value));
      }
    }
    // Only the partition matters, so a round may have any number of clients.
    settings.push_back("rounds.clients_per_round=1");
    return sim::ParseConfig("", "", settings);
  }

  void Labels() {
    std::set<std::string> seen;
    for (const Setting& setting : study_.settings) {
      for (const Cell& cell : setting.cells) {
        const SavedRun& run = *cell.groups.front().runs.front();
        const std::string title = fmt::format(
            "{}{}{}, {}", DataTitle(setting.data),
            run.data_files.empty() ? "" : " ", run.data_files, cell.name);
        const Result<sim::Config> config = PartitionConfig(run);
        const std::string key =
            config ? fmt::format("{} {} {} {}", title, PartitionText(*config),
                                 config->partition.clients,
                                 config->data.train_examples)
                   : title;
        if (!seen.insert(key).second) continue;
        if (seen.size() == 1) {
          Section("labels", "Clients and their labels",
                  "How many examples each client has, and of which labels: "
                  "the area of a bubble is the number of examples.");
        }
        Heading(title);
        const Result<ClientLabels> view =
            config ? LoadClientLabels(*config)
                   : Result<ClientLabels>(config.error());
        if (!view) {
          Paragraph("note", "Not drawn: " + view.error().ToString());
          continue;
        }
        Figures({LabelPicture(*view, fmt::format("{}-{}-labels", setting.slug,
                                                 seen.size()))},
                {fmt::format("Seed {}", run.Get("partition.seed"))});
      }
    }
  }

  void Classes(const results::Confusion& confusion) {
    const size_t classes = confusion.classes();
    if (classes == 0 || classes > kTableClasses) return;
    Paragraph("note",
              fmt::format("Which class was taken for which in the test "
                          "after round {}; macro F1 {:.3f}:",
                          confusion.round, results::MacroF1(confusion)));
    body_ += HtmlTable(ClassTable(confusion));
  }

  void Runs() {
    Section("runs", "Every run",
            "Open a run for its command, machine, model, confusion matrix and "
            "config. The command "
            "repeats it, from the folder's config.toml or from a file with the "
            "config shown here; on the same kind of CPU the model comes out "
            "the same to the bit.");
    for (size_t i = 0; i < study_.runs.size(); ++i) {
      const SavedRun& run = study_.runs[i];
      const std::string again = fmt::format(
          "fedmrn run {} --out {}", ShellWord(run.folder + "/config.toml"),
          ShellWord(run.folder + "-again"));
      std::string facts = fmt::format(
          "{}, {}, {}, seed {}: {}", MethodTitle(run.Get("method.name")),
          DataTitle(run.Get("data.name")), run.Get("partition.kind"),
          run.Get("seed"),
          run.finished ? Counted(run.rows.size(), "round")
                       : fmt::format("not finished, {} of {} rounds",
                                     run.rows.size(), run.Get("rounds.count")));
      facts += ", " + Duration(run.summary.totals.wall_s) + ".";
      if (run.finished && !run.ended_by.empty() &&
          run.ended_by != "rounds.count") {
        facts += " Ended early by " + run.ended_by + ".";
      }
      if (study_.same_as[i] != nullptr) {
        facts +=
            " Same config as " + study_.same_as[i]->folder + ", counted once.";
      }
      body_ += fmt::format(
          "<details class=\"run\"><summary><b>{}</b> {}</summary>\n"
          "<pre>{}</pre>\n",
          HtmlText(run.folder), HtmlText(facts), HtmlText(again));
      Paragraph("note",
                fmt::format("fedmrn {}{}{}", run.version,
                            run.machine.empty() ? "" : " on ", run.machine));
      body_ +=
          fmt::format("<p class=\"note\">Model sha256 <code>{}</code></p>\n",
                      HtmlText(run.model_sha256));
      Classes(run.confusion);
      body_ +=
          fmt::format("<pre>{}</pre>\n</details>\n", HtmlText(ConfigToml(run)));
    }
  }

  const Study& study_;
  std::string version_, created_;
  std::string body_;
  std::vector<Contents> contents_;
  std::vector<Picture> pictures_;
  std::optional<Error> error_;
};

}  // namespace

Result<Page> MakePage(const Study& study, std::string_view version,
                      std::string_view created) {
  return PageWriter(study, version, created).Write();
}

bool MadeByReport(std::string_view text) {
  const Study none;
  return text.substr(0, 200).find(kMarker) != text.npos ||
         text.starts_with(CsvReport(none).substr(0, 40)) ||
         text.starts_with(MarkdownReport(none).substr(0, 20));
}

}  // namespace fedmrn::report
