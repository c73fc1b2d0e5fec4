#include "fedmrn/sim/workers.h"

#include <algorithm>
#include <thread>

#include "fedmrn/base/parallel.h"
#include "fedmrn/train/kernels/one_thread.h"

namespace fedmrn::sim {

Workers::Workers(const train::Task& task, uint32_t count) : task_(task) {
  if (count == 0) count = std::max(1u, std::thread::hardware_concurrency());
  workers_.resize(count);
}

void Workers::ForEach(size_t items,
                      const std::function<void(Worker&, size_t)>& work) {
  ParallelFor(items, workers_.size(), [&](size_t thread, size_t item) {
    Worker& worker = workers_[thread];
    train::ComputeOnThisThreadOnly();
    if (worker.learner == nullptr) worker.learner = task_.make_learner();
    work(worker, item);
  });
}

}  // namespace fedmrn::sim
