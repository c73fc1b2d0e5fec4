// fedmrn partition: which examples a config gives to which client, as a table,
// as JSON and as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/base/json.h"
#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/table.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/report/gnuplot.h"
#include "fedmrn/report/labels.h"
#include "fedmrn/sim/config.h"

namespace fedmrn::cli {
namespace {

struct PartitionOptions {
  std::string config;
  std::vector<std::string> settings;
  std::string out;
  bool no_picture = false;
  bool all = false;
  bool json = false;
};

constexpr size_t kRowsShown = 20;

struct Spread {
  uint32_t min, median, max;
};

Spread SpreadOf(std::vector<uint32_t> values) {
  std::ranges::sort(values);
  return {values.front(), values[(values.size() - 1) / 2], values.back()};
}

struct Totals {
  Spread examples, labels;  // of a client
};

Totals TotalsOf(const report::ClientLabels& view) {
  std::vector<uint32_t> examples, labels;
  for (size_t k = 0; k < view.clients(); ++k) {
    const auto counts = view.CountsOf(k);
    examples.push_back(static_cast<uint32_t>(view.partition.of(k).size()));
    labels.push_back(
        static_cast<uint32_t>(view.classes - std::ranges::count(counts, 0u)));
  }
  return {SpreadOf(examples), SpreadOf(labels)};
}

// "0:61 4:20 9:5", or "0:61 4:20 +1" where there is no more room.
std::string CountsText(const std::vector<uint32_t>& counts, size_t room) {
  std::vector<std::string> parts;
  for (size_t label = 0; label < counts.size(); ++label) {
    if (counts[label] > 0) {
      parts.push_back(fmt::format("{}:{}", label, counts[label]));
    }
  }
  std::string text = fmt::format("{}", fmt::join(parts, " "));
  for (size_t left = 1; text.size() > room && left < parts.size(); ++left) {
    text = fmt::format(
        "{} +{}",
        fmt::join(parts.begin(),
                  parts.end() - static_cast<std::ptrdiff_t>(left), " "),
        left);
  }
  return text;
}

void PrintTable(const report::ClientLabels& view, bool all) {
  fmt::print("{}: {} examples of {} labels, {} clients ({})\n\n",
             view.config.data.name, report::Grouped(view.labels.size()),
             view.classes, report::Grouped(view.clients()),
             report::PartitionText(view.config));
  Table table("rrrl");
  table.Add({"client", "examples", "labels", "label:count"});
  const size_t room = table.RoomForLast(
      TerminalOf(STDOUT_FILENO).value_or(TerminalSize()).columns);
  const size_t shown =
      all ? view.clients() : std::min(view.clients(), kRowsShown);
  for (size_t k = 0; k < shown; ++k) {
    const auto counts = view.CountsOf(k);
    table.Add({std::to_string(k), report::Grouped(view.partition.of(k).size()),
               std::to_string(view.classes - std::ranges::count(counts, 0u)),
               CountsText(counts, room)});
  }
  table.Print();
  if (shown < view.clients()) {
    fmt::print("   ... {} more, --all shows them\n",
               report::Grouped(view.clients() - shown));
  }
  const Totals totals = TotalsOf(view);
  const auto line = [](const char* name, const Spread& spread) {
    fmt::print("{:<19} min {}, median {}, max {}\n", name,
               report::Grouped(spread.min), report::Grouped(spread.median),
               report::Grouped(spread.max));
  };
  fmt::print("\n");
  line("examples per client", totals.examples);
  line("labels per client", totals.labels);
}

Json ToJson(const report::ClientLabels& view) {
  const auto json = [](const Spread& spread) {
    return Json{
        {"min", spread.min}, {"median", spread.median}, {"max", spread.max}};
  };
  const Totals totals = TotalsOf(view);
  Json out;
  out["data"] = view.config.data.name;
  out["kind"] = NameOf(view.config.partition.kind, sim::kPartitionKinds);
  out["seed"] = view.config.partition.seed;
  out["examples"] = view.labels.size();
  out["labels"] = view.classes;
  out["examples_per_client"] = json(totals.examples);
  out["labels_per_client"] = json(totals.labels);
  out["clients"] = Json::array();
  for (size_t k = 0; k < view.clients(); ++k) {
    out["clients"].push_back({{"client", k},
                              {"examples", view.partition.of(k).size()},
                              {"label_counts", view.CountsOf(k)}});
  }
  return out;
}

int Run(const PartitionOptions& options) {
  const auto failed = [](const Error& error) {
    return Fail("fedmrn partition", error);
  };
  if (!options.out.empty() && !report::IsPictureName(options.out)) {
    return failed({ErrorCode::kBadValue,
                   "--out " + options.out + ": must end in .svg or .png"});
  }
  const Result<sim::Config> config =
      ReadConfig(options.config, options.settings);
  if (!config) return Fail("", config.error());
  const Result<report::ClientLabels> view = report::LoadClientLabels(*config);
  if (!view) return failed(view.error());
  if (options.json) {
    fmt::print("{}\n", JsonText(ToJson(*view), 2));
  } else {
    PrintTable(*view, options.all);
  }
  // Programs that read JSON do not look for files they have not asked for.
  const bool draw =
      !options.no_picture && (!options.json || !options.out.empty());
  if (!draw) return kExitOk;
  const std::string path = options.out.empty() ? "partition.svg" : options.out;
  const Status written =
      report::WritePicture(report::LabelPicture(*view, "partition"), path);
  if (!written) {
    const int code = failed(written.error());
    return options.out.empty() ? kExitOk : code;  // nobody has asked for it
  }
  if (!options.json) fmt::print("{:<19} {}\n", "picture", path);
  return kExitOk;
}

}  // namespace

void AddPartition(Verb program) {
  const Verb partition = program.AddVerb(
      "partition", "Show which examples a config gives to which client");
  auto options = std::make_shared<PartitionOptions>();
  partition.AddOption("CONFIG", options->config,
                      "The run's TOML file; without it, the defaults");
  partition.AddOption("--out", options->out,
                      "The picture, .svg or .png (default partition.svg; "
                      "with --json none)");
  partition.AddFlag("--no-picture", options->no_picture, "Draw nothing");
  partition.AddFlag("--all", options->all, "Print every client");
  partition.AddFlag("--json", options->json, "Print a JSON object");
  AddConfigOptions(partition, options->settings);
  partition.Do([options] { return Run(*options); });
}

}  // namespace fedmrn::cli
