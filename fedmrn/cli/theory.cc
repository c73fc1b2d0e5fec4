// fedmrn theory: Section 4 of the paper as an experiment, as a short report, as
// JSON, as CSV and as a picture.
#include "fedmrn/theory/theory.h"

#include <fmt/core.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/base/files.h"
#include "fedmrn/base/json.h"
#include "fedmrn/base/stopwatch.h"
#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/live.h"
#include "fedmrn/cli/table.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/report/gnuplot.h"
#include "fedmrn/report/text.h"

namespace fedmrn::cli {
namespace {

using theory::ConvexRow;
using theory::Estimate;
using theory::NetworkRow;

struct TheoryOptions {
  theory::Settings settings;
  std::string noise = "round";
  bool no_pm = false;
  bool json = false;
  std::string plot;
  std::string out;
};

// The report, with a percentage on a terminal if the wait gets long.
Result<theory::Report> CheckWatched(const theory::Settings& settings) {
  std::atomic<double> share = 0;
  const Stopwatch watch;
  const LiveLines live([&](const TerminalSize&) {
    return watch.seconds() < 1
               ? std::vector<std::string>()
               : std::vector{fmt::format("checking the theorems: {:2.0f} %",
                                         100 * share)};
  });
  return theory::Check(settings, [&](double done) { share = done; });
}

const char* Verdict(bool holds) { return holds ? "holds" : "DOES NOT HOLD"; }

// With so many digits that count.
std::string Digits(double value, int digits) {
  return fmt::format("{:.{}g}", value, digits);
}

// How far above the last measurement a bound lies: that a loose one holds says
// little.
template <typename Row>
std::string LooseText(const std::vector<Row>& rows) {
  const Row& last = rows.back();
  return fmt::format("{:.2g} (FedAvg) and {:.2g} (FedMRN) times the measured",
                     last.fedavg_bound / last.fedavg.mean,
                     last.fedmrn_bound / last.fedmrn.mean);
}

std::string SlopeText(const theory::Slope& slope) {
  return fmt::format("{:.2f} (+-{:.2f})", slope.slope, slope.error);
}

void PrintConvex(const theory::Settings& s, const theory::ConvexReport& r) {
  const theory::Constants& c = r.constants;
  fmt::print(
      "Theorem 1  logistic regression, {} parameters; N = {} clients, K = {} "
      "a round,\n           S = {} local steps, {} rounds, mean of {} seeds\n",
      s.dimension, s.clients, s.sampled, s.steps, report::Grouped(s.rounds),
      s.seeds);
  fmt::print(
      "           L {:.4g}, mu {:.4g}, kappa {:.4g}, Gamma {:.3g}, sigma {:g}, "
      "G {:g},\n           F* {:.6f}, |w1-w*|^2 {:.3g}, gamma {:g}\n",
      c.L, c.mu, c.L / c.mu, c.Gamma, c.sigma, c.G, c.F_star, r.start_distance,
      r.gamma);
  fmt::print("           noise 2*eta*S*G, eta the first of {}; {}\n\n",
             s.fixed_noise ? "the run" : "each round",
             s.progressive ? "SM and PM" : "SM without PM");
  Table table("rrrrrr");
  table.Add({"T", "FedAvg gap", "bound", "FedMRN gap", "bound", "q"});
  // Rows are four to the octave: these are T, T/4, T/16, ...
  for (size_t i = (r.rows.size() - 1) % 8; i < r.rows.size(); i += 8) {
    const ConvexRow& row = r.rows[i];
    table.Add({report::Grouped(row.steps), Digits(row.fedavg.mean, 3),
               Digits(row.fedavg_bound, 4), Digits(row.fedmrn.mean, 3),
               Digits(row.fedmrn_bound, 4), Digits(row.lemma_q, 3)});
  }
  table.Print();
  fmt::print(
      "\nslope      FedAvg {}, FedMRN {}, of the gap against\n"
      "           gamma + T from T = {} to {} (Theorem 1: -1)\n",
      SlopeText(r.fedavg), SlopeText(r.fedmrn), report::Grouped(r.fedmrn.from),
      report::Grouped(r.fedmrn.to));
  fmt::print(
      "assumed    gradients up to {:.2f} (G = {:g}), deviations up to {:.2f} "
      "(sigma = {:g}),\n           |u| up to {:.2f} of the noise: {}\n",
      r.largest_gradient, c.G, r.largest_deviation, c.sigma,
      r.largest_update_over_noise, Verdict(r.assumptions_hold));
  fmt::print(
      "bound      with the least q for Lemmas 2 and 3, at {} T: {},\n"
      "           at the last {}\n",
      r.rows.size(), Verdict(r.bound_holds), LooseText(r.rows));
  if (s.fixed_noise) {
    fmt::print(
        "           but no constant q will do: it grows with T, and so may the "
        "gap\n");
  }
  fmt::print("\n");
}

void PrintMasking(const theory::Settings& s, const theory::MaskingReport& r) {
  fmt::print(
      "Prop. 1    q = sqrt(E|S(x) - x|^2 / E|x|^2) over the {} local steps\n\n",
      s.steps);
  Table table("lrrr");
  table.Add({"x", "without PM", "with PM", "ratio"});
  const auto row = [&](const char* name, const theory::MaskingError& error) {
    table.Add({name, fmt::format("{:.3f}", error.q_sm),
               fmt::format("{:.3f}", error.q_pm),
               fmt::format("{:.4f}", error.ratio)});
  };
  row("the clients' updates", r.trajectory);
  row("one fixed vector", r.fixed);
  table.Print();
  fmt::print(
      "\nfactor     {:.4f} = sqrt(sum tau/S^2), as PM is drawn for each "
      "parameter: {}\n"
      "           {:.4f} = sqrt(sum tau^2/S^3), Proposition 1: {}\n\n",
      r.elementwise, Verdict(r.elementwise_holds), r.proposition,
      Verdict(r.proposition_holds));
}

void PrintNetwork(const theory::NetworkReport& r) {
  fmt::print(
      "Theorem 2  network of {} parameters, mean over t of |grad F(w_t)|^2\n"
      "           L {:.4g}, sigma {:g}, G {:g}, F(w0) {:.4f}, F* >= 0, q "
      "{:.3g}\n\n",
      r.params, r.constants.L, r.constants.sigma, r.constants.G, r.start_value,
      r.lemma_q);
  Table table("rrrrr");
  table.Add({"T", "FedAvg", "bound", "FedMRN", "bound"});
  for (const NetworkRow& row : r.rows) {
    table.Add({report::Grouped(row.steps), Digits(row.fedavg.mean, 3),
               Digits(row.fedavg_bound, 4), Digits(row.fedmrn.mean, 3),
               Digits(row.fedmrn_bound, 4)});
  }
  table.Print();
  fmt::print(
      "\nslope      FedAvg {}, FedMRN {}, against T\n"
      "           (the bound: -1/2 in the end)\n"
      "bound      at {} T: {}, at the last\n           {}\n",
      SlopeText(r.fedavg), SlopeText(r.fedmrn), r.rows.size(),
      Verdict(r.bound_holds), LooseText(r.rows));
}

Json ToJson(const Estimate& estimate) {
  return {{"mean", estimate.mean}, {"standard_error", estimate.error}};
}

Json ToJson(const theory::Slope& slope) {
  return {{"slope", slope.slope},
          {"standard_error", slope.error},
          {"from", slope.from},
          {"to", slope.to}};
}

Json ToJson(const theory::Constants& c) {
  return {{"L", c.L},         {"mu", c.mu},       {"G", c.G},
          {"sigma", c.sigma}, {"Gamma", c.Gamma}, {"F_star", c.F_star}};
}

Json ToJson(const theory::MaskingError& e) {
  return {{"q_without_pm", e.q_sm},
          {"q_with_pm", e.q_pm},
          {"ratio", e.ratio},
          {"ratio_of_mean_norms", e.ratio_of_norms}};
}

Json ToJson(const theory::Settings& s, const theory::Report& report) {
  Json out;
  out["settings"] = {
      {"clients", s.clients},     {"sampled", s.sampled},
      {"steps", s.steps},         {"dimension", s.dimension},
      {"condition", s.condition}, {"heterogeneity", s.heterogeneity},
      {"rounds", s.rounds},       {"seeds", s.seeds},
      {"seed", s.seed},           {"noise", s.fixed_noise ? "fixed" : "round"},
      {"pm", s.progressive}};
  const theory::ConvexReport& convex = report.convex;
  Json& one = out["theorem1"];
  one["constants"] = ToJson(convex.constants);
  one["gamma"] = convex.gamma;
  one["start_distance_squared"] = convex.start_distance;
  one["gradient_norm_at_w_star"] = convex.residual;
  one["rows"] = Json::array();
  for (const ConvexRow& row : convex.rows) {
    one["rows"].push_back({{"T", row.steps},
                           {"fedavg_gap", ToJson(row.fedavg)},
                           {"fedavg_bound", row.fedavg_bound},
                           {"fedmrn_gap", ToJson(row.fedmrn)},
                           {"fedmrn_bound", row.fedmrn_bound},
                           {"q", row.lemma_q}});
  }
  one["fedavg_slope"] = ToJson(convex.fedavg);
  one["fedmrn_slope"] = ToJson(convex.fedmrn);
  one["largest_gradient"] = convex.largest_gradient;
  one["largest_deviation"] = convex.largest_deviation;
  one["largest_update_over_noise"] = convex.largest_update_over_noise;
  one["assumptions_hold"] = convex.assumptions_hold;
  one["bound_holds"] = convex.bound_holds;

  const theory::MaskingReport& masking = report.masking;
  Json& proposition = out["proposition1"];
  proposition["updates"] = ToJson(masking.trajectory);
  proposition["updates"]["q_of_the_worst_step"] =
      masking.trajectory.largest_q_step;
  proposition["updates"]["q_of_the_final_mask"] = masking.trajectory.q_sent;
  proposition["fixed_vector"] = ToJson(masking.fixed);
  proposition["fixed_vector"]["q_exact"] = masking.fixed_q_exact;
  proposition["proposition_factor"] = masking.proposition;
  proposition["elementwise_factor"] = masking.elementwise;
  proposition["proposition_holds"] = masking.proposition_holds;
  proposition["elementwise_holds"] = masking.elementwise_holds;

  const theory::NetworkReport& network = report.network;
  Json& two = out["theorem2"];
  two["constants"] = ToJson(network.constants);
  two["params"] = network.params;
  two["start_value"] = network.start_value;
  two["q"] = network.lemma_q;
  two["rows"] = Json::array();
  for (const NetworkRow& row : network.rows) {
    two["rows"].push_back({{"T", row.steps},
                           {"fedavg", ToJson(row.fedavg)},
                           {"fedavg_bound", row.fedavg_bound},
                           {"fedmrn", ToJson(row.fedmrn)},
                           {"fedmrn_bound", row.fedmrn_bound}});
  }
  two["fedavg_slope"] = ToJson(network.fedavg);
  two["fedmrn_slope"] = ToJson(network.fedmrn);
  two["largest_gradient"] = network.largest_gradient;
  two["bound_holds"] = network.bound_holds;
  return out;
}

// A row: theorem, T, FedAvg's mean, error and bound, FedMRN's.
std::string Csv(const theory::Report& report) {
  std::string csv =
      "theorem,T,fedavg,fedavg_error,fedavg_bound,fedmrn,fedmrn_error,"
      "fedmrn_bound\n";
  const auto add = [&](int theorem, const auto& row) {
    csv += fmt::format("{},{},{},{},{},{},{},{}\n", theorem, row.steps,
                       row.fedavg.mean, row.fedavg.error, row.fedavg_bound,
                       row.fedmrn.mean, row.fedmrn.error, row.fedmrn_bound);
  };
  for (const ConvexRow& row : report.convex.rows) add(1, row);
  for (const NetworkRow& row : report.network.rows) add(2, row);
  return csv;
}

report::Picture PictureOf(const theory::Report& report) {
  std::string script;
  const auto data = [&](const char* name, const auto& rows) {
    script += fmt::format("${} << EOD\n", name);
    for (const auto& row : rows) {
      script +=
          fmt::format("{} {} {} {} {}\n", row.steps, row.fedavg.mean,
                      row.fedavg_bound, row.fedmrn.mean, row.fedmrn_bound);
    }
    script += "EOD\n";
  };
  data("convex", report.convex.rows);
  data("network", report.network.rows);
  const auto plot = [&](const char* name, const std::string& title,
                        const char* style) {
    script += fmt::format(
        "set title {title} textcolor rgb '#222222' noenhanced\n"
        "plot ${name} using 1:5 with lines dt 2 lw 2 lc rgb '#d62728' "
        "title 'FedMRN, bound', "
        "${name} using 1:4 with {style} lw 2 lc rgb '#d62728' "
        "title 'FedMRN, measured', "
        "${name} using 1:3 with lines dt 2 lw 2 lc rgb '#7f7f7f' "
        "title 'FedAvg, bound', "
        "${name} using 1:2 with {style} lw 2 lc rgb '#7f7f7f' "
        "title 'FedAvg, measured'\n",
        fmt::arg("title", report::GnuplotText(title)), fmt::arg("name", name),
        fmt::arg("style", style));
  };
  script +=
      "set termoption enhanced\n"  // powers of ten
      "set multiplot layout 1,2\n"
      "set border 3 lc rgb '#888888'\n"
      "set tics nomirror scale 0.5 textcolor rgb '#222222'\n"
      "set grid lc rgb '#e4e4e4' lt 1 lw 0.5\n"
      "set logscale xy\n"
      "set format xy '10^{%T}'\n"
      "set xlabel 'local steps T' offset 0,0.4\n"
      "set key outside bottom center horizontal maxcols 2 samplen 3 height 1\n";
  plot("convex", "Theorem 1: E F(w_T) - F*", "lines");
  plot("network", "Theorem 2: mean of |grad F(w_t)|^2", "linespoints pt 7");
  return {"theory", "Measured gaps and the bounds of Theorems 1 and 2", 1100,
          480, script + "unset multiplot\n"};
}

int Run(TheoryOptions options) {
  const auto failed = [](const Error& error) {
    return Fail("fedmrn theory", error);
  };
  theory::Settings& settings = options.settings;
  settings.fixed_noise = options.noise == "fixed";
  settings.progressive = !options.no_pm;
  if (!options.plot.empty() && !report::IsPictureName(options.plot)) {
    return failed({ErrorCode::kBadValue,
                   "--plot " + options.plot + ": must end in .svg or .png"});
  }
  std::vector<std::string> pictures;
  if (!options.plot.empty()) pictures.push_back(options.plot);
  if (!options.out.empty()) {
    const Status made = MakeFolder(options.out);
    if (!made) return failed(made.error());
    pictures.push_back(options.out + "/theory.svg");
  }
  const Result<theory::Report> report = CheckWatched(settings);
  if (!report) {
    return failed({report.error().code, "--" + report.error().ToString()});
  }
  std::vector<std::pair<const char*, std::string>> files;
  if (!options.out.empty()) {
    files.emplace_back("rows", options.out + "/theory.csv");
    const Status written =
        WriteFileAtomically(files[0].second, AsBytes(Csv(*report)));
    if (!written) return failed(written.error());
  }
  for (const std::string& path : pictures) {
    const Status drawn = report::WritePicture(PictureOf(*report), path);
    if (!drawn) return failed(drawn.error());
    files.emplace_back("picture", path);
  }
  if (options.json) {
    fmt::print("{}\n", JsonText(ToJson(settings, *report), 2));
    return kExitOk;
  }
  PrintConvex(settings, report->convex);
  PrintMasking(settings, report->masking);
  PrintNetwork(report->network);
  for (const auto& [what, path] : files) fmt::print("{:<10} {}\n", what, path);
  return kExitOk;
}

}  // namespace

void AddTheory(Verb program) {
  const Verb verb =
      program.AddVerb("theory", "The paper's theorems beside measured errors");
  verb.Footer(
      "FedMRN and FedAvg beside the bounds of Theorems 1 and 2, and the "
      "masking\n"
      "error beside Proposition 1. docs/theory.md says how to read it.");
  auto options = std::make_shared<TheoryOptions>();
  theory::Settings& s = options->settings;
  const auto add = [&](const char* name, auto& value, const char* help) {
    verb.AddOption(name, value, help).ShowDefault();
  };
  add("--clients", s.clients, "Clients, the paper's N");
  add("--sampled", s.sampled, "Clients in a round, K");
  add("--steps", s.steps, "Local steps in a round, S");
  add("--dimension", s.dimension, "Parameters of the convex problem");
  add("--condition", s.condition, "L/mu of the convex problem");
  add("--heterogeneity", s.heterogeneity,
      "How far the clients' data are apart; 0: not at all");
  add("--rounds", s.rounds, "Rounds; T is rounds times steps");
  add("--seeds", s.seeds, "Runs to take the mean of");
  add("--seed", s.seed, "Of the data and of all draws");
  verb.AddOption("--noise", options->noise,
                 "Noise 2*eta*S*G with the first step size of each round, or "
                 "fixed: of the whole run")
      .ShowDefault()
      .OneOf({"round", "fixed"});
  verb.AddFlag("--no-pm", options->no_pm,
               "Without progressive masking, as in the proofs");
  verb.AddFlag("--json", options->json, "Print a JSON object");
  verb.AddOption("--plot", options->plot, "A picture, .svg or .png")
      .Type("FILE");
  verb.AddOption("--out", options->out, "Folder for theory.csv and theory.svg")
      .Type("DIR");
  verb.Do([options] { return Run(*options); });
}

}  // namespace fedmrn::cli
