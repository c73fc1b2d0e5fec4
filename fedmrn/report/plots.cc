// Plots of what methods are made of and of what they cost.
#include "fedmrn/report/plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/report/canvas.h"
#include "fedmrn/report/looks.h"
#include "fedmrn/report/paper.h"
#include "fedmrn/report/plot_names.h"
#include "fedmrn/report/text.h"

namespace fedmrn::report {
namespace {

Bar ScoreBar(const Group& group, const Look& look, int digits) {
  const bool several = std::isfinite(group.best.std);
  std::string text = Decimals(group.best.mean, digits);
  if (several) text += " ± " + Decimals(group.best.std, digits);
  return {group.label,
          {look.colour},
          {group.best.mean},
          std::move(text),
          several ? group.best.std : 0};
}

template <typename Of>
Picture TimePicture(const Setting& setting, std::string_view what,
                    const std::string& label, int digits, Of value_of) {
  const std::map<std::string, Look> looks = LooksOf(setting);
  std::vector<Bar> bars;
  double most = 0;
  for (const Setting::Row& row : setting.Rows()) {
    const double value = value_of(CostOf(row.runs));
    if (!std::isfinite(value)) continue;
    bars.push_back({row.label,
                    {looks.at(row.label).colour},
                    {value},
                    Decimals(value, digits)});
    most = std::max(most, value);
  }
  return BarPlot(fmt::format("{}-{}", setting.slug, what),
                 fmt::format("{}: {}", setting.name, label),
                 {label, 0, most > 0 ? most : 1}, bars);
}

}  // namespace

std::optional<Picture> AblationPicture(const Setting& setting,
                                       const Cell& cell) {
  const auto masks_afterwards = [](const Group& group) {
    return group.method == "fedavg-sm" || group.method == "fedavg-sms";
  };
  if (std::ranges::none_of(cell.groups, [&](const Group& group) {
        return group.ablation || masks_afterwards(group);
      })) {
    return std::nullopt;
  }
  // One digit less than in tables: bars are for the eye.
  const int digits = UnitOf(setting.metric).digits - 1;
  const std::map<std::string, Look> looks = LooksOf(setting);
  std::vector<Bar> bars;
  double low = 100, high = 0;
  for (const std::string_view method :
       {"fedavg", "signsgd", "fedmrn", "fedavg-sm", "fedmrns", "fedavg-sms"}) {
    for (const Group& group : cell.groups) {
      if (group.method != method || std::isnan(group.best.mean)) continue;
      if (group.noise_variant) continue;  // of which there is another picture
      bars.push_back(ScoreBar(group, looks.at(group.label), digits));
      low = std::min(low, group.best.mean);
      high = std::max(high, group.best.mean + bars.back().std);
    }
  }
  // From zero on, the differences would be too small to see.
  const double step = high - low > 20 ? 10 : 5;
  const double from =
      std::max(0.0, step * (std::ceil((low - 0.3 * (high - low)) / step) - 1));
  return BarPlot(
      PictureName(setting, cell, "ablation"),
      PictureTitle(setting, cell,
                   fmt::format("{} {} with parts of FedMRN left out",
                               setting.on, setting.metric)),
      {fmt::format(
           "{}{}", ScoreLabel(setting),
           from > 0 ? fmt::format(" (axis starts at {:.0f})", from) : ""),
       from, high},
      bars);
}

std::optional<Picture> NoisePicture(const Setting& setting, const Cell& cell,
                                    std::string_view method) {
  struct Distribution {
    std::string_view name, colour, dashes;
  };
  constexpr Distribution kDistributions[] = {
      {"uniform", "#d55e00", "solid"},
      {"gaussian", "#0072b2", "'-'"},
      {"bernoulli", "#2e9b5b", "'.'"},
  };
  std::vector<const Group*> groups;
  std::set<std::pair<std::string, double>> noises;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const Group& group : cell.groups) {
    if (group.method != method) continue;
    const SavedRun& run = *group.runs.front();
    const double magnitude = run.Number("method.magnitude", 0);
    if (magnitude <= 0 || std::isnan(group.best.mean)) continue;
    groups.push_back(&group);
    noises.emplace(run.Get("method.noise"), magnitude);
    least = std::min(least, magnitude);
    most = std::max(most, magnitude);
  }
  if (noises.size() < 2) return std::nullopt;
  std::ranges::sort(groups, {}, [](const Group* group) {
    return group->runs.front()->Number("method.magnitude", 0);
  });
  const double low_x = least / 1.3, high_x = most * 1.3;
  std::vector<Line> lines;
  if (const Group* fedavg = cell.Standard("fedavg")) {
    lines.push_back({{fedavg->label, kInk, "'-'"},
                     fmt::format("{} {mean} 0\n{} {mean} 0\n", low_x, high_x,
                                 fmt::arg("mean", fedavg->best.mean))});
  }
  // Groups that differ in more than their noise have lines of their own, the
  // first of them the distributions' own looks.
  std::set<std::string> others;
  for (const Group* group : groups) others.insert(group->but_noise);
  const std::map<std::string, Look> looks = LooksOf(setting);
  for (const std::string& other : others) {
    for (const Distribution& distribution : kDistributions) {
      Line line{{std::string(distribution.name), distribution.colour,
                 distribution.dashes},
                ""};
      if (!other.empty()) line.key.title += ", " + other;
      line.marks = true;
      for (const Group* group : groups) {
        const SavedRun& run = *group->runs.front();
        if (group->but_noise != other ||
            run.Get("method.noise") != distribution.name) {
          continue;
        }
        if (line.points.empty() && other != *others.begin()) {
          const Look& look = looks.at(group->label);
          line.key.colour = look.colour;
          line.key.dashes = look.dashes;
        }
        line.points += fmt::format(
            "{} {} {}\n", run.Number("method.magnitude", 0), group->best.mean,
            std::isfinite(group->best.std) ? group->best.std : 0.0);
      }
      if (!line.points.empty()) lines.push_back(std::move(line));
    }
  }
  // Doubling steps, as the paper's; their own numbers as tics.
  std::string ranges = fmt::format(
      "set logscale x\nset xrange [{}:{}]\nset offsets graph 0, graph 0, graph "
      "0.08, graph 0.08\nset xtics (",
      low_x, high_x);
  double previous = 0;
  for (const Group* group : groups) {
    const double magnitude = group->runs.front()->Number("method.magnitude", 0);
    if (magnitude < 1.4 * previous) continue;  // their texts would overlap
    ranges += fmt::format("{}'{:g}' {:g}", previous > 0 ? ", " : "", magnitude,
                          magnitude);
    previous = magnitude;
  }
  ranges += ")\n";
  return LinePlot(
      PictureName(setting, cell, fmt::format("noise-{}", method)),
      PictureTitle(
          setting, cell,
          fmt::format("{} {} of {} against the noise's magnitude", setting.on,
                      setting.metric, MethodTitle(method))),
      {"magnitude of the noise (log scale)", ranges}, {ScoreLabel(setting), ""},
      lines);
}

Picture TrainTimePicture(const Setting& setting) {
  return TimePicture(setting, "train-time", "local training of a client, s", 2,
                     [](const Cost& cost) { return cost.train_s; });
}

Picture CompressionTimePicture(const Setting& setting) {
  return TimePicture(setting, "compression-time",
                     "compression of its update, ms", 2,
                     [](const Cost& cost) { return 1000 * cost.encode_s; });
}

Picture UploadPicture(const Setting& setting) {
  constexpr std::string_view kPayload = "#7f93ad", kPlain = "#c28e3a",
                             kHeader = kInk;
  std::vector<Bar> bars;
  double most = 0, most_compressed = 0;
  for (const Setting::Row& row : setting.Rows()) {
    const Cost cost = CostOf(row.runs);
    if (!std::isfinite(cost.bits())) continue;
    bars.push_back({row.label,
                    {kPayload, kPlain, kHeader},
                    {cost.payload_bits, cost.plain_bits, cost.header_bits},
                    Decimals(cost.bits(), 3)});
    most = std::max(most, cost.bits());
    // Beside whole floats nothing could be seen of the rest.
    if (cost.bits() < 8) {
      most_compressed = std::max(most_compressed, cost.bits());
    }
  }
  return BarPlot(fmt::format("{}-upload", setting.slug),
                 fmt::format("{}: upload in bits per parameter", setting.name),
                 {"upload, bits per parameter",
                  0,
                  most_compressed > 0 ? most_compressed : most,
                  {{"payload", kPayload, ""},
                   {"dense values", kPlain, ""},
                   {"header and checksum", kHeader, ""}}},
                 bars);
}

}  // namespace fedmrn::report
