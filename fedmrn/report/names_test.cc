// What a grid's summary and the names of its variants become in a report.
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/report/groups.h"
#include "fedmrn/report/tables.h"
#include "fedmrn/report/test_runs.h"
#include "fedmrn/results/grid_place.h"
#include "gtest/gtest.h"

namespace fedmrn::report {
namespace {

class GridNamesTest : public ReportTest {
 protected:
  void MakeGridRun(
      const std::string& name, const std::string& summary,
      const std::vector<std::pair<std::string, std::string>>& labels,
      const std::vector<std::string>& settings) {
    MakeRun(name, settings, 0.9);
    ASSERT_TRUE(results::WriteGridPlace(Path(name), {summary, labels}));
  }
  static std::vector<std::string> Labels(const Setting& setting) {
    std::vector<std::string> labels;
    for (const Setting::Row& row : setting.Rows()) labels.push_back(row.label);
    return labels;
  }

  const std::string few_ = "rounds.count=20",
                    bernoulli_ = "method.noise=bernoulli";
};

TEST_F(GridNamesTest, VariantsAndSummaryNameWhatIsNotThePapers) {
  for (const char* seed : {"1", "2"}) {
    const std::string its = std::string("seed=") + seed;
    MakeGridRun("avg" + its, "Noises", {{"method", "fedavg"}, {"seed", seed}},
                {kFedAvg, few_, its});
    MakeGridRun("uni" + its, "Noises", {{"method", "plain"}, {"seed", seed}},
                {kFedMrn, few_, its});
    MakeGridRun("ber" + its, "Noises", {{"method", "coins"}, {"seed", seed}},
                {kFedMrn, few_, its, bernoulli_});
  }
  const Study study = ReadStudy();
  EXPECT_EQ(study.title, "Noises");
  EXPECT_EQ(study.settings.at(0).name, "FMNIST, 20 rounds × 10 epochs");
  EXPECT_EQ(Labels(study.settings[0]),
            (std::vector<std::string>{"FedAvg", "plain", "coins"}));
  EXPECT_NE(MarkdownReport(study).find("\nNoises\n"), std::string::npos);
}

TEST_F(GridNamesTest, NumbersAndAnswersKeepTheirAxis) {
  for (const char* lr : {"0.1", "0.3"}) {
    for (const char* pm : {"true", "false"}) {
      MakeGridRun(std::string(lr) + pm, "",
                  {{"method", "mine"}, {"lr", lr}, {"progressive", pm}},
                  {kFedMrn, few_, std::string("train.lr=") + lr,
                   std::string("method.progressive=") + pm});
    }
  }
  EXPECT_EQ(Labels(ReadStudy().settings.at(0)),
            (std::vector<std::string>{
                "lr=0.1, progressive=true", "lr=0.1, progressive=false",
                "lr=0.3, progressive=true", "lr=0.3, progressive=false"}));
}

TEST_F(GridNamesTest, ThePapersProtocolKeepsThePapersWords) {
  MakeGridRun("a", "Mine", {{"method", "one"}}, {kFedMrn, kLabels, kCyclic});
  MakeGridRun("b", "Mine", {{"method", "two"}},
              {kFedMrn, kLabels, kCyclic, "method.stochastic=false"});
  const Study study = ReadStudy();
  EXPECT_EQ(Labels(study.settings.at(0)),
            (std::vector<std::string>{"FedMRN", "FedMRN w/o SM"}));
  EXPECT_EQ(study.settings[0].cells.at(0).name, "Non-IID-2");
}

TEST_F(GridNamesTest, NamesOfTwoGridsThatClashAreNotTaken) {
  MakeGridRun("a/x", "One", {{"method", "x"}}, {kFedMrn, few_});
  MakeGridRun("a/y", "One", {{"method", "y"}}, {kFedAvg, few_});
  MakeGridRun("b/x", "Two", {{"method", "x"}}, {kFedMrn, few_, bernoulli_});
  const Study study = ReadStudy();
  EXPECT_EQ(study.title, "");
  EXPECT_EQ(Labels(study.settings.at(0)),
            (std::vector<std::string>{"FedAvg", "FedMRN", "FedMRN Bernoulli"}));
}

TEST_F(GridNamesTest, SettingsOfSeveralGridsCarryTheirSummaries) {
  MakeGridRun("a", "One", {}, {kFedMrn, few_});
  MakeGridRun("b", "Two", {}, {kFedMrn, "rounds.count=30"});
  MakeRun("c", {kFedMrn, "rounds.count=40"}, 0.9);
  const Study study = ReadStudy();
  std::vector<std::string> names;
  for (const Setting& setting : study.settings) names.push_back(setting.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"FMNIST, 40 rounds × 10 epochs",
                                      "Two: FMNIST, 30 rounds × 10 epochs",
                                      "One: FMNIST, 20 rounds × 10 epochs"}));
}

}  // namespace
}  // namespace fedmrn::report
