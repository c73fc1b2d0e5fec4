#include "fedmrn/sim/workers.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include "fedmrn/train/fake_task.h"
#include "gtest/gtest.h"

namespace fedmrn::sim {
namespace {

TEST(Workers, EveryItemOnceOnTheWorkersOwnLearner) {
  const train::Task task = train::MakeFakeTask();
  for (const uint32_t count : {1u, 2u, 5u}) {
    Workers workers(task, count);
    EXPECT_EQ(workers.count(), count);
    for (const size_t items : {0, 1, 3, 100}) {
      std::vector<std::atomic<int>> times(items);
      workers.ForEach(items, [&](client::Bench& bench, size_t item) {
        EXPECT_NE(bench.learner, nullptr);
        ++times[item];
      });
      for (const auto& t : times) EXPECT_EQ(t, 1);
    }
  }
  EXPECT_GE(Workers(task, 0).count(), 1u);
}

TEST(Workers, AnExceptionComesOutAfterAllHaveStopped) {
  const train::Task task = train::MakeFakeTask();
  Workers workers(task, 3);
  std::atomic<int> at_work = 0;
  EXPECT_THROW(workers.ForEach(100,
                               [&](client::Bench&, size_t item) {
                                 ++at_work;
                                 if (item == 5) {
                                   --at_work;
                                   throw std::runtime_error("no");
                                 }
                                 --at_work;
                               }),
               std::runtime_error);
  EXPECT_EQ(at_work, 0);
}

}  // namespace
}  // namespace fedmrn::sim
