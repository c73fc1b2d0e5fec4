// Any text as a config, a grid and a setting of the command line. What is a
// config is the same again after it was written down.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/sim/config.h"
#include "fedmrn/sim/grid.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fedmrn;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Result<sim::Config> config = sim::ParseConfig(text, "file", {});
  if (config) {
    const Result<sim::Config> again =
        sim::ParseConfig(sim::ConfigToml(*config), "again", {});
    FEDMRN_CHECK(again.ok());
    FEDMRN_CHECK(sim::ConfigValues(*again) == sim::ConfigValues(*config));
    FEDMRN_CHECK(sim::RunId(*again) == sim::RunId(*config));
    FEDMRN_CHECK(
        sim::ParseConfig(sim::ExplainedConfigToml(*config), "explained", {})
            .ok());
  } else {
    FEDMRN_CHECK(config.error().message.starts_with("file:"));
  }
  const std::vector<std::string> settings = {text.substr(0, text.find('\n'))};
  const Result<sim::Config> set = sim::ParseConfig("", "file", settings);
  FEDMRN_CHECK(set.ok() || !set.error().message.empty());
  // Lists multiply; a hundred thousand runs are allowed, but not cheap.
  if (std::ranges::count(text, ',') <= 5) {
    const Result<sim::Grid> grid = sim::ParseGrid(text, "file", {});
    FEDMRN_CHECK(grid ? !grid->runs.empty() : !grid.error().message.empty());
  }
  return 0;
}
