// The threads of this machine, each with its own network and buffers: memory
// grows with the workers, never with the clients.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "fedmrn/train/method/method.h"
#include "fedmrn/train/task.h"

namespace fedmrn::sim {

struct Worker {
  std::unique_ptr<train::Learner> learner;
  train::LocalModel local;
  std::vector<float> weights;  // of the broadcast that it has received
};

class Workers {
 public:
  // `count` 0: one per core.
  Workers(const train::Task& task, uint32_t count);

  size_t count() const { return workers_.size(); }

  // Calls work(worker, item) for each item in [0, items), in this order of
  // starting, each on one thread. An exception of `work` is rethrown here,
  // after all have stopped.
  void ForEach(size_t items,
               const std::function<void(Worker&, size_t item)>& work);

 private:
  const train::Task& task_;
  std::vector<Worker> workers_;
};

}  // namespace fedmrn::sim
