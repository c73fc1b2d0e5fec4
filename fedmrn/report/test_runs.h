// Folders of runs for tests, as fedmrn run leaves them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "fedmrn/base/files.h"
#include "fedmrn/base/json.h"
#include "fedmrn/report/groups.h"
#include "fedmrn/report/runs.h"
#include "fedmrn/results/results.h"
#include "fedmrn/sim/config.h"
#include "gtest/gtest.h"

namespace fedmrn::report {

inline constexpr uint64_t kParams = 1000, kPlainValues = 10;

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
               bool finished = true, const std::string& file = "") {
    const sim::Config config =
        (file.empty() ? sim::ParseConfig("", "", settings)
                      : sim::LoadConfig(file, settings))
            .value();
    std::vector<results::RoundRow> rows(2);
    for (uint32_t i = 0; i < rows.size(); ++i) {
      rows[i].round = i + 1;
      rows[i].score = best - 0.01 * i;
      rows[i].loss = 1;
      rows[i].payload_bytes = 2 * kParams / 8;
      rows[i].plain_bytes = 2 * 4 * kPlainValues;
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
    info.plain_values = kPlainValues;
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

inline const std::string kFedAvg = "method.name=fedavg",
                         kFedMrn = "method.name=fedmrn",
                         kLabels = "partition.kind=labels",
                         kCyclic = "partition.labels_assignment=cyclic";

}  // namespace fedmrn::report
