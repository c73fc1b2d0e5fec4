#include "fedmrn/base/similar.h"

#include <gtest/gtest.h>

namespace fedmrn {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("abc", ""), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("lrr", "lr"), 1u);
  const std::string endless(100, 'a');
  EXPECT_EQ(EditDistance(endless, endless), 0u);
  EXPECT_EQ(EditDistance(endless, endless + "b"), 101u);
  EXPECT_EQ(EditDistance("nmae", "name"), 1u);
  EXPECT_EQ(EditDistance("ba", "abc"), 2u);
}

TEST(DidYouMean, NamesTheNearestOrNothing) {
  const std::vector<std::string_view> names = {"fedavg", "fedpm", "fedmrn"};
  EXPECT_EQ(DidYouMean("FedAvg", names), ", did you mean fedavg?");
  EXPECT_EQ(DidYouMean("fedmnr", names), ", did you mean fedmrn?");
  EXPECT_EQ(DidYouMean("fedprox", names), "");
  EXPECT_EQ(DidYouMean("x", names), "");
  EXPECT_EQ(DidYouMean("x", {}), "");
}

}  // namespace
}  // namespace fedmrn
