#include "fedmrn/sim/ending.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace fedmrn::sim {
namespace {

std::vector<results::RoundRow> ScoredRows(const std::vector<double>& scores) {
  std::vector<results::RoundRow> rows(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    rows[i].round = static_cast<uint32_t>(i) + 1;
    rows[i].score = scores[i];
  }
  return rows;
}

TEST(EndingTest, TheFirstKeyThatEndsIt) {
  const double none = std::nan("");  // not tested
  struct Case {
    RoundsSettings rounds;
    std::vector<double> scores;
    uint32_t round;
    std::string_view key;
  };
  RoundsSettings count, target, patience, both;
  count.count = 3;
  target.target_accuracy = 0.5;
  patience.patience = 2;
  both.count = 2;
  both.target_accuracy = 0.5;
  const Case cases[] = {
      {count, {0.1, 0.2, 0.3}, 3, "rounds.count"},
      {count, {0.1, 0.2}, 0, ""},
      {count, {}, 0, ""},
      {target, {0.1, 0.5, 0.2}, 2, "rounds.target_accuracy"},
      {target, {0.1, 0.49}, 0, ""},
      {both, {0.1, 0.6}, 2, "rounds.target_accuracy"},
      // Two rounds after the best of 2, ties included.
      {patience, {0.1, 0.4, 0.3, 0.4}, 4, "rounds.patience"},
      {patience, {0.1, 0.4, 0.3, 0.5}, 0, ""},
      // Only a test ends a run.
      {patience, {none, 0.4, none, none}, 0, ""},
      {patience, {none, 0.4, none, none, 0.1}, 5, "rounds.patience"},
      {patience, {none, none, none, none}, 0, ""},
  };
  for (const Case& c : cases) {
    const auto ending = EndingOf(c.rounds, ScoredRows(c.scores));
    EXPECT_EQ(ending.has_value(), c.round > 0);
    if (!ending) continue;
    EXPECT_EQ(ending->round, c.round);
    EXPECT_EQ(ending->key, c.key);
  }
  EXPECT_EQ(EndingOf(patience, ScoredRows({0.1, 0.4, 0.3, 0.4}))->why,
            "no round after 2 was better than its 0.4, rounds.patience is 2");
}

TEST(EndingTest, OnlyLonger) {
  RoundsSettings then, now;
  then.count = 5;
  now.count = 8;
  EXPECT_TRUE(OnlyLonger("rounds.count", now, then));
  EXPECT_FALSE(OnlyLonger("rounds.count", then, now));
  now.target_accuracy = 0.5;
  EXPECT_FALSE(OnlyLonger("rounds.target_accuracy", now, then));
  EXPECT_TRUE(OnlyLonger("rounds.target_accuracy", then, now));
  then.target_accuracy = 0.4;
  EXPECT_TRUE(OnlyLonger("rounds.target_accuracy", now, then));
  then.patience = 3;
  EXPECT_TRUE(OnlyLonger("rounds.patience", now, then));
  now.patience = 2;
  EXPECT_FALSE(OnlyLonger("rounds.patience", now, then));
  EXPECT_FALSE(OnlyLonger("rounds.weight", now, then));
}

}  // namespace
}  // namespace fedmrn::sim
