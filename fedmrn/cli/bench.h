// Shared by the benches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "fedmrn/base/json.h"
#include "fedmrn/base/stopwatch.h"
#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/table.h"
#include "fedmrn/train/kernels/vector_units.h"
#include "fedmrn/train/method/method.h"

namespace fedmrn::cli {

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 != 0 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

inline double SecondsOf(const std::function<void()>& work) {
  const Stopwatch watch;
  work();
  return watch.seconds();
}

// A figure of a bench: its name in JSON, what it should be, and what is behind
// it.
struct BenchRow {
  std::string name;
  double value;
  const char* target;
  std::string note;
};
inline void PrintRows(const std::vector<BenchRow>& rows) {
  Table table("lrll");
  for (const BenchRow& row : rows) {
    table.Add(
        {row.name, fmt::format("{:.3f}", row.value), row.target, row.note});
  }
  table.Print();
}

// All that a bench prints: the rows, in JSON beside `about`.
inline void PrintBench(const std::vector<BenchRow>& rows, bool json, Json about,
                       uint32_t repeats, const char* repeated) {
  if (json) {
    Json out;
    for (const BenchRow& row : rows) out[row.name] = row.value;
    out.update(about);
    out["simd"] = train::SimdTarget();
    out["repeats"] = repeats;
    out["version"] = FEDMRN_VERSION;
    fmt::print("{}\n", JsonText(out, 2));
  } else {
    fmt::print("fedmrn {}, {}; medians of {} {}\n", FEDMRN_VERSION,
               train::SimdTarget(), repeats, repeated);
    PrintRows(rows);
  }
}

// The choices of --method.
inline std::vector<std::string> MethodNames() {
  std::vector<std::string> names;
  for (const train::Method& method : train::Methods()) {
    names.emplace_back(method.name);
  }
  return names;
}

void AddBenchCluster(Verb bench);
void AddBenchCore(Verb bench);
void AddBenchRun(Verb bench);
void AddBenchTrain(Verb bench);

}  // namespace fedmrn::cli
