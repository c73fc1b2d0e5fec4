#include "fedmrn/results/checkpoint.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include "fedmrn/base/file_faults.h"
#include "fedmrn/base/files.h"
#include "fedmrn/base/sha256.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/test_util.h"

namespace fedmrn::results {
namespace {

namespace fs = std::filesystem;

Checkpoint After(uint32_t rounds) {
  Checkpoint checkpoint;
  checkpoint.config = "seed = 7\n";
  checkpoint.started = 1'700'000'000;
  for (uint32_t round = 1; round <= rounds; ++round) {
    RoundRow row;
    row.round = round;
    if (round % 2 == 0) row.score = 1.0 / 3;
    row.uplink_bytes = 123'456'789'012;
    row.uplink_bits_per_param = 1.0768;
    row.clients = 9;
    row.wall_s = 1.25;
    checkpoint.rows.push_back(row);
  }
  FrameHeader header;
  header.codec = CodecId::kFloat32;
  header.broadcast = true;
  header.round = rounds;
  header.fingerprint = 99;
  checkpoint.model = *EncodeFrame(header, {}, Normal(rounds, 30), Normal(2, 3));
  checkpoint.moments = {1, 2, 3, static_cast<uint8_t>(rounds)};
  checkpoint.client_states = "7-" + std::to_string(rounds) + "\n";
  checkpoint.confusions.last = {rounds, {1, 2, 3, 4}};
  return checkpoint;
}

void ExpectSame(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(a.config, b.config);
  EXPECT_EQ(a.started, b.started);
  EXPECT_EQ(RoundsCsv(a.rows), RoundsCsv(b.rows));
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.moments, b.moments);
  EXPECT_EQ(a.client_states, b.client_states);
  EXPECT_EQ(a.rounds_done(), b.rounds_done());
  EXPECT_EQ(a.confusions, b.confusions);
}

TEST(CheckpointBytes, RoundTrip) {
  for (const uint32_t rounds : {0, 1, 2, 50}) {
    const Checkpoint checkpoint = After(rounds);
    EXPECT_EQ(checkpoint.rounds_done(), rounds);
    const Result<Checkpoint> read =
        DecodeCheckpoint(EncodeCheckpoint(checkpoint));
    ASSERT_TRUE(read) << read.error().ToString();
    ExpectSame(*read, checkpoint);
  }
}

TEST(CheckpointBytes, EveryTruncationIsRefused) {
  const Bytes whole = EncodeCheckpoint(After(2));
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_FALSE(DecodeCheckpoint(ByteView(whole).first(size))) << size;
  }
  Bytes longer = whole;
  longer.push_back(0);
  EXPECT_FALSE(DecodeCheckpoint(longer));
}

TEST(CheckpointBytes, EveryFlippedBitIsRefused) {
  Bytes bytes = EncodeCheckpoint(After(2));
  for (size_t at = 0; at < bytes.size(); ++at) {
    const auto bit = static_cast<uint8_t>(1 << (at % 8));
    bytes[at] ^= bit;
    ASSERT_FALSE(DecodeCheckpoint(bytes)) << at;
    bytes[at] ^= bit;
  }
  EXPECT_TRUE(DecodeCheckpoint(bytes));
}

// Past the hash, as only we could write it: nothing is believed unseen.
TEST(CheckpointBytes, WhatTheHashCannotKnow) {
  const auto error = [](const Checkpoint& checkpoint) {
    const auto read = DecodeCheckpoint(EncodeCheckpoint(checkpoint));
    return read ? "none" : read.error().ToString();
  };
  Checkpoint checkpoint = After(2);
  checkpoint.model.pop_back();
  EXPECT_NE(error(checkpoint).find("has a bad model"), std::string::npos);
  checkpoint = After(2);
  checkpoint.model.clear();
  EXPECT_NE(error(checkpoint).find("has a bad model"), std::string::npos);
  FrameHeader update;
  update.examples = 1;
  checkpoint.model = *EncodeFrame(update, {}, Normal(1, 3), {});
  EXPECT_EQ(error(checkpoint), "has an update in the model's place");
  checkpoint = After(2);
  std::swap(checkpoint.rows[0], checkpoint.rows[1]);
  EXPECT_NE(error(checkpoint).find("has bad rows"), std::string::npos);

  // Lengths of sections that lie.
  const Bytes whole = EncodeCheckpoint(After(1));
  const size_t length_at = std::string("FedMRN checkpoint 1\n").size() + 8;
  for (const uint64_t length :
       {uint64_t{0}, uint64_t{8}, uint64_t{1000}, ~uint64_t{0}}) {
    Bytes bytes(whole.begin(), whole.end() - 64);
    StoreLe(length, bytes.data() + length_at);
    const std::string hash = Sha256Hex(bytes);
    bytes.insert(bytes.end(), hash.begin(), hash.end());
    EXPECT_FALSE(DecodeCheckpoint(bytes)) << length;
  }
}

class CheckpointFiles : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ =
        fs::path(testing::TempDir()) /
        ("checkpoint_" + std::string(test->name()) + std::to_string(getpid()));
    folder_ = root_ / "new" / "checkpoints";
  }
  void TearDown() override { fs::remove_all(root_); }

  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  void Damage(const char* name) {
    const std::string path = folder_ + "/" + name;
    Result<Bytes> bytes = ReadFile(path);
    ASSERT_TRUE(bytes);
    (*bytes)[bytes->size() / 2] ^= 4;
    ASSERT_TRUE(WriteFileAtomically(path, *bytes));
  }
  Result<std::optional<Checkpoint>> Load() {
    warnings_.clear();
    return LoadCheckpoint(
        folder_, [&](const std::string& w) { warnings_.push_back(w); });
  }

  fs::path root_;
  std::string folder_;
  std::vector<std::string> warnings_;
};

TEST_F(CheckpointFiles, NoneIsNoError) {
  const auto loaded = Load();
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  EXPECT_FALSE(loaded->has_value());
  fs::create_directories(folder_);
  const auto empty = Load();
  ASSERT_TRUE(empty);
  EXPECT_FALSE(empty->has_value());
}

TEST_F(CheckpointFiles, KeepsTheLastTwoAndLoadsTheNewest) {
  for (const uint32_t round : {0, 1, 2, 3}) {
    ASSERT_TRUE(SaveCheckpoint(folder_, After(round)));
    const auto loaded = Load();
    ASSERT_TRUE(loaded && loaded->has_value());
    ExpectSame(**loaded, After(round));
    EXPECT_TRUE(warnings_.empty());
  }
  EXPECT_EQ(Names(), (std::set<std::string>{"round-000002.checkpoint",
                                            "round-000003.checkpoint"}));
  // What a crash left half-written is no checkpoint.
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/round-000004.checkpoint.tmp",
                                  AsBytes("half")));
  EXPECT_EQ((*Load())->rounds_done(), 3u);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(CheckpointFiles, AMillionRoundsAreMoreThanFewer) {
  Checkpoint checkpoint = After(1);
  for (const uint32_t round : {999'998, 999'999, 1'000'000, 1'000'001}) {
    checkpoint.rows.back().round = round;
    ASSERT_TRUE(SaveCheckpoint(folder_, checkpoint));
    const auto loaded = Load();
    ASSERT_TRUE(loaded && loaded->has_value());
    EXPECT_EQ((*loaded)->rounds_done(), round);
  }
  EXPECT_EQ(Names(), (std::set<std::string>{"round-1000000.checkpoint",
                                            "round-1000001.checkpoint"}));
}

TEST_F(CheckpointFiles, FallsBackWithAWarning) {
  ASSERT_TRUE(SaveCheckpoint(folder_, After(1)));
  ASSERT_TRUE(SaveCheckpoint(folder_, After(2)));
  Damage("round-000002.checkpoint");
  const auto loaded = Load();
  ASSERT_TRUE(loaded && loaded->has_value());
  ExpectSame(**loaded, After(1));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(warnings_[0], folder_ +
                              "/round-000002.checkpoint is damaged (its "
                              "SHA-256 differs); going back to the one before");

  Damage("round-000001.checkpoint");
  const auto none = Load();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().ToString(),
            "no checkpoint in " + folder_ + " can be used: " + folder_ +
                "/round-000001.checkpoint is damaged (its SHA-256 differs)");
}

TEST_F(CheckpointFiles, CutAtEveryByte) {
  ASSERT_TRUE(SaveCheckpoint(folder_, After(1)));
  ASSERT_TRUE(SaveCheckpoint(folder_, After(2)));
  const fs::path newest = folder_ + "/round-000002.checkpoint";
  for (size_t size = fs::file_size(newest); size-- > 0;) {
    fs::resize_file(newest, size);
    const auto loaded = Load();
    ASSERT_TRUE(loaded && loaded->has_value()) << size;
    ASSERT_EQ((*loaded)->rounds_done(), 1u) << size;
    ASSERT_EQ(warnings_.size(), 1u);
  }
}

TEST_F(CheckpointFiles, AFailingDiskLeavesTheOneBefore) {
  ASSERT_TRUE(SaveCheckpoint(folder_, After(1)));
  for (const FileStep step : {FileStep::kOpen, FileStep::kWrite,
                              FileStep::kSync, FileStep::kRename}) {
    const FileFaults faults([&](FileStep asked, const std::string&) {
      return asked == step ? EIO : 0;
    });
    const Status failed = SaveCheckpoint(folder_, After(2));
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, ErrorCode::kFailed);
    EXPECT_EQ((*Load())->rounds_done(), 1u);
    EXPECT_TRUE(warnings_.empty());
  }
  ASSERT_TRUE(SaveCheckpoint(folder_, After(2)));
  EXPECT_EQ((*Load())->rounds_done(), 2u);
}

TEST_F(CheckpointFiles, AFolderThatCannotBe) {
  fs::create_directories(root_);
  ASSERT_TRUE(WriteFileAtomically(root_ / "new", AsBytes("a file")));
  EXPECT_FALSE(SaveCheckpoint(folder_, After(1)));
  EXPECT_FALSE(Load());
}

}  // namespace
}  // namespace fedmrn::results
