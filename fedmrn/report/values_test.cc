// Runs that read other files are other settings.
#include "fedmrn/report/values.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/report/groups.h"
#include "fedmrn/report/test_runs.h"
#include "gtest/gtest.h"

namespace fedmrn::report {
namespace {

const std::string kNpz = "data.name=npz", kFileA = "data.path=a.npz",
                  kFileB = "data.path=b.npz";

TEST_F(ReportTest, OtherFilesAreOtherData) {
  MakeRun("a", {kFedAvg, kNpz, kFileA}, 0.93);
  MakeRun("b", {kFedAvg, kNpz, kFileB}, 0.46);
  MakeRun("c", {kFedAvg, kNpz, kFileA, "data.test_path=t.npz"}, 0.5);
  MakeRun("d", {kFedAvg, "model.torchscript=a.pt"}, 0.5);
  MakeRun("e", {kFedAvg, "model.torchscript=b.pt"}, 0.5);
  MakeRun("f", {kFedAvg, "model.torchscript=b.pt", "model.init=i.pt"}, 0.5);
  const Study study = ReadStudy();
  EXPECT_EQ(study.repeated, 0u);
  std::vector<std::string> names;
  for (const Setting& setting : study.settings) names.push_back(setting.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "FMNIST, 100 rounds × 10 epochs, torchscript=a.pt",
                       "FMNIST, 100 rounds × 10 epochs, torchscript=b.pt",
                       "FMNIST, 100 rounds × 10 epochs, torchscript=b.pt, "
                       "init i.pt",
                       "npz, 100 rounds × 10 epochs, path=a.npz",
                       "npz, 100 rounds × 10 epochs, path=a.npz, test t.npz",
                       "npz, 100 rounds × 10 epochs, path=b.npz"}));
}

TEST_F(ReportTest, RunsThatStartFromAFileAreOthers) {
  MakeRun("scratch", {kFedAvg, kLabels, kCyclic}, 0.1);
  MakeRun("start", {kFedAvg, kLabels, kCyclic, "model.init=i.pt"}, 0.9);
  const Study study = ReadStudy();
  EXPECT_EQ(study.repeated, 0u);
  ASSERT_EQ(study.settings.size(), 2u);
  std::map<std::string, std::vector<std::string>> departures;
  for (const Setting& setting : study.settings) {
    departures[setting.name] = setting.departures;
  }
  EXPECT_EQ(departures, (std::map<std::string, std::vector<std::string>>{
                            {"FMNIST, 100 rounds × 10 epochs", {}},
                            {"FMNIST, 100 rounds × 10 epochs, init=i.pt",
                             {"model.init=i.pt (none)"}}}));
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
    Edit(name,
         [&, digest = digest](Json& json) { json["data_sha256"] = digest; });
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

// Half of its files under data.dir.
TEST_F(ReportTest, DigestsTellNamedSetsApart) {
  for (const char* seed : {"seed=1", "seed=2"}) {
    const std::string name(seed);
    MakeRun("whole" + name, {kFedAvg, seed}, 0.9);
    MakeRun("half" + name, {kFedAvg, seed, "data.dir=half"}, 0.8);
    Edit("whole" + name, [](Json& json) { json["data_sha256"] = "aa"; });
    Edit("half" + name, [](Json& json) { json["data_sha256"] = "bb"; });
  }
  const Study study = ReadStudy();
  EXPECT_EQ(study.repeated, 0u);
  std::map<std::string, size_t> seeds;
  for (const Setting& setting : study.settings) {
    seeds[setting.name] = setting.cells.at(0).groups.at(0).runs.size();
  }
  EXPECT_EQ(seeds, (std::map<std::string, size_t>{
                       {"FMNIST, 100 rounds × 10 epochs, path=fmnist", 2},
                       {"FMNIST, 100 rounds × 10 epochs, path=half", 2}}));
}

// Of other seeds as well: what a seed of these chooses is no file.
TEST_F(ReportTest, DigestsTellNamedSetsApartWhateverTheSeeds) {
  MakeRun("whole", {kFedAvg, kLabels, kCyclic, "seed=1"}, 0.9);
  MakeRun("half", {kFedAvg, kLabels, kCyclic, "seed=2", "data.dir=half"}, 0.8);
  Edit("whole", [](Json& json) { json["data_sha256"] = "aa"; });
  Edit("half", [](Json& json) { json["data_sha256"] = "bb"; });
  EXPECT_EQ(ReadStudy().settings.size(), 2u);
}

// Which examples there are may follow from the seed, and a copy is no other
// set.
TEST_F(ReportTest, EqualSetsAtOtherPlacesAreOne) {
  const std::string play = "data.name=shakespeare";
  MakeRun("a", {kFedAvg, play}, 0.9);
  MakeRun("b", {kFedAvg, play, "seed=2", "data.dir=copy"}, 0.9);
  MakeRun("c", {kFedAvg, play, "seed=3"}, 0.9);  // of an older version
  Edit("a", [](Json& json) { json["data_sha256"] = "aa"; });
  Edit("b", [](Json& json) { json["data_sha256"] = "bb"; });
  const Study study = ReadStudy();
  ASSERT_EQ(study.settings.size(), 1u);
  EXPECT_EQ(study.settings[0].cells.at(0).groups.at(0).runs.size(), 3u);
}

}  // namespace
}  // namespace fedmrn::report
