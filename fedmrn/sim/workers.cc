#include "fedmrn/sim/workers.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "fedmrn/train/one_thread.h"

namespace fedmrn {

Workers::Workers(const Task& task, uint32_t count) : task_(task) {
  if (count == 0) count = std::max(1u, std::thread::hardware_concurrency());
  workers_.resize(count);
}

void Workers::ForEach(size_t items,
                      const std::function<void(Worker&, size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto loop = [&](Worker& worker) {
    ComputeOnThisThreadOnly();
    try {
      if (worker.learner == nullptr) worker.learner = task_.make_learner();
      for (size_t item; (item = next++) < items;) work(worker, item);
    } catch (...) {
      next = items;
      const std::lock_guard lock(failure_mutex);
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min(items, workers_.size()); ++i) {
    threads.emplace_back(loop, std::ref(workers_[i]));
  }
  for (std::thread& thread : threads) thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace fedmrn
