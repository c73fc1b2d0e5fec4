#include "fedmrn/report/labels.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "fedmrn/report/text.h"
#include "fedmrn/sim/run.h"
#include "fedmrn/train/data/dataset.h"

namespace fedmrn::report {
namespace {

constexpr size_t kClientsDrawn = 100;

}  // namespace

std::vector<uint32_t> ClientLabels::CountsOf(size_t client) const {
  std::vector<uint32_t> counts(classes);
  for (const uint32_t i : partition.of(client)) ++counts[labels[i]];
  return counts;
}

Result<ClientLabels> LoadClientLabels(const sim::Config& config) {
  Result<train::Data> data = train::LoadData(config.data);
  if (!data) return data.error();
  ClientLabels view{config, data->classes, std::move(data->labels), {}};
  Result<sim::Partition> partition = sim::MakePartition(
      config.partition, view.labels, view.classes, data->clients);
  if (!partition) return partition.error();
  view.partition = std::move(*partition);
  return view;
}

std::string PartitionText(const sim::Config& config) {
  const sim::PartitionSettings& partition = config.partition;
  std::string text(NameOf(partition.kind, sim::kPartitionKinds));
  if (partition.kind == sim::PartitionKind::kDirichlet) {
    text += fmt::format(", alpha {}", partition.alpha);
  } else if (partition.kind == sim::PartitionKind::kLabels) {
    text += fmt::format(", {} per client, {}", partition.labels_per_client,
                        NameOf(partition.cyclic, sim::kLabelsAssignments));
  }
  return text;
}

Picture LabelPicture(const ClientLabels& view, const std::string& name) {
  const size_t clients = std::min(view.clients(), kClientsDrawn);
  const double columns = static_cast<double>(clients), rows = view.classes;
  // In pixels.
  constexpr double kWidth = 1200, kLeft = 90, kRight = 20;
  constexpr double kTop = 60, kBars = 110, kBetween = 25, kBottom = 60;
  const double cell_x = (kWidth - kLeft - kRight) / columns;
  constexpr double kLargest = 26;  // bubble
  const double cell_y = rows > 20 ? 10 : kLargest;
  const double bubbles = cell_y * rows;
  const double height = kTop + kBars + kBetween + bubbles + kBottom;

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
  std::string script = "$sizes << EOD\n";
  for (size_t k = 0; k < clients; ++k) {
    script += fmt::format("{} {}\n", k, view.partition.of(k).size());
  }
  script += "EOD\n$bubbles << EOD\n";
  for (size_t k = 0; k < clients; ++k) {
    const auto counts = view.CountsOf(k);
    for (uint32_t label = 0; label < view.classes; ++label) {
      if (counts[label] == 0) continue;
      // In pixels; at least so large that it can be seen.
      const double radius =
          std::max(0.8, 0.48 * cell_x * std::sqrt(counts[label] / full));
      script += fmt::format("{} {} {:.2f}\n", k, label, radius);
    }
  }
  script += "EOD\n";
  const std::string drawn = clients < view.clients()
                                ? fmt::format("the first {} of {} clients",
                                              clients, Grouped(view.clients()))
                                : fmt::format("{} clients", clients);
  const std::string title = fmt::format("{}: {}, {}", view.config.data.name,
                                        PartitionText(view.config), drawn);
  const auto screen = [&](double y) { return 1 - y / height; };
  script += fmt::format(
      "set multiplot\n"
      "unset key\n"
      "set border 3 lc rgb '{axis}'\n"
      "set tics nomirror scale 0.5 textcolor rgb '{ink}'\n"
      "set lmargin at screen {left}\n"
      "set rmargin at screen {right}\n"
      "set xrange [-0.5:{last}]\n"
      "set label 1 {title} at screen {left},{title_y} textcolor "
      "rgb '{ink}'\n"
      "set label 2 'Largest bubble: {most} examples' at screen "
      "{right},{title_y} right textcolor rgb '{muted}'\n"
      "set tmargin at screen {bars_top}\n"
      "set bmargin at screen {bars_bottom}\n"
      "set yrange [0:*]\n"
      "set ytics 0,{size_step}\n"
      "set label 3 'examples' at screen 0.014,{bars_middle} center rotate "
      "textcolor rgb '{ink}'\n"
      "set format x ''\n"
      "set style fill solid 1 noborder\n"
      "set boxwidth 0.7\n"
      "set grid y lc rgb '{grid}' lt 1 lw 0.5\n"
      "plot $sizes using 1:2 with boxes lc rgb '#8c9bb0'\n"
      "unset label\n"
      "set label 'label' at screen 0.014,{bubbles_middle} center rotate "
      "textcolor rgb '{ink}'\n"
      "set tmargin at screen {bubbles_top}\n"
      "set bmargin at screen {bubbles_bottom}\n"
      "set yrange [{last_label}:-0.5]\n"
      "set ytics 0,{label_step}\n"
      "set xtics 0,{client_step}\n"
      "set xlabel 'client' textcolor rgb '{ink}'\n"
      "set format x '%g'\n"
      "set grid x y lc rgb '{grid}' lt 1 lw 0.5\n"
      "plot $bubbles using 1:2:($3 / point_radius) with points pt 7 ps "
      "variable lc rgb '#302a6fbb'\n"
      "unset multiplot\n",
      fmt::arg("ink", kInk), fmt::arg("muted", kMuted), fmt::arg("axis", kAxis),
      fmt::arg("grid", kGrid), fmt::arg("left", kLeft / kWidth),
      fmt::arg("right", 1 - kRight / kWidth), fmt::arg("last", columns - 0.5),
      fmt::arg("title_y", screen(28)), fmt::arg("title", GnuplotText(title)),
      fmt::arg("most", Grouped(most)), fmt::arg("bars_top", screen(kTop)),
      fmt::arg("bars_bottom", screen(kTop + kBars)),
      fmt::arg("bars_middle", screen(kTop + kBars / 2)),
      fmt::arg("size_step", std::max(1.0, TicStep(most_examples))),
      fmt::arg("bubbles_middle", screen(height - kBottom - bubbles / 2)),
      fmt::arg("bubbles_top", screen(kTop + kBars + kBetween)),
      fmt::arg("bubbles_bottom", screen(height - kBottom)),
      fmt::arg("last_label", rows - 0.5),
      fmt::arg("label_step", view.classes > 20 ? 10 : 1),
      fmt::arg("client_step", clients > 20 ? 10 : 1));
  Picture picture{name, title, static_cast<int>(kWidth),
                  static_cast<int>(height), std::move(script)};
  picture.wide = true;
  return picture;
}

}  // namespace fedmrn::report
