// What pictures show, told from their scripts.
#include "fedmrn/report/plots.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/report/canvas.h"
#include "fedmrn/report/looks.h"
#include "fedmrn/report/paper.h"
#include "fedmrn/report/test_runs.h"
#include "gtest/gtest.h"

namespace fedmrn::report {
namespace {

bool Has(const Picture& picture, const std::string& text) {
  return picture.script.find(text) != std::string::npos;
}

TEST_F(ReportTest, ManyConfigurationsStandOnSeveralSheets) {
  MakeRun("avg", {kFedAvg}, 0.9);
  for (int i = 1; i <= 20; ++i) {
    MakeRun(fmt::format("m{}", i),
            {kFedMrn, fmt::format("method.magnitude={}", 0.001 * i)}, 0.9);
  }
  const Study study = ReadStudy();
  const Cell& cell = study.settings.at(0).cells.at(0);
  std::set<const Group*> shown;
  for (const Sheet& sheet : SheetsOf(cell)) {
    EXPECT_LE(sheet.size(), 16u);
    // Something to compare with.
    EXPECT_TRUE(sheet[0]->standard);
    shown.insert(sheet.begin(), sheet.end());
  }
  EXPECT_EQ(shown.size(), 21u);
}

TEST_F(ReportTest, VariantsHaveColoursAndDashesOfTheirOwn) {
  MakeRun("avg", {kFedAvg}, 0.9);
  for (const char* noise : {"uniform", "bernoulli", "gaussian"}) {
    MakeRun(noise, {kFedMrn, std::string("method.noise=") + noise}, 0.9);
  }
  const Study study = ReadStudy();
  const Setting& setting = study.settings.at(0);
  const Cell& cell = setting.cells.at(0);
  const std::map<std::string, Look> looks = LooksOf(setting);
  ASSERT_EQ(looks.size(), 4u);
  std::set<std::string_view> colours, dashes;
  std::set<int> markers;
  for (const auto& [label, look] : looks) {
    colours.insert(look.colour);
    if (label == "FedAvg") continue;
    dashes.insert(look.dashes);
    markers.insert(look.marker);
  }
  EXPECT_EQ(colours.size(), 4u);
  EXPECT_EQ(dashes.size(), 3u);
  EXPECT_EQ(markers.size(), 3u);
  // The first of a method is drawn as the method is.
  EXPECT_EQ(looks.at("FedMRN").colour, StyleOf("fedmrn").colour);
  // The key of the curves and the names beside the points show them.
  const Sheet sheet = SheetsOf(cell).at(0);
  const Picture curves =
                    CurvePicture(setting, cell, sheet, 1, Against::kUpload),
                points = TradeOffPicture(setting, cell, sheet, 1);
  for (const auto& [label, look] : looks) {
    EXPECT_TRUE(Has(curves, fmt::format("nohead lw 2 lc rgb '{}' dt {}\n",
                                        look.colour, look.dashes)))
        << label;
    EXPECT_TRUE(Has(points, fmt::format("point pt {} ps 1 lc rgb '{}'\n",
                                        look.marker, look.colour)))
        << label;
  }
}

TEST_F(ReportTest, FiftyVariantsLookDifferent) {
  for (int i = 1; i <= 50; ++i) {
    MakeRun(std::to_string(i),
            {kFedMrn, fmt::format("method.magnitude={}", 0.001 * i)}, 0.9);
  }
  std::set<std::pair<std::string_view, std::string_view>> looks;
  const Study study = ReadStudy();
  for (const auto& [label, look] : LooksOf(study.settings.at(0))) {
    looks.emplace(look.colour, look.dashes);
  }
  EXPECT_EQ(looks.size(), 50u);
}

TEST_F(ReportTest, NoMethodIsDrawnThicker) {
  MakeRun("a", {kFedAvg}, 0.9);
  MakeRun("b", {kFedMrn}, 0.9);
  const Study study = ReadStudy();
  const Setting& setting = study.settings.at(0);
  const Cell& cell = setting.cells.at(0);
  const std::string script =
      CurvePicture(setting, cell, SheetsOf(cell).at(0), 1, Against::kRounds)
          .script;
  for (size_t at = 0; (at = script.find("with lines lw ", at)) != script.npos;
       ++at) {
    EXPECT_EQ(script.substr(at, 16), "with lines lw 2 ");
  }
}

TEST_F(ReportTest, SeedsAreABand) {
  for (const auto& [seed, best] : {std::pair("1", 0.9), std::pair("2", 0.88)}) {
    MakeRun(seed, {kFedMrn, std::string("seed=") + seed}, best);
  }
  MakeRun("one", {kFedAvg}, 0.9);
  const Study study = ReadStudy();
  const Setting& setting = study.settings.at(0);
  const Cell& cell = setting.cells.at(0);
  const Picture picture =
      CurvePicture(setting, cell, SheetsOf(cell).at(0), 1, Against::kRounds);
  // FedAvg's one seed has none. 0.9 and 0.88: 89 and a deviation of 1.414.
  EXPECT_FALSE(Has(picture, "$d0 using 1:($2-$3):($2+$3) with filledcurves"));
  EXPECT_TRUE(Has(picture,
                  "$d1 using 1:($2-$3):($2+$3) with filledcurves lc rgb "
                  "'#d0d55e00'"));
  EXPECT_TRUE(Has(picture, "\n1 89 1.41421356"));
}

TEST_F(ReportTest, RoundsAreWhole) {
  MakeRun("a", {kFedAvg, "rounds.count=2"}, 0.9);
  MakeRun("b", {kFedAvg, "rounds.count=100"}, 0.9);
  const Study study = ReadStudy();
  std::map<uint32_t, std::string> axes;
  for (const Setting& setting : study.settings) {
    const Cell& cell = setting.cells.at(0);
    const std::string script =
        CurvePicture(setting, cell, SheetsOf(cell).at(0), 1, Against::kRounds)
            .script;
    const size_t at = script.find("set xrange");
    axes[setting.rounds] = script.substr(at, script.find("plot") - at);
    EXPECT_EQ(axes[setting.rounds].find("set xrange [0:"), 0u);
  }
  EXPECT_NE(axes[2].find("set xtics 1\n"), std::string::npos) << axes[2];
  EXPECT_NE(axes[100].find("set xtics 50\n"), std::string::npos) << axes[100];
}

TEST(Bars, OneThatIsTooLongIsTornOff) {
  const auto plot = [](double length) {
    return BarPlot(
        "name", "title", {"bits", 0, 2},
        {{"a", {"#112233"}, {1}, "1"}, {"b", {"#445566"}, {length}, "text"}});
  };
  EXPECT_FALSE(Has(plot(2), "polygon"));
  const Picture torn = plot(32);
  // Two pieces with a gap between them, none beyond the axis.
  size_t pieces = 0;
  for (size_t at = 0;
       (at = torn.script.find("set object polygon", at)) != std::string::npos;
       ++at) {
    ++pieces;
  }
  EXPECT_EQ(pieces, 2u);
  EXPECT_FALSE(Has(torn, "32"));
  EXPECT_TRUE(Has(torn, "'text'"));
  EXPECT_TRUE(Draw(torn, PictureFormat::kSvg));
}

}  // namespace
}  // namespace fedmrn::report
