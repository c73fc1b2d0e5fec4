#include "fedmrn/results/confusion.h"

#include <cmath>

#include "gtest/gtest.h"

namespace fedmrn::results {
namespace {

// scikit-learn's documentation of f1_score: truth 0 1 2 0 1 2, answers
// 0 2 1 0 0 1, macro average 0.2666...
const Confusion kKnown = {7, {2, 0, 0, 1, 0, 1, 0, 2, 0}};

TEST(ConfusionTest, KnownAnswers) {
  EXPECT_EQ(kKnown.classes(), 3u);
  EXPECT_NEAR(MacroF1(kKnown), 0.26666666666666666, 1e-15);
  EXPECT_EQ(ClassAccuracies(kKnown), (std::vector<double>{1, 0, 0}));
}

TEST(ConfusionTest, ClassesThatDoNotOccur) {
  // Class 1 is never the truth but once the answer, class 2 is neither.
  const Confusion confusion{1, {3, 1, 0, 0, 0, 0, 0, 0, 0}};
  EXPECT_DOUBLE_EQ(MacroF1(confusion), (6.0 / 7 + 0) / 2);
  const std::vector<double> accuracies = ClassAccuracies(confusion);
  EXPECT_EQ(accuracies[0], 0.75);
  EXPECT_TRUE(std::isnan(accuracies[1]));
  EXPECT_TRUE(std::isnan(MacroF1({})));
  EXPECT_TRUE(ClassAccuracies({}).empty());
}

TEST(ConfusionTest, TextAndBack) {
  EXPECT_EQ(ConfusionsText({{3, {5}}, {}}), "3 1 5\n0 0\n");
  for (const Confusions& confusions :
       {Confusions{}, Confusions{kKnown, {}}, Confusions{kKnown, {9, {1}}}}) {
    const std::string text = ConfusionsText(confusions);
    const Result<Confusions> read = ParseConfusions(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(*read, confusions);
    for (size_t size = 0; size < text.size(); ++size) {
      EXPECT_FALSE(ParseConfusions(text.substr(0, size))) << size;
    }
    EXPECT_FALSE(ParseConfusions(text + "\n"));
  }
  for (const char* bad : {"1 2 3 4\n0 0\n", "1 1 -3\n0 0\n", "1 1 x\n0 0\n",
                          "1 9999999 1\n0 0\n", "1\n0 0\n"}) {
    EXPECT_FALSE(ParseConfusions(bad)) << bad;
  }
}

}  // namespace
}  // namespace fedmrn::results
