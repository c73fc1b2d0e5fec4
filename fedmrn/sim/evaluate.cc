#include "fedmrn/sim/evaluate.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace fedmrn::sim {
namespace {}  // namespace

train::Score Evaluate(const train::Task& task, const GlobalModel& network,
                      Workers& workers, Progress& progress) {
  progress.tests_done = 0;
  progress.tests_total = task.data->test_examples;
  progress.phase = Phase::kEvaluating;
  const size_t batches =
      (task.data->test_examples + kTestBatch - 1) / kTestBatch;
  std::vector<train::Score> scores(batches);
  train::Score total;
  std::mutex mutex;  // of the total
  workers.ForEach(batches, [&](client::Bench& bench, size_t batch) {
    if (progress.stop) return;
    const uint64_t first = batch * kTestBatch;
    const auto count = static_cast<uint32_t>(
        std::min<uint64_t>(kTestBatch, task.data->test_examples - first));
    scores[batch] =
        bench.learner->Evaluate(first, count, network.weights, network.plain);
    progress.tests_done += count;
    // Counts may be added in any order, and one matrix for each batch would be
    // much memory.
    train::Score counts;
    counts.confusion.swap(scores[batch].confusion);
    const std::lock_guard lock(mutex);
    total.Add(counts);
  });
  for (const train::Score& score :
       scores) {  // in order: the sum is always the same
    total.Add(score);
  }
  return total;
}

}  // namespace fedmrn::sim
