// Shared by the tests of whole runs.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/files.h"
#include "fedmrn/base/sha256.h"
#include "fedmrn/results/results.h"
#include "fedmrn/sim/config.h"
#include "fedmrn/sim/progress.h"
#include "fedmrn/sim/run.h"
#include "gtest/gtest.h"

namespace fedmrn::sim {

inline Config Tiny(std::vector<std::string> settings) {
  settings.insert(settings.begin(),
                  {"data.name=synthetic", "data.train_examples=320",
                   "data.test_examples=64", "partition.clients=8",
                   "train.epochs=1", "train.batch=16", "rounds.count=3",
                   "rounds.clients_per_round=3", "run.workers=1"});
  const Result<Config> config = ParseConfig("", "", settings);
  EXPECT_TRUE(config) << config.error().ToString();
  return *config;
}

// Rows without what a clock measured.
inline std::string Timeless(std::vector<results::RoundRow> rows) {
  for (results::RoundRow& row : rows) {
    row.train_s = row.encode_s = row.aggregate_s = row.eval_s = row.wall_s = 0;
  }
  return results::RoundsCsv(rows);
}

class Runs : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(testing::TempDir()) /
            ("run_" + std::string(test->name()) + std::to_string(getpid()));
    std::filesystem::create_directories(root_);
    out_ = root_ / "new" / "out";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  RunOptions Options(bool resume) {
    RunOptions options;
    options.out = out_;
    options.resume = resume;
    options.version = "1.2.3";
    options.log = [this](const std::string& line) { log_.push_back(line); };
    return options;
  }
  Result<RunResult> Resume(const Config& config) {
    return sim::Run(config, Options(true));
  }
  // Without a folder: what every other run with this config must come to.
  static RunResult Undisturbed(const Config& config) {
    const Result<RunResult> result = sim::Run(config, {});
    EXPECT_TRUE(result) << result.error().ToString();
    EXPECT_FALSE(result->stopped);
    EXPECT_EQ(result->rows.size(), config.rounds.count);
    return *result;
  }
  // Runs until `rounds` are done.
  void StopAfter(const Config& config, size_t rounds, bool resume = false) {
    Progress progress;
    RunOptions options = Options(resume);
    options.progress = &progress;
    options.on_round = [&](std::span<const results::RoundRow> rows) {
      if (rows.size() == rounds) progress.stop = true;
    };
    const Result<RunResult> result = sim::Run(config, options);
    ASSERT_TRUE(result) << result.error().ToString();
    EXPECT_TRUE(result->stopped);
    EXPECT_EQ(result->rows.size(), rounds);
  }
  static void ExpectSame(const Result<RunResult>& result,
                         const RunResult& expected) {
    ASSERT_TRUE(result) << result.error().ToString();
    EXPECT_FALSE(result->stopped);
    EXPECT_EQ(result->model_sha256, expected.model_sha256);
    EXPECT_EQ(Timeless(result->rows), Timeless(expected.rows));
  }

  std::string Path(const std::string& name) const { return out_ / name; }
  Bytes Read(const std::string& name) const {
    const Result<Bytes> bytes = ReadFile(Path(name));
    EXPECT_TRUE(bytes) << bytes.error().ToString();
    return bytes ? *bytes : Bytes();
  }
  void Write(const std::string& name, ByteView bytes) const {
    EXPECT_TRUE(WriteFileAtomically(Path(name), bytes));
  }
  static std::string CheckpointName(int round) {
    return "checkpoints/round-00000" + std::to_string(round) + ".checkpoint";
  }
  void FlipByte(int round) const {
    Bytes bytes = Read(CheckpointName(round));
    bytes[bytes.size() / 3] ^= 1;
    Write(CheckpointName(round), bytes);
  }
  void Truncate(int round) const {
    Bytes bytes = Read(CheckpointName(round));
    bytes.resize(bytes.size() / 2);
    Write(CheckpointName(round), bytes);
  }
  // All files, by their hashes.
  std::map<std::string, std::string> Contents() const {
    std::map<std::string, std::string> contents;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(root_)) {
      const std::string path = entry.path();
      contents[path] =
          entry.is_regular_file() ? Sha256Hex(*ReadFile(path)) : "folder";
    }
    return contents;
  }

  std::filesystem::path root_, out_;
  std::vector<std::string> log_;
};

}  // namespace fedmrn::sim
