// The threads of this machine, each with its own network and buffers: memory
// grows with the workers, never with the clients.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "fedmrn/client/client.h"
#include "fedmrn/train/task.h"

namespace fedmrn::sim {

// Cores that this process may use: of a machine that is divided among jobs, or
// of a rank that is bound to some, not all.
uint32_t CoresHere();

class Workers {
 public:
  // `count` 0: as many as use all cores.
  Workers(const train::Task& task, uint32_t count);

  size_t count() const { return benches_.size(); }

  // Calls work(bench, item) for each item in [0, items), in this order of
  // starting. An exception of `work` is rethrown here,
  // after all have stopped.
  void ForEach(size_t items,
               const std::function<void(client::Bench&, size_t item)>& work);

 private:
  const train::Task& task_;
  std::vector<client::Bench> benches_;
};

}  // namespace fedmrn::sim
