#include "fedmrn/sim/ending.h"

#include <fmt/format.h>

#include <cmath>

namespace fedmrn::sim {
namespace {

constexpr std::string_view kCount = "rounds.count",
                           kTarget = "rounds.target_accuracy",
                           kPatience = "rounds.patience";

}  // namespace

std::optional<Ending> EndingOf(const RoundsSettings& rounds,
                               std::span<const results::RoundRow> rows) {
  const results::RoundRow* best = nullptr;
  for (const results::RoundRow& row : rows) {
    const bool tested = !std::isnan(row.score);
    if (tested && rounds.target_accuracy > 0 &&
        row.score >= rounds.target_accuracy) {
      return Ending{row.round, kTarget,
                    fmt::format("round {} reached {:g}, {} is {:g}", row.round,
                                row.score, kTarget, rounds.target_accuracy)};
    }
    if (tested && (best == nullptr || row.score > best->score)) best = &row;
    if (tested && rounds.patience > 0 &&
        row.round - best->round >= rounds.patience) {
      return Ending{
          row.round, kPatience,
          fmt::format("no round after {} was better than its {:g}, {} is {}",
                      best->round, best->score, kPatience, rounds.patience)};
    }
    if (row.round >= rounds.count) {
      return Ending{row.round, kCount,
                    fmt::format("all of its {} rounds are done", row.round)};
    }
  }
  return std::nullopt;
}

bool IsLength(std::string_view key) {
  return key == kCount || key == kTarget || key == kPatience;
}

bool OnlyLonger(std::string_view key, const RoundsSettings& now,
                const RoundsSettings& then) {
  // 0 is no end at all.
  const auto later = [](auto is, auto was) {
    return is == 0 || (was != 0 && is > was);
  };
  return (key == kCount && now.count > then.count) ||
         (key == kTarget && later(now.target_accuracy, then.target_accuracy)) ||
         (key == kPatience && later(now.patience, then.patience));
}

}  // namespace fedmrn::sim
