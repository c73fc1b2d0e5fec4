#include "fedmrn/sim/executor.h"

namespace fedmrn::sim {

std::span<const ExecutorRow> Executors() {
  static constexpr ExecutorRow kRows[] = {
      {"threads", MakeThreadExecutor},
  };
  return kRows;
}

client::Settings ClientSettingsOf(const Config& config) {
  return {RunId(config), config.seed, train::FindMethod(config.method.name),
          config.method, config.train};
}

}  // namespace fedmrn::sim
