#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "fedmrn/base/files.h"
#include "fedmrn/base/json.h"
#include "fedmrn/report/groups.h"
#include "fedmrn/report/page.h"
#include "fedmrn/report/paper.h"
#include "fedmrn/report/runs.h"
#include "fedmrn/report/tables.h"
#include "fedmrn/report/text.h"
#include "fedmrn/results/results.h"
#include "fedmrn/sim/config.h"
#include "gtest/gtest.h"

namespace fedmrn::report {
namespace {

constexpr uint64_t kParams = 1000, kPlain = 10;

class ReportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "report_test-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const {
    return folder_ + "/" + name;
  }

  // Two rounds, the first with the best accuracy, of two clients each.
  void MakeRun(const std::string& name,
               const std::vector<std::string>& settings, double best,
               bool finished = true) {
    const sim::Config config = sim::ParseConfig("", "", settings).value();
    std::vector<results::RoundRow> rows(2);
    for (uint32_t i = 0; i < rows.size(); ++i) {
      rows[i].round = i + 1;
      rows[i].score = best - 0.01 * i;
      rows[i].loss = 1;
      rows[i].payload_bytes = 2 * kParams / 8;
      rows[i].plain_bytes = 2 * 4 * kPlain;
      rows[i].uplink_bytes = rows[i].payload_bytes + rows[i].plain_bytes + 100;
      rows[i].clients = 2;
      rows[i].train_s = 8;
      rows[i].encode_s = 0.5;
      rows[i].wall_s = 10;
    }
    results::RunInfo info;
    info.version = "1.2.3";
    info.started = 1'700'000'000;
    if (finished) info.ended = info.started + 20;
    info.coded_params = kParams;
    info.plain_values = kPlain;
    info.model_sha256 = "abc";
    std::filesystem::create_directories(Path(name));
    ASSERT_TRUE(results::WriteRunJson(Path(name + "/run.json"),
                                      sim::ConfigValues(config), info, rows));
    ASSERT_TRUE(results::WriteRoundsCsv(Path(name + "/rounds.csv"), rows));
  }

  // Changes run.json as a run of another version has it.
  void Edit(const std::string& name, const std::function<void(Json&)>& edit) {
    const std::string path = Path(name + "/run.json");
    Json json = ParseJson(AsText(ReadFile(path).value()));
    edit(json);
    ASSERT_TRUE(WriteFileAtomically(path, AsBytes(JsonText(json))));
  }

  Study ReadStudy() const {
    return MakeStudy(ReadRuns(std::vector{folder_}).value());
  }

  std::string folder_;
};

const std::string kFedAvg = "method.name=fedavg",
                  kFedMrn = "method.name=fedmrn",
                  kLabels = "partition.kind=labels";

TEST(Paper, Table2FollowsFromTable1) {
  size_t compared = 0;
  for (const MethodStyle& method : MethodStyles()) {
    for (const PaperData& data : PaperDataSets()) {
      const auto published = PaperTable2(method.name, data.name);
      if (!published) continue;
      double loss = 0;
      for (const PaperPartition& partition : kPaperPartitions) {
        loss += PaperResult(method.name, data.name, partition.kind)->mean -
                PaperResult("fedavg", data.name, partition.kind)->mean;
      }
      // Rounding seven numbers to 0.1 can make 0.35; the most there is are 0.2,
      // of TernGrad on FMNIST.
      EXPECT_NEAR(loss, *published, 0.201) << method.name << " " << data.name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 9u * 4u);
}

TEST(Paper, Numbers) {
  EXPECT_EQ(PaperResult("fedmrn", "cifar100", "labels")->mean, 53.9);
  EXPECT_EQ(PaperResult("fedpm", "svhn", "labels")->std, 2.3);
  EXPECT_FALSE(PaperResult("fedbat", "svhn", "labels"));
  EXPECT_FALSE(PaperResult("fedavg", "synthetic", "labels"));
  EXPECT_FALSE(PaperResult("fedavg", "svhn", "natural"));
  EXPECT_EQ(PaperResult("fedmrn", "shakespeare", "natural")->mean, 51.1);
  EXPECT_EQ(PaperResult("eden", "voc", "labels")->std, .2);
  EXPECT_FALSE(PaperResult("drive", "voc", "labels"));
  EXPECT_FALSE(PaperResult("eden", "voc", "iid"));
  EXPECT_FALSE(PaperTable2("eden", "voc"));
  EXPECT_FALSE(PaperTable2("fedavg", "svhn"));
}

// Each config says in its first line which number of the paper it is for.
TEST(Paper, AgreesWithConfigs) {
  size_t compared = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(FEDMRN_SOURCE_DIR "/configs")) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path());
    std::string line;
    std::getline(file, line);
    const Result<sim::Config> config = sim::LoadConfig(entry.path(), {});
    ASSERT_TRUE(config) << config.error().ToString();
    const auto paper =
        PaperResult(config->method.name, config->data.name,
                    NameOf(config->partition.kind, sim::kPartitionKinds));
    if (!paper) continue;
    EXPECT_TRUE(line.find(fmt::format(" {:.1f} %", paper->mean)) != line.npos)
        << entry.path() << ": " << line;
    ++compared;
  }
  EXPECT_GE(compared, 36u);
}

TEST(Text, Quoting) {
  EXPECT_EQ(ShellWord("runs/a-1.toml"), "runs/a-1.toml");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(GnuplotText("it's\na"), "'it''s a'");
  EXPECT_EQ(HtmlText("<a href=\"&\">"), "&lt;a href=&quot;&amp;&quot;&gt;");
}

TEST_F(ReportTest, SeedsAreOneGroup) {
  for (const char* seed : {"10", "9", "8"}) {
    MakeRun(std::string("run") + seed,
            {kFedMrn, kLabels, std::string("seed=") + seed},
            0.80 + 0.01 * std::stoi(seed));
  }
  const Study study = ReadStudy();
  ASSERT_EQ(study.settings.size(), 1u);
  const Setting& setting = study.settings[0];
  EXPECT_EQ(setting.name, "FMNIST, 100 rounds × 10 epochs");
  ASSERT_EQ(setting.cells.size(), 1u);
  EXPECT_EQ(setting.cells[0].name, "Non-IID-2");
  EXPECT_TRUE(setting.cells[0].paper);
  ASSERT_EQ(setting.cells[0].groups.size(), 1u);
  const Group& group = setting.cells[0].groups[0];
  EXPECT_EQ(group.label, "FedMRN");
  EXPECT_TRUE(group.standard);
  EXPECT_EQ(group.runs[0]->Get("seed"), "8");
  EXPECT_NEAR(group.best.mean, 89, 1e-9);
  EXPECT_NEAR(group.best.std, 1, 1e-9);
  EXPECT_NEAR(group.last.mean, 88, 1e-9);
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
  MakeRun("g", {kFedMrn, "method.dense=float16"}, 0.9);
  MakeRun("h", {kFedAvg, "train.lr=1.0"}, 0.9);
  const Study study = ReadStudy();
  ASSERT_EQ(study.settings.size(), 1u);
  const Cell& cell = study.settings[0].cells.at(0);
  std::vector<std::string> labels, compared;
  for (const Group& group : cell.groups) labels.push_back(group.label);
  EXPECT_EQ(labels, (std::vector<std::string>{
                        "FedAvg", "FedMRN", "FedMRN lr=0.3", "FedMRN w/o SM",
                        "FedMRN w/o PSM", "FedMRN dense=float16",
                        "FedMRN magnitude=0.02",
                        "FedMRN magnitude=0.02 noise=gaussian"}));
  for (const Group* group : cell.Compared()) compared.push_back(group->label);
  EXPECT_EQ(compared,
            (std::vector<std::string>{"FedAvg", "FedMRN", "FedMRN lr=0.3",
                                      "FedMRN dense=float16"}));
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
  EXPECT_EQ(AccuracyNote(study.settings[0]),
            "100 rounds × 10 epochs × 1 seed, as in the paper but for its 5 "
            "seeds. Also unlike the paper: train.batch=32 (64) (the paper's in "
            "brackets).");
  EXPECT_EQ(AccuracyNote(study.settings[2]),
            "20 rounds × 10 epochs × 1 seed, not the paper's 100 × 10 × 5, so "
            "the differences are no check of the paper.");
}

TEST_F(ReportTest, OtherPartitionsAreNotThePapers) {
  MakeRun("a", {kFedAvg, "partition.kind=dirichlet", "partition.alpha=0.1"},
          0.9);
  MakeRun("b",
          {kFedAvg, "data.name=cifar100", "model.name=cnn8",
           "partition.kind=dirichlet", "partition.alpha=0.2"},
          0.9);
  const Study study = ReadStudy();
  ASSERT_EQ(study.settings.size(), 2u);
  EXPECT_EQ(study.settings[0].cells.at(0).name, "Non-IID-1, alpha=0.1");
  EXPECT_EQ(study.settings[0].PaperCell("dirichlet"), nullptr);
  EXPECT_NE(study.settings[1].PaperCell("dirichlet"), nullptr);
  EXPECT_TRUE(study.settings[1].departures.empty());
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

const std::string kNpz = "data.name=npz", kFileA = "data.path=a.npz",
                  kFileB = "data.path=b.npz";

TEST_F(ReportTest, OtherFilesAreOtherData) {
  MakeRun("a", {kFedAvg, kNpz, kFileA}, 0.93);
  MakeRun("b", {kFedAvg, kNpz, kFileB}, 0.46);
  MakeRun("c", {kFedAvg, kNpz, kFileA, "data.test_path=t.npz"}, 0.5);
  const Study study = ReadStudy();
  EXPECT_EQ(study.repeated, 0u);
  std::vector<std::string> names;
  for (const Setting& setting : study.settings) names.push_back(setting.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "npz, 100 rounds × 10 epochs, path=a.npz",
                       "npz, 100 rounds × 10 epochs, path=a.npz, test t.npz",
                       "npz, 100 rounds × 10 epochs, path=b.npz"}));
}

TEST_F(ReportTest, DigestsTellWhetherFilesAreEqual) {
  MakeRun("a", {kFedAvg, kNpz, kFileA}, 0.9);
  MakeRun("moved", {kFedAvg, kNpz, kFileB, "seed=2"}, 0.9);
  MakeRun("old", {kFedAvg, kNpz, kFileA, "seed=3"}, 0.9);
  MakeRun("other", {kFedAvg, kNpz, kFileA, "seed=4"}, 0.5);
  // Generated data may follow from the seed.
  MakeRun("generated1", {kFedAvg, "data.name=synthetic"}, 0.9);
  MakeRun("generated2", {kFedAvg, "data.name=synthetic", "seed=2"}, 0.9);
  for (const auto& [name, digest] :
       {std::pair("a", "12345678aa"), std::pair("moved", "12345678aa"),
        std::pair("other", "87654321bb"), std::pair("generated1", "cc"),
        std::pair("generated2", "dd")}) {
    Edit(name, [&](Json& json) { json["data_sha256"] = digest; });
  }
  const Study study = ReadStudy();
  std::map<std::string, size_t> seeds;
  for (const Setting& setting : study.settings) {
    seeds[setting.name] = setting.cells.at(0).groups.at(0).runs.size();
  }
  EXPECT_EQ(seeds, (std::map<std::string, size_t>{
                       {"npz, 100 rounds × 10 epochs, path=a.npz", 3},
                       {"npz, 100 rounds × 10 epochs, path=a.npz "
                        "(sha256 87654321)",
                        1},
                       {"synthetic, 100 rounds × 10 epochs", 2}}));
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
    MakeRun(std::string(kind) + "-avg", {kFedAvg, partition}, 0.9);
    MakeRun(std::string(kind) + "-mrn", {kFedMrn, partition}, 0.88);
  }
  MakeRun("signed", {"method.name=fedmrns", "seed=1"}, 0.91);
  const Study study = ReadStudy();
  const Table accuracy = AccuracyTable(study.settings.at(0));
  EXPECT_EQ(accuracy.columns.size(), 1u + 3 * 4);
  EXPECT_EQ(accuracy.rows.at(2),
            (std::vector<std::string>{"FedMRNS", "91.00", "90.00", "92.0 ± 0.1",
                                      "−1.0", kGap, kGap, "90.5 ± 0.2", kGap,
                                      kGap, kGap, "88.9 ± 0.3", kGap}));
  const Table loss = LossTable(study);
  EXPECT_EQ(loss.rows,
            (std::vector<std::vector<std::string>>{{"FedMRN", "−6.0", "−0.7"},
                                                   {"FedMRNS", kGap, "+0.1"}}));
  EXPECT_EQ(UploadTable(study.settings[0]).rows.at(1),
            (std::vector<std::string>{"FedMRN", "1.720", "1.000", "0.320",
                                      "0.400", "18.8", "0.0"}));
  EXPECT_EQ(TimeTable(study.settings[0]).rows.at(1),
            (std::vector<std::string>{"FedMRN", "4.000", "250.00", "6.25"}));
  EXPECT_EQ(MarkdownTable(loss),
            "| Method | FMNIST, 100 rounds × 10 epochs: ours | FMNIST, 100 "
            "rounds × 10 epochs: paper |\n|---|---:|---:|\n"
            "| FedMRN | −6.0 | −0.7 |\n| FedMRNS | — | +0.1 |\n");
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
