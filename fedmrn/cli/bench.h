// Shared by the benches.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "fedmrn/cli/commands.h"

namespace fedmrn::cli {

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 != 0 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

inline double SecondsOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

void AddBenchCore(CLI::App& bench, int& exit_code);
void AddBenchTrain(CLI::App& bench, int& exit_code);

}  // namespace fedmrn::cli
