#include "fedmrn/base/similar.h"

#include <gtest/gtest.h>

#include <algorithm>

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

// What is not near need only be found to be so.
TEST(EditDistance, IsTheSameUpToALimit) {
  std::vector<std::string> words = {""};
  for (size_t i = 0; words.size() < 364; ++i) {  // of at most five letters
    for (const char letter : {'a', 'b', 'c'})
      words.push_back(words[i] + letter);
  }
  words.push_back("a name that is longer than all the others");
  for (const std::string& a : words) {
    for (const std::string& b : words) {
      const size_t distance = EditDistance(a, b);
      for (size_t most = 0; most < 7; ++most) {
        const size_t limited = EditDistance(a, b, most);
        EXPECT_EQ(std::min(limited, most + 1), std::min(distance, most + 1))
            << a << ' ' << b << ' ' << most;
      }
    }
  }
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
