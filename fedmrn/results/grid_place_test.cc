#include "fedmrn/results/grid_place.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace fedmrn::results {
namespace {

TEST(GridPlace, ReadsBackWhatWasWritten) {
  const std::string folder = ::testing::TempDir() + "grid_place_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  EXPECT_EQ(ReadGridPlace(folder).summary, "");
  const GridPlace place = {"A \"quoted\" summary",
                           {{"method", "uniform"}, {"seed", "1"}}};
  ASSERT_TRUE(WriteGridPlace(folder, place));
  const GridPlace back = ReadGridPlace(folder);
  EXPECT_EQ(back.summary, place.summary);
  EXPECT_EQ(back.labels, place.labels);
  // Names are no results: without them a run is read all the same.
  for (const char* damaged :
       {"", "{", "[]", "{}", "{\"summary\": 1, \"labels\": {}}",
        "{\"summary\": \"a\", \"labels\": [1]}"}) {
    std::ofstream(folder + "/grid.json") << damaged;
    EXPECT_EQ(ReadGridPlace(folder).summary, "") << damaged;
    EXPECT_TRUE(ReadGridPlace(folder).labels.empty()) << damaged;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace fedmrn::results
