#include "fedmrn/sim/workers.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "fedmrn/base/parallel.h"
#include "fedmrn/train/kernels/compute_threads.h"

namespace fedmrn::sim {

uint32_t CoresHere() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
    return static_cast<uint32_t>(CPU_COUNT(&cores));
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

Workers::Workers(const train::Task& task, uint32_t count) : task_(task) {
  if (count == 0) count = std::max(1u, CoresHere() / task.model.threads);
  benches_.resize(count);
}

void Workers::ForEach(size_t items,
                      const std::function<void(client::Bench&, size_t)>& work) {
  ParallelFor(items, benches_.size(), [&](size_t thread, size_t item) {
    client::Bench& bench = benches_[thread];
    train::ComputeOnThreads(task_.model.library_threads);
    if (bench.learner == nullptr) bench.learner = task_.make_learner();
    work(bench, item);
  });
}

}  // namespace fedmrn::sim
