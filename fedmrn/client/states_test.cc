#include "fedmrn/client/states.h"

#include <unistd.h>

#include <filesystem>

#include "fedmrn/base/files.h"
#include "gtest/gtest.h"

namespace fedmrn::client {
namespace {

namespace fs = std::filesystem;
using State = std::vector<float>;

class ClientStatesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("client_states" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  size_t Files() const {
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      files += entry.is_regular_file();
    }
    return files;
  }

  fs::path folder_;
};

TEST_F(ClientStatesTest, KeepsTheLastOfEachClient) {
  for (const std::string& folder : {std::string(), folder_.string()}) {
    ClientStates states(folder);
    EXPECT_TRUE(states.Load(3)->empty());
    ASSERT_TRUE(states.Save(3, 1, {}));
    EXPECT_EQ(states.List(), "");
    ASSERT_TRUE(states.Save(3, 1, {1, 2}));
    ASSERT_TRUE(states.Save(20, 1, {5}));
    ASSERT_TRUE(states.Save(3, 4, {3, 4}));
    EXPECT_EQ(*states.Load(3), (State{3, 4}));
    EXPECT_EQ(*states.Load(20), (State{5}));
    EXPECT_TRUE(states.Load(4)->empty());
    EXPECT_EQ(states.List(), "3-4\n20-1\n");
  }
}

TEST_F(ClientStatesTest, GoesBackToAList) {
  ClientStates states(folder_);
  ASSERT_TRUE(states.Save(3, 1, {1}));
  const std::string list = states.List();
  states.RemoveOld();
  ASSERT_TRUE(states.Save(3, 2, {2}));
  ASSERT_TRUE(states.Save(5, 2, {9}));

  ClientStates later(folder_);
  ASSERT_TRUE(later.Restore(list));
  EXPECT_EQ(*later.Load(3), State{1});
  EXPECT_TRUE(later.Load(5)->empty());
  for (const char* bad : {"3", "3-", "3-1", "-1\n", "3-1\nx\n", "3-1 \n",
                          "99999999999-1\n", "3\n"}) {
    EXPECT_FALSE(later.Restore(bad)) << bad;
  }
}

TEST_F(ClientStatesTest, RemovesWhatTwoCheckpointsDoNotNeed) {
  ClientStates states(folder_);
  for (uint32_t round = 1; round <= 6; ++round) {
    ASSERT_TRUE(states.Save(3, round, {float(round)}));
    if (round % 2 == 0) states.RemoveOld();  // a checkpoint each second round
  }
  EXPECT_EQ(Files(), 2u);
  ASSERT_TRUE(states.Restore("3-4\n"));
  EXPECT_EQ(*states.Load(3), State{4});
  ASSERT_TRUE(states.Save(3, 5, {7}));
  states.RemoveOld();  // 4 is that of the checkpoint before
  ASSERT_TRUE(states.Restore("3-4\n"));
  EXPECT_EQ(*states.Load(3), State{4});
}

TEST_F(ClientStatesTest, FindsOutDamage) {
  ClientStates states(folder_);
  ASSERT_TRUE(states.Save(3, 1, {1, 2, 3}));
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
