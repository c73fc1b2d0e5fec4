#include <cmath>
#include <filesystem>
#include <set>

#include "fedmrn/report/class_table.h"
#include "fedmrn/report/groups.h"
#include "fedmrn/report/page.h"
#include "fedmrn/report/plots.h"
#include "fedmrn/report/tables.h"
#include "fedmrn/report/test_runs.h"
#include "fedmrn/report/text.h"
#include "fedmrn/sim/config.h"
#include "gtest/gtest.h"

namespace fedmrn::report {
namespace {

TEST(Text, Quoting) {
  EXPECT_EQ(ShellWord("runs/a-1.toml"), "runs/a-1.toml");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(GnuplotText("it's\na"), "'it''s a'");
  EXPECT_EQ(Decimals(0.003, 2), "0.003");
  EXPECT_EQ(Decimals(-0.0049, 2), "-0.005");
  EXPECT_EQ(Decimals(0.006, 2), "0.01");
  EXPECT_EQ(Decimals(0, 2), "0.00");
  EXPECT_EQ(Decimals(12, 1), "12.0");
  EXPECT_EQ(Decimals(3e-9, 2), "3e-09");
  EXPECT_EQ(Megabytes(430), "0.0004 MB");
  EXPECT_EQ(HtmlText("<a href=\"&\">"), "&lt;a href=&quot;&amp;&quot;&gt;");
}

TEST_F(ReportTest, SeedsAreOneGroup) {
  for (const char* seed : {"10", "9", "8"}) {
    MakeRun(std::string("run") + seed,
            {kFedMrn, kLabels, kCyclic, std::string("seed=") + seed},
            0.80 + 0.01 * std::stoi(seed));
  }
  const Study study = ReadStudy();
  ASSERT_EQ(study.settings.size(), 1u);
  const Setting& setting = study.settings[0];
  EXPECT_EQ(setting.name, "FMNIST, 100 rounds × 10 epochs");
  ASSERT_EQ(setting.cells.size(), 1u);
  EXPECT_EQ(setting.cells[0].name, "Non-IID-2");
  EXPECT_TRUE(setting.IsPapers(setting.cells[0]));
  ASSERT_EQ(setting.cells[0].groups.size(), 1u);
  const Group& group = setting.cells[0].groups[0];
  EXPECT_EQ(group.label, "FedMRN");
  EXPECT_TRUE(group.standard);
  EXPECT_EQ(group.runs[0]->Get("seed"), "8");
  EXPECT_NEAR(group.best.mean, 89, 1e-9);
  EXPECT_NEAR(group.best.std, 1, 1e-9);
  EXPECT_NEAR(group.last.mean, 88, 1e-9);
  EXPECT_NEAR(group.last_ten.mean, 88.5, 1e-9);
  EXPECT_NEAR(group.last_ten.std, 1, 1e-9);
  EXPECT_NEAR(group.swing, std::sqrt(0.5), 1e-9);
  EXPECT_EQ(group.last_rounds, 2u);
  EXPECT_NEAR(group.uploaded_mb, 2 * (250 + 80 + 100) / 1e6, 1e-12);
  EXPECT_DOUBLE_EQ(group.cost.payload_bits, 1);
  EXPECT_DOUBLE_EQ(group.cost.plain_bits, 0.32);
  EXPECT_DOUBLE_EQ(group.cost.header_bits, 0.4);
  EXPECT_DOUBLE_EQ(group.cost.float32_bits, 32.32);
  EXPECT_DOUBLE_EQ(group.cost.train_s, 4);
  EXPECT_DOUBLE_EQ(group.cost.encode_s, 0.25);
}

TEST_F(ReportTest, LabelsTellGroupsApart) {
  MakeRun("a", {kFedMrn}, 0.9);
  MakeRun("b", {kFedMrn, "method.magnitude=0.02"}, 0.9);
  MakeRun("c", {kFedMrn, "method.noise=gaussian", "method.magnitude=0.02"},
          0.9);
  MakeRun("d", {kFedMrn, "method.stochastic=false"}, 0.9);
  MakeRun("e", {kFedMrn, "method.progressive=false", "method.stochastic=false"},
          0.9);
  MakeRun("f", {kFedMrn, "train.lr=0.3"}, 0.9);
  MakeRun("i", {kFedMrn, "train.lr=0.05"}, 0.9);
  MakeRun("g", {kFedMrn, "method.dense=float16"}, 0.9);
  MakeRun("h", {kFedAvg, "train.lr=1.0"}, 0.9);
  const Study study = ReadStudy();
  ASSERT_EQ(study.settings.size(), 1u);
  const Cell& cell = study.settings[0].cells.at(0);
  std::vector<std::string> labels;
  for (const Group& group : cell.groups) labels.push_back(group.label);
  EXPECT_EQ(labels,
            (std::vector<std::string>{
                "FedAvg", "FedMRN", "FedMRN lr=0.05", "FedMRN w/o SM",
                "FedMRN w/o PSM", "FedMRN dense=float16", "FedMRN lr=0.3",
                "FedMRN magnitude=0.02", "FedMRN magnitude=0.02 Gaussian"}));
  EXPECT_TRUE(cell.Labelled("FedMRN w/o SM")->ablation);
  EXPECT_TRUE(cell.Labelled("FedMRN magnitude=0.02")->noise_variant);
  // The only one of its method: tuned, as the paper's were.
  EXPECT_TRUE(cell.Standard("fedavg")->standard);
}

TEST_F(ReportTest, SettingsStandApart) {
  MakeRun("a", {kFedAvg}, 0.9);
  MakeRun("b", {kFedAvg, "rounds.count=20"}, 0.9);
  MakeRun("c", {kFedAvg, "train.batch=32"}, 0.9);
  MakeRun("d", {kFedAvg, "data.name=svhn"}, 0.9);
  // These change nothing that is compared.
  MakeRun("e", {kFedAvg, "seed=2", "run.workers=7", "data.dir=/else"}, 0.9);
  MakeRun("f", {kFedAvg, "seed=3", "partition.alpha=0.1"}, 0.9);
  const Study study = ReadStudy();
  std::vector<std::string> names;
  for (const Setting& setting : study.settings) names.push_back(setting.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "FMNIST, 100 rounds × 10 epochs, batch=32",
                       "FMNIST, 100 rounds × 10 epochs, batch=64",
                       "FMNIST, 20 rounds × 10 epochs",
                       "SVHN, 100 rounds × 10 epochs"}));
  EXPECT_EQ(study.settings[1].cells.at(0).groups.at(0).runs.size(), 3u);
}

// As of fedmrn tune --grid lr=0.3,0.1,0.03 --grid magnitude=0.01,0.05.
TEST_F(ReportTest, EveryConfigurationStandsInEveryTable) {
  for (const char* lr : {"0.3", "0.1", "0.03"}) {
    for (const char* magnitude : {"0.01", "0.05"}) {
      MakeRun(fmt::format("{}-{}", lr, magnitude),
              {kFedMrn, std::string("train.lr=") + lr,
               std::string("method.magnitude=") + magnitude},
              0.9);
    }
  }
  MakeRun("part", {kFedMrn, "method.stochastic=false"}, 0.8);
  // Runs of another version, with and without a key that nobody here knows.
  MakeRun("unknown", {"method.name=eden"}, 0.7);
  MakeRun("none", {"method.name=eden"}, 0.6);
  Edit("unknown", [](Json& json) { json["config"]["method"]["made_up"] = 1; });
  const Study study = ReadStudy();
  const Setting& setting = study.settings.at(0);
  const Cell& cell = setting.cells.at(0);
  const std::vector<std::string> labels = {"EDEN",
                                           "EDEN made_up=1",
                                           "FedMRN",
                                           "FedMRN lr=0.3",
                                           "FedMRN lr=0.03",
                                           "FedMRN w/o SM",
                                           "FedMRN magnitude=0.05 lr=0.3",
                                           "FedMRN magnitude=0.05 lr=0.03",
                                           "FedMRN magnitude=0.05"};
  for (const Table& table : {AccuracyTable(setting, cell), UploadTable(setting),
                             TimeTable(setting)}) {
    std::set<std::string> rows;
    for (const auto& row : table.rows) rows.insert(row[0]);
    EXPECT_EQ(rows, std::set(labels.begin(), labels.end()));
  }
  std::vector<Picture> pictures = {TrainTimePicture(setting),
                                   CompressionTimePicture(setting),
                                   UploadPicture(setting)};
  const std::vector<Sheet> sheets = SheetsOf(cell);
  ASSERT_EQ(sheets.size(), 1u);
  pictures.push_back(
      CurvePicture(setting, cell, sheets[0], 1, Against::kRounds));
  pictures.push_back(
      CurvePicture(setting, cell, sheets[0], 1, Against::kUpload));
  pictures.push_back(TradeOffPicture(setting, cell, sheets[0], 1));
  // A line for each rate, and for the one without SM.
  const Picture noise = *NoisePicture(setting, cell, "fedmrn");
  for (const char* line : {"'uniform'", "'uniform, lr=0.3'",
                           "'uniform, lr=0.03'", "'uniform, w/o SM'"}) {
    EXPECT_NE(noise.script.find(line), std::string::npos) << line;
  }
  // Of other noise there is that picture, of all else this one.
  const Picture ablation = *AblationPicture(setting, cell);
  for (const char* bar : {"'FedMRN'", "'FedMRN lr=0.3'", "'FedMRN w/o SM'"}) {
    EXPECT_NE(ablation.script.find(bar), std::string::npos) << bar;
  }
  EXPECT_EQ(ablation.script.find("'FedMRN magnitude=0.05'"), std::string::npos);
  const std::string markdown = MarkdownReport(study), csv = CsvReport(study);
  for (const std::string& label : labels) {
    for (const Picture& picture : pictures) {
      EXPECT_NE(picture.script.find("'" + label + "'"), std::string::npos)
          << label << " in " << picture.name;
    }
    EXPECT_NE(csv.find("," + label + ","), csv.npos) << label;
    size_t tables = 0;
    for (size_t at = 0;
         (at = markdown.find("| " + label + " |", at)) != markdown.npos; ++at) {
      ++tables;
    }
    EXPECT_EQ(tables, 3u) << label;
  }
}

TEST_F(ReportTest, RowsBesideThePlainOnesReadWell) {
  const std::string topk = "method.name=topk", fedpm = "method.name=fedpm";
  MakeRun("a", {topk}, 0.9);
  MakeRun("b", {topk, "method.error_feedback=true"}, 0.9);
  MakeRun("c", {fedpm}, 0.9);
  MakeRun("d", {fedpm, "method.optimizer=sgd"}, 0.9);
  MakeRun("e", {"method.name=drive-biased"}, 0.9);
  const Study study = ReadStudy();
  std::vector<std::string> labels;
  for (const Setting::Row& row : study.settings.at(0).Rows()) {
    labels.push_back(row.label);
  }
  EXPECT_EQ(labels, (std::vector<std::string>{
                        "FedPM", "FedPM with SGD", "Top-k",
                        "Top-k with error feedback", "DRIVE (biased)"}));
}

TEST_F(ReportTest, DifferencesAreToldOnlyWhereSeedsTellThem) {
  const auto seeds = [&](const std::string& method,
                         const std::vector<double>& scores) {
    for (size_t i = 0; i < scores.size(); ++i) {
      MakeRun(method + std::to_string(i),
              {"method.name=" + method, kLabels, kCyclic,
               "seed=" + std::to_string(i + 1)},
              scores[i]);
    }
  };
  seeds("fedavg", {0.80, 0.90, 0.91});
  // Steadily by little: the seeds' own ups and downs are FedAvg's as well.
  seeds("signsgd", {0.79, 0.892, 0.902});
  // By more, and by less than two errors; a seed that FedAvg does not have
  // tells nothing.
  seeds("fedmrn", {0.81, 0.87, 0.89, 0.99});
  seeds("eden", {0.5});  // however far it is
  const Study study = ReadStudy();
  const Setting& setting = study.settings.at(0);
  EXPECT_EQ(
      AccuracyTable(setting, setting.cells.at(0)).rows,
      (std::vector<std::vector<std::string>>{
          {"FedAvg", "3", "87.00 ± 6.08", kGap, "86.50 ± 6.08", "0.71", kGap,
           "88.8 ± 0.2", "not told apart"},
          {"SignSGD", "3", "86.13 ± 6.20", "−0.87", "85.63 ± 6.20", "0.71",
           "−0.87", "87.1 ± 0.3", "not told apart"},
          {"EDEN", "1", "50.00", "one seed", "49.50", "0.71", "one seed",
           "88.3 ± 0.3", "one seed"},
          {"FedMRN", "4", "89.00 ± 7.48", "not told apart", "88.50 ± 7.48",
           "0.71", "not told apart", "88.6 ± 0.2", "not told apart"}}));
  EXPECT_TRUE(ProtocolNote(setting, setting.cells.at(0))
                  .starts_with("1 to 4 seeds, and each asks other clients: "
                               "between rows of other seeds only differences "
                               "compare; of the last ten"))
      << ProtocolNote(setting, setting.cells.at(0));
}

// Of the paper's number only mean and deviation are known.
TEST_F(ReportTest, DifferencesToThePaperAreOfMeans) {
  for (const char* seed : {"1", "2"}) {
    MakeRun(seed, {kFedAvg, kLabels, kCyclic, std::string("seed=") + seed},
            0.90 + 0.001 * std::stoi(seed));
  }
  const Study study = ReadStudy();
  const Setting& setting = study.settings.at(0);
  EXPECT_EQ(AccuracyTable(setting, setting.cells.at(0)).rows.at(0).at(8),
            "+1.35");
}

// A method may be ahead of FedAvg at one rate and behind it at another.
TEST_F(ReportTest, TheReferenceIsNamedWhereFedAvgHasSeveralRows) {
  MakeRun("a", {kFedAvg}, 0.8);
  MakeRun("b", {kFedMrn}, 0.85);
  const Study one = ReadStudy();
  EXPECT_EQ(AccuracyTable(one.settings.at(0), one.settings[0].cells.at(0))
                .columns.at(3),
            "to FedAvg");
  MakeRun("c", {kFedAvg, "train.lr=0.1"}, 0.9);
  const Study study = ReadStudy();
  EXPECT_EQ(AccuracyTable(study.settings.at(0), study.settings[0].cells.at(0))
                .columns.at(3),
            "to FedAvg lr=0.03");
}

TEST_F(ReportTest, RunsWithoutASeedInCommonAreNotCompared) {
  MakeRun("a", {kFedAvg, "seed=1"}, 0.8);
  MakeRun("b", {kFedMrn, "seed=2"}, 0.9);
  const Study study = ReadStudy();
  const Setting& setting = study.settings.at(0);
  EXPECT_EQ(AccuracyTable(setting, setting.cells.at(0)).rows.at(1).at(3),
            "no seed of both");
}

TEST_F(ReportTest, WithoutFedAvgTheBestIsTheReference) {
  for (const char* seed : {"seed=1", "seed=2"}) {
    MakeRun(std::string("a") + seed, {kFedMrn, seed}, 0.9);
    MakeRun(std::string("b") + seed, {kFedMrn, seed, "train.lr=0.3"}, 0.8);
  }
  const Study study = ReadStudy();
  const Setting& setting = study.settings.at(0);
  const Table table = AccuracyTable(setting, setting.cells.at(0));
  EXPECT_EQ(table.columns.at(3), "to the best");
  EXPECT_EQ(table.rows.at(0).at(3), "the best");
  EXPECT_EQ(table.rows.at(1).at(3), "−10.00");
  // One seed makes no claim.
  std::filesystem::remove_all(Path("aseed=2"));
  const Study one = ReadStudy();
  const Table single =
      AccuracyTable(one.settings.at(0), one.settings.at(0).cells.at(0));
  EXPECT_EQ(single.rows.at(0).at(3), "one seed");
  EXPECT_EQ(single.rows.at(1).at(3), "one seed");
}

// Ours or not.
TEST_F(ReportTest, TheBestOfAColumnIsBold) {
  MakeRun("a", {kFedAvg}, 0.90);
  MakeRun("b", {kFedMrn}, 0.88);
  MakeRun("c", {"method.name=eden"}, 0.90);
  const Study study = ReadStudy();
  const Setting& setting = study.settings.at(0);
  const Table table = AccuracyTable(setting, setting.cells.at(0));
  // FedAvg, EDEN, FedMRN: two read the same.
  const std::set<std::pair<size_t, size_t>> best = {
      {0, 2}, {1, 2}, {0, 4}, {1, 4}};
  EXPECT_EQ(table.best, best);
  EXPECT_NE(MarkdownTable(table).find("| EDEN | 1 | **90.00** |"),
            std::string::npos);
  EXPECT_NE(HtmlTable(table).find("<b>90.00</b></td>"), std::string::npos);
  EXPECT_EQ(HtmlTable(table).find("class=\"ours\""), std::string::npos);
  // All cost the same: none is the best.
  EXPECT_TRUE(UploadTable(setting).best.empty());
}

TEST_F(ReportTest, OlderRunsHaveTheDefaultsOfYoungerKeys) {
  MakeRun("new", {kFedMrn}, 0.9);
  MakeRun("old", {kFedMrn, "seed=2"}, 0.8);
  Edit("old", [](Json& json) {
    json["config"]["rounds"].erase("deadline_s");
    json["config"]["method"].erase("error_feedback");
    json["config"].erase("faults");
  });
  const Study study = ReadStudy();
  ASSERT_EQ(study.settings.size(), 1u);
  ASSERT_EQ(study.settings[0].cells.at(0).groups.size(), 1u);
  const Group& group = study.settings[0].cells[0].groups[0];
  EXPECT_EQ(group.label, "FedMRN");
  EXPECT_EQ(group.runs.size(), 2u);
  // What the page shows of it can be run.
  for (const SavedRun& run : study.runs) {
    const Result<sim::Config> config =
        sim::ParseConfig(ConfigToml(run), "", {});
    EXPECT_TRUE(config) << config.error().ToString();
  }
}

TEST_F(ReportTest, OlderRunsAreCalledAsTheyAreNow) {
  MakeRun("new", {"method.name=drive"}, 0.9);
  // Its partition follows from its seed, which makes it no other partition.
  MakeRun("old", {"method.name=drive", "seed=2"}, 0.8);
  Edit("old", [](Json& json) {
    json["config"]["partition"].erase("seed");
    json["config"]["method"]["unbiased"] = false;
  });
  const Study study = ReadStudy();
  const Cell& cell = study.settings.at(0).cells.at(0);
  ASSERT_EQ(cell.groups.size(), 2u);
  EXPECT_EQ(cell.groups[0].label, "DRIVE");
  EXPECT_EQ(cell.groups[1].label, "DRIVE (biased)");
  EXPECT_EQ(study.runs.at(0).Get("partition.seed"), "1");
  EXPECT_EQ(study.runs.at(1).Get("partition.seed"), "2");
}

TEST_F(ReportTest, RepeatedAndUnfinishedRunsDoNotCount) {
  MakeRun("grid1/a", {kFedAvg}, 0.8);
  MakeRun("grid2/a", {kFedAvg, "run.workers=3"}, 0.9);
  MakeRun("half", {kFedAvg, "seed=2"}, 0.9, /*finished=*/false);
  // Given twice, and below what is given.
  const Study study = MakeStudy(
      ReadRuns(std::vector{folder_, Path("grid1/"), folder_ + "/."}).value());
  EXPECT_EQ(study.runs.size(), 3u);
  EXPECT_EQ(study.repeated, 1u);
  EXPECT_EQ(study.unfinished, 1u);
  EXPECT_EQ(study.same_as[1], &study.runs[0]);
  const Group& group = study.settings.at(0).cells.at(0).groups.at(0);
  EXPECT_EQ(group.runs.size(), 1u);
  EXPECT_NEAR(group.best.mean, 80, 1e-9);
}

TEST_F(ReportTest, Tables) {
  for (const char* kind : {"iid", "dirichlet", "labels"}) {
    const std::string partition = std::string("partition.kind=") + kind;
    for (const char* seed : {"1", "2"}) {
      const std::string name = std::string(kind) + seed,
                        setting = std::string("seed=") + seed;
      const double more = 0.001 * std::stoi(seed);
      MakeRun(name + "-avg", {kFedAvg, partition, kCyclic, setting},
              0.9 + more);
      MakeRun(name + "-mrn", {kFedMrn, partition, kCyclic, setting},
              0.88 + more);
    }
  }
  MakeRun("signed", {"method.name=fedmrns", "seed=1"}, 0.91);
  const Study study = ReadStudy();
  const Table loss = LossTable(study);
  EXPECT_EQ(loss.rows,
            (std::vector<std::vector<std::string>>{{"FedMRN", "−6.0", "−0.7"},
                                                   {"FedMRNS", kGap, "+0.1"}}));
  EXPECT_EQ(UploadTable(study.settings[0]).rows.at(1),
            (std::vector<std::string>{"FedMRN", "1.720", "1.000", "0.320",
                                      "0.400", "18.8", "0.0009"}));
  EXPECT_EQ(TimeTable(study.settings[0]).rows.at(1),
            (std::vector<std::string>{"FedMRN", "4.000", "250.00", "6.25"}));
  EXPECT_EQ(MarkdownTable(loss),
            "| Method | FMNIST, 100 rounds × 10 epochs: ours | FMNIST, 100 "
            "rounds × 10 epochs: paper |\n|---|---:|---:|\n"
            "| FedMRN | −6.0 | −0.7 |\n| FedMRNS | — | +0.1 |\n");
}

// A run here has its best in the first round, after 430 bytes, and a point less
// in the second, after 860.
TEST_F(ReportTest, RoundsAndUploadToATarget) {
  MakeRun("1", {kFedAvg, "seed=1"}, 0.5);
  MakeRun("2", {kFedAvg, "seed=2"}, 0.9);
  MakeRun("3", {kFedMrn}, 0.8);
  Study study = ReadStudy();
  const Setting& setting = study.settings.at(0);
  EXPECT_TRUE(std::isnan(TargetOf(study, setting)));
  EXPECT_EQ(MarkdownReport(study).find("target"), std::string::npos);
  study.target = 0.795;
  const Table table =
      TargetTable(setting, setting.cells.at(0), TargetOf(study, setting));
  EXPECT_EQ(MarkdownTable(table),
            "| Method | to 79.5 %: reached | to 79.5 %: rounds | to 79.5 %: MB "
            "|\n|---|---:|---:|---:|\n| FedAvg | 1 of 2 | 1.0 | 0.0004 |\n"
            "| FedMRN | 1 of 1 | 1.0 | 0.0004 |\n");
  EXPECT_NE(CsvReport(study).find(",0.795,1,1,0.00043\n"), std::string::npos);
  EXPECT_NE(MarkdownReport(study).find("## To a target"), std::string::npos);
  study.target = 0.95;
  EXPECT_EQ(TargetTable(setting, setting.cells.at(0), 0.95).rows.at(1),
            (std::vector<std::string>{"FedMRN", "0 of 1", kGap, kGap}));
  EXPECT_NE(CsvReport(study).find(",0.95,0,,\n"), std::string::npos);
}

// Without --target it is what the runs themselves were to reach.
TEST_F(ReportTest, TheTargetOfTheRuns) {
  MakeRun("1", {kFedAvg, "rounds.target_accuracy=0.6"}, 0.5);
  MakeRun("2", {kFedMrn, "rounds.target_accuracy=0.6"}, 0.9);
  Study study = ReadStudy();
  ASSERT_EQ(study.settings.size(), 1u);
  EXPECT_EQ(TargetOf(study, study.settings[0]), 0.6);
  study.target = 0.7;
  EXPECT_EQ(TargetOf(study, study.settings[0]), 0.7);
}

TEST_F(ReportTest, WhichClassWasTakenForWhich) {
  MakeRun("a", {kFedAvg}, 0.9);
  Edit("a", [](Json& run) {
    run["last"]["confusion"] = {{3, 1, 0}, {0, 2000, 0}, {0, 0, 0}};
  });
  Study study = ReadStudy();
  const Table table = ClassTable(study.runs.at(0).confusion);
  EXPECT_EQ(MarkdownTable(table),
            "| Truth | answer: 0 | answer: 1 | answer: 2 | right, % |\n"
            "|---|---:|---:|---:|---:|\n| 0 | 3 | 1 | · | 75.0 |\n"
            "| 1 | · | 2,000 | · | 100.0 |\n| 2 | · | · | · | — |\n");
  EXPECT_NE(HtmlTable(table).find("<td style=\"--shade:0.25\">1</td>"),
            std::string::npos);
  // One that is not square is none.
  Edit("a", [](Json& run) { run["last"]["confusion"] = {{3, 1}, {0}}; });
  EXPECT_EQ(ReadStudy().runs.at(0).confusion.classes(), 0u);
}

TEST_F(ReportTest, ConfigReadsBack) {
  const std::vector<std::string> settings = {
      kFedMrn, kLabels, "seed=7", "data.dir=a \"folder\"", "train.lr=0.3"};
  MakeRun("a", settings, 0.9);
  const std::vector<SavedRun> runs = ReadRuns(std::vector{folder_}).value();
  const Result<sim::Config> config =
      sim::ParseConfig(ConfigToml(runs.at(0)), "", {});
  ASSERT_TRUE(config) << config.error().ToString();
  EXPECT_EQ(sim::ConfigValues(*config),
            sim::ConfigValues(sim::ParseConfig("", "", settings).value()));
}

TEST_F(ReportTest, KnowsItsOwnFiles) {
  MakeRun("a", {kFedAvg}, 0.9);
  const Study study = ReadStudy();
  EXPECT_TRUE(MadeByReport(CsvReport(study)));
  EXPECT_TRUE(MadeByReport(MarkdownReport(study)));
  EXPECT_FALSE(MadeByReport(""));
  EXPECT_FALSE(MadeByReport("<!doctype html>\n<html></html>\n"));
  EXPECT_FALSE(MadeByReport("data,setting\n"));
}

}  // namespace
}  // namespace fedmrn::report
