// fedmrn partition: which examples a config gives to which client, as a table,
// as JSON and as a picture.
#include "fedmrn/sim/partition.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/gnuplot.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/sim/config.h"
#include "fedmrn/train/dataset.h"

namespace fedmrn::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string config;
  std::vector<std::string> settings;
  std::string out;
  bool no_picture = false;
  bool all = false;
  bool json = false;
};

constexpr size_t kRowsShown = 20;
constexpr size_t kClientsDrawn = 100;

// What there is to tell: a config's clients, seen through their labels.
struct View {
  Config config;
  uint32_t classes = 0;
  std::vector<uint16_t> labels;
  Partition partition;

  size_t clients() const { return partition.clients(); }
  std::vector<uint32_t> CountsOf(size_t client) const {
    std::vector<uint32_t> counts(classes);
    for (const uint32_t i : partition.of(client)) ++counts[labels[i]];
    return counts;
  }
};

Result<View> MakeView(const Config& config) {
  const auto& data = config.data;
  Result<ImageData> images =
      LoadImages({data.name, data.dir, data.train_examples, 1});
  if (!images) return images.error();
  View view{config, images->classes, std::move(images->train.labels), {}};
  Result<Partition> partition =
      MakePartition(PartitionSettingsOf(config), view.labels, view.classes,
                    images->train.clients);
  if (!partition) return partition.error();
  view.partition = std::move(*partition);
  return view;
}

// "labels, 3 per client"
std::string KindText(const Config& config) {
  const auto& partition = config.partition;
  if (partition.kind == "dirichlet") {
    return fmt::format("dirichlet, alpha {}", partition.alpha);
  }
  if (partition.kind == "labels") {
    return fmt::format("labels, {} per client, {}", partition.labels_per_client,
                       partition.labels_assignment);
  }
  return partition.kind;
}

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

Totals TotalsOf(const View& view) {
  std::vector<uint32_t> examples, labels;
  for (size_t k = 0; k < view.clients(); ++k) {
    const auto counts = view.CountsOf(k);
    examples.push_back(static_cast<uint32_t>(view.partition.of(k).size()));
    labels.push_back(
        static_cast<uint32_t>(view.classes - std::ranges::count(counts, 0u)));
  }
  return {SpreadOf(examples), SpreadOf(labels)};
}

// "0:61 4:20 9:5", cut to a line's width.
std::string CountsText(const std::vector<uint32_t>& counts) {
  constexpr size_t kWidth = 54;
  std::string text;
  for (size_t label = 0; label < counts.size(); ++label) {
    if (counts[label] == 0) continue;
    const std::string next =
        fmt::format("{}{}:{}", text.empty() ? "" : " ", label, counts[label]);
    if (text.size() + next.size() > kWidth) {
      const auto from = counts.begin() + static_cast<std::ptrdiff_t>(label);
      const auto left =
          counts.end() - from - std::count(from, counts.end(), 0u);
      return fmt::format("{} +{}", text, left);
    }
    text += next;
  }
  return text;
}

void PrintTable(const View& view, bool all) {
  fmt::print("{}: {} examples of {} labels, {} clients ({})\n\n",
             view.config.data.name, Grouped(view.labels.size()), view.classes,
             Grouped(view.clients()), KindText(view.config));
  fmt::print("{:>6}  {:>8}  {:>6}  label:count\n", "client", "examples",
             "labels");
  const size_t shown =
      all ? view.clients() : std::min(view.clients(), kRowsShown);
  for (size_t k = 0; k < shown; ++k) {
    const auto counts = view.CountsOf(k);
    fmt::print(
        "{:>6}  {:>8}  {:>6}  {}\n", k, Grouped(view.partition.of(k).size()),
        view.classes - std::ranges::count(counts, 0u), CountsText(counts));
  }
  if (shown < view.clients()) {
    fmt::print("   ... {} more, --all shows them\n",
               Grouped(view.clients() - shown));
  }
  const Totals totals = TotalsOf(view);
  const auto line = [](const char* name, const Spread& spread) {
    fmt::print("{:<19} min {}, median {}, max {}\n", name, Grouped(spread.min),
               Grouped(spread.median), Grouped(spread.max));
  };
  fmt::print("\n");
  line("examples per client", totals.examples);
  line("labels per client", totals.labels);
}

Json ToJson(const View& view) {
  const auto json = [](const Spread& spread) {
    return Json{
        {"min", spread.min}, {"median", spread.median}, {"max", spread.max}};
  };
  const Totals totals = TotalsOf(view);
  Json out;
  out["data"] = view.config.data.name;
  out["kind"] = view.config.partition.kind;
  out["seed"] = view.config.seed;
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

// 1, 2 or 5 times a power of ten: at most about four steps up to `most`.
double NiceStep(double most) {
  const double unit = std::pow(10, std::floor(std::log10(most / 4)));
  for (const double times : {1, 2, 5}) {
    if (most <= 4 * times * unit) return std::max(1.0, times * unit);
  }
  return std::max(1.0, 10 * unit);
}

// Sizes of clients as bars above, a bubble per client and label below; its area
// is its number of examples.
std::string GnuplotScript(const View& view, const std::string& path) {
  const size_t clients = std::min(view.clients(), kClientsDrawn);
  const double columns = static_cast<double>(clients), rows = view.classes;
  // In pixels.
  constexpr double kWidth = 1200, kLeft = 90, kRight = 20;
  constexpr double kTop = 60, kBars = 110, kGap = 25, kBottom = 60;
  const double cell_x = (kWidth - kLeft - kRight) / columns;
  constexpr double kLargest = 26;  // bubble
  const double cell_y = rows > 20 ? 10 : kLargest;
  const double bubbles = cell_y * rows;
  const double height = kTop + kBars + kGap + bubbles + kBottom;

  uint32_t most_examples = 0;
  std::vector<uint32_t> sizes;  // of bubbles
  for (size_t k = 0; k < clients; ++k) {
    most_examples = std::max(
        most_examples, static_cast<uint32_t>(view.partition.of(k).size()));
    for (const uint32_t count : view.CountsOf(k)) {
      if (count > 0) sizes.push_back(count);
    }
  }
  // Nine of ten bubbles fit the width of their cell; few large ones may overlap
  // their neighbours, since small ones would vanish otherwise.
  std::ranges::sort(sizes);
  const uint32_t most = sizes.back();
  const double full =
      std::max<double>(sizes[sizes.size() * 9 / 10],
                       most * (cell_x / kLargest) * (cell_x / kLargest));
  std::string script = GnuplotHead(path, kWidth, height);
  script += "$sizes << EOD\n";
  for (size_t k = 0; k < clients; ++k) {
    script += fmt::format("{} {}\n", k, view.partition.of(k).size());
  }
  script += "EOD\n$bubbles << EOD\n";
  for (size_t k = 0; k < clients; ++k) {
    const auto counts = view.CountsOf(k);
    for (uint32_t label = 0; label < view.classes; ++label) {
      if (counts[label] == 0) continue;
      // In cells, as wide as 1; at least so large that it can be seen.
      const double radius =
          std::max(0.8 / cell_x, 0.48 * std::sqrt(counts[label] / full));
      script += fmt::format("{} {} {:.4f}\n", k, label, radius);
    }
  }
  script += "EOD\n";
  const std::string drawn = clients < view.clients()
                                ? fmt::format("the first {} of {} clients",
                                              clients, Grouped(view.clients()))
                                : fmt::format("{} clients", clients);
  const auto screen = [&](double y) { return 1 - y / height; };
  script += fmt::format(
      "set multiplot\n"
      "unset key\n"
      "set border 3 lc rgb '#888888'\n"
      "set tics nomirror scale 0.5 textcolor rgb '#222222'\n"
      "set lmargin at screen {left}\n"
      "set rmargin at screen {right}\n"
      "set xrange [-0.5:{last}]\n"
      "set label 1 {title} at screen {left},{title_y} noenhanced\n"
      "set label 2 'Largest bubble: {most} examples' at screen "
      "{right},{title_y} right textcolor rgb '#666666' noenhanced\n"
      "set tmargin at screen {bars_top}\n"
      "set bmargin at screen {bars_bottom}\n"
      "set yrange [0:*]\n"
      "set ytics 0,{size_step}\n"
      "set label 3 'examples' at screen 0.014,{bars_middle} center rotate\n"
      "set format x ''\n"
      "set style fill solid 1 noborder\n"
      "set boxwidth 0.7\n"
      "set grid y lc rgb '#e4e4e4' lt 1 lw 0.5\n"
      "plot $sizes using 1:2 with boxes lc rgb '#8c9bb0'\n"
      "unset label\n"
      "set label 'label' at screen 0.014,{bubbles_middle} center rotate\n"
      "set tmargin at screen {bubbles_top}\n"
      "set bmargin at screen {bubbles_bottom}\n"
      "set yrange [{last_label}:-0.5]\n"
      "set ytics 0,{label_step}\n"
      "set xtics 0,{client_step}\n"
      "set xlabel 'client'\n"
      "set format x '%g'\n"
      "set grid x y lc rgb '#e4e4e4' lt 1 lw 0.5\n"
      "plot $bubbles using 1:2:3 with circles lc rgb '#302a6fbb'\n"
      "unset multiplot\n",
      fmt::arg("left", kLeft / kWidth), fmt::arg("right", 1 - kRight / kWidth),
      fmt::arg("last", columns - 0.5), fmt::arg("title_y", screen(28)),
      fmt::arg("title",
               GnuplotText(fmt::format("{}: {}, {}", view.config.data.name,
                                       KindText(view.config), drawn))),
      fmt::arg("most", Grouped(most)), fmt::arg("bars_top", screen(kTop)),
      fmt::arg("bars_bottom", screen(kTop + kBars)),
      fmt::arg("bars_middle", screen(kTop + kBars / 2)),
      fmt::arg("size_step", NiceStep(most_examples)),
      fmt::arg("bubbles_middle", screen(height - kBottom - bubbles / 2)),
      fmt::arg("bubbles_top", screen(kTop + kBars + kGap)),
      fmt::arg("bubbles_bottom", screen(height - kBottom)),
      fmt::arg("last_label", rows - 0.5),
      fmt::arg("label_step", view.classes > 20 ? 10 : 1),
      fmt::arg("client_step", clients > 20 ? 10 : 1));
  return script;
}

int Run(const Options& options) {
  const auto failed = [](const std::string& message) {
    std::fflush(stdout);
    fmt::print(stderr, "fedmrn partition: {}\n", message);
    return kExitBadInput;
  };
  if (!options.out.empty() && !IsPicture(options.out)) {
    return failed("--out " + options.out + ": must end in .svg or .png");
  }
  const Result<Config> config =
      options.config.empty() ? ParseConfig("", "", options.settings)
                             : LoadConfig(options.config, options.settings);
  if (!config) {
    fmt::print(stderr, "{}\n", config.error().ToString());
    return kExitBadInput;
  }
  const Result<View> view = MakeView(*config);
  if (!view) return failed(view.error().ToString());
  if (options.json) {
    fmt::print("{}\n", ToJson(*view).dump(2));
  } else {
    PrintTable(*view, options.all);
  }
  // Programs that read JSON do not look for files they have not asked for.
  const bool draw =
      !options.no_picture && (!options.json || !options.out.empty());
  if (!draw) return kExitOk;
  const std::string path = options.out.empty() ? "partition.svg" : options.out;
  if (const auto problem = DrawPicture(GnuplotScript(*view, path), path)) {
    if (!options.out.empty()) return failed(*problem);
    failed(*problem + "; --no-picture does without");
    return kExitOk;
  }
  if (!options.json) fmt::print("{:<19} {}\n", "picture", path);
  return kExitOk;
}

}  // namespace

void AddPartition(CLI::App& app, int& exit_code) {
  CLI::App* partition = app.add_subcommand(
      "partition", "Show which examples a config gives to which client");
  auto options = std::make_shared<Options>();
  partition->add_option("CONFIG", options->config,
                        "The run's TOML file; without it, the defaults");
  partition->add_option("--out", options->out,
                        "The picture, .svg or .png (default partition.svg; "
                        "with --json none)");
  partition->add_flag("--no-picture", options->no_picture, "Draw nothing");
  partition->add_flag("--all", options->all, "Print every client");
  partition->add_flag("--json", options->json, "Print a JSON object");
  AddConfigOptions(*partition, options->settings);
  partition->callback([options, &exit_code] { exit_code = Run(*options); });
}

}  // namespace fedmrn::cli
