#include "fedmrn/sim/executor.h"

#include <algorithm>

namespace fedmrn::sim {

std::span<const ExecutorRow> Executors() {
  static const ExecutorRow kRows[] = {kMpiExecutor, kThreadExecutor};
  return kRows;
}

Result<std::unique_ptr<Team>> GatherTeam(std::string_view name) {
  const auto rows = Executors();
  const auto found = std::ranges::find_if(rows, [&](const ExecutorRow& row) {
    return name == "auto" ? row.wanted() : row.name == name;
  });
  if (found == rows.end()) {
    return Error{ErrorCode::kBadValue,
                 "there is no executor " + std::string(name)};
  }
  return found->gather();
}

}  // namespace fedmrn::sim
