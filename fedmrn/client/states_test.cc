#include "fedmrn/client/states.h"

#include <unistd.h>

#include <filesystem>

#include "fedmrn/base/files.h"
#include "gtest/gtest.h"

namespace fedmrn::client {
namespace {

namespace fs = std::filesystem;
using State = std::vector<float>;

class StatesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) / ("states" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Both phases.
  static void Save(States& states, uint32_t client, uint32_t round,
                   State state) {
    ASSERT_TRUE(states.Keep(client, round, std::move(state)));
    states.Commit(round, {&client, 1});
  }

  size_t Files() const {
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      files += entry.is_regular_file();
    }
    return files;
  }

  fs::path folder_;
};

TEST_F(StatesTest, KeepsTheLastOfEachClient) {
  for (const std::string& folder : {std::string(), folder_.string()}) {
    States states(folder);
    EXPECT_TRUE(states.Load(3)->empty());
    Save(states, 3, 1, {});
    EXPECT_EQ(states.List(), "");
    Save(states, 3, 1, {1, 2});
    Save(states, 20, 1, {5});
    Save(states, 3, 4, {3, 4});
    EXPECT_EQ(*states.Load(3), (State{3, 4}));
    EXPECT_EQ(*states.Load(20), (State{5}));
    EXPECT_TRUE(states.Load(4)->empty());
    EXPECT_EQ(states.List(), "3-4\n20-1\n");
  }
}

// What a client kept for an answer that was never counted is as if it had never
// been: after a damaged frame, a sample too small, or another round.
TEST_F(StatesTest, OnlyWhatIsCommittedIsValid) {
  for (const std::string& folder : {std::string(), folder_.string()}) {
    States states(folder);
    Save(states, 3, 1, {1});
    Save(states, 7, 1, {10});
    ASSERT_TRUE(states.Keep(3, 2, {2}));
    ASSERT_TRUE(states.Keep(7, 2, {20}));
    EXPECT_EQ(*states.Load(3), State{1});
    EXPECT_EQ(states.List(), "3-1\n7-1\n");
    const uint32_t counted[] = {7, 8};
    states.Commit(2, counted);
    EXPECT_EQ(*states.Load(3), State{1});
    EXPECT_EQ(*states.Load(7), State{20});
    EXPECT_TRUE(states.Load(8)->empty());
    EXPECT_EQ(states.List(), "3-1\n7-2\n");
    // What was left over is forgotten, and so is what another round kept.
    const uint32_t all[] = {3, 7};
    states.Commit(2, all);
    EXPECT_EQ(*states.Load(3), State{1});
    ASSERT_TRUE(states.Keep(3, 3, {3}));
    states.Commit(4, all);
    EXPECT_EQ(*states.Load(3), State{1});
    // The last of several samples counts.
    ASSERT_TRUE(states.Keep(3, 5, {4}));
    ASSERT_TRUE(states.Keep(3, 5, {5}));
    states.Commit(5, all);
    EXPECT_EQ(*states.Load(3), State{5});
  }
}

TEST_F(StatesTest, WhatWasKeptCanBeLookedAt) {
  for (const std::string& folder : {std::string(), folder_.string()}) {
    States states(folder);
    EXPECT_TRUE(states.LoadKept(3)->empty());
    Save(states, 3, 1, {1, 2});
    EXPECT_EQ(*states.LoadKept(3), (State{1, 2}));
    ASSERT_TRUE(states.Keep(3, 2, {5}));
    EXPECT_EQ(*states.LoadKept(3), (State{5}));
    EXPECT_EQ(*states.Load(3), (State{1, 2}));
  }
}

TEST_F(StatesTest, GoesBackToAList) {
  States states(folder_);
  Save(states, 3, 1, {1});
  const std::string list = states.List();
  states.RemoveOld();
  Save(states, 3, 2, {2});
  Save(states, 5, 2, {9});

  States later(folder_);
  ASSERT_TRUE(later.Restore(list));
  EXPECT_EQ(*later.Load(3), State{1});
  EXPECT_TRUE(later.Load(5)->empty());
  for (const char* bad : {"3", "3-", "3-1", "-1\n", "3-1\nx\n", "3-1 \n",
                          "99999999999-1\n", "3\n"}) {
    EXPECT_FALSE(later.Restore(bad)) << bad;
  }
}

TEST_F(StatesTest, RemovesWhatTwoCheckpointsDoNotNeed) {
  States states(folder_);
  for (uint32_t round = 1; round <= 6; ++round) {
    Save(states, 3, round, {float(round)});
    if (round % 2 == 0) states.RemoveOld();  // a checkpoint each second round
  }
  EXPECT_EQ(Files(), 2u);
  ASSERT_TRUE(states.Restore("3-4\n"));
  EXPECT_EQ(*states.Load(3), State{4});
  Save(states, 3, 5, {7});
  states.RemoveOld();  // 4 is that of the checkpoint before
  ASSERT_TRUE(states.Restore("3-4\n"));
  EXPECT_EQ(*states.Load(3), State{4});
}

TEST_F(StatesTest, FindsOutDamage) {
  States states(folder_);
  Save(states, 3, 1, {1, 2, 3});
  const std::string path = folder_ / "3-1.state";
  const Bytes good = *ReadFile(path);
  for (size_t i = 0; i < good.size(); ++i) {
    Bytes bad = good;
    bad[i] ^= 1;
    ASSERT_TRUE(WriteFileAtomically(path, bad));
    EXPECT_FALSE(states.Load(3)) << i;
    bad.assign(good.begin(), good.begin() + static_cast<ptrdiff_t>(i));
    ASSERT_TRUE(WriteFileAtomically(path, bad));
    EXPECT_FALSE(states.Load(3)) << i;
  }
  fs::remove(path);
  EXPECT_FALSE(states.Load(3));
}

}  // namespace
}  // namespace fedmrn::client
