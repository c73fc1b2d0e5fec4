#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/base/parallel.h"
#include "fedmrn/base/result.h"

namespace fedmrn {
namespace {

TEST(CheckDeathTest, SaysWhereAndWhat) {
  const int two = 2;
  EXPECT_DEATH(FEDMRN_CHECK(two == 3),
               "base_test.cc:[0-9]+: CHECK failed: two == 3\n");
  EXPECT_DEATH(FEDMRN_CHECK(two == 3, "arithmetic"),
               "CHECK failed: two == 3: arithmetic\n");
  FEDMRN_CHECK(two == 2, "nothing happens");
}

Result<std::unique_ptr<int>> Half(int number) {
  if (number % 2 != 0) return Error{ErrorCode::kBadValue, "odd"};
  return std::make_unique<int>(number / 2);
}

Status Even(int number) {
  FEDMRN_TRY(Half(number));
  return Ok();
}

Result<int> Quarter(int number) {
  const std::unique_ptr<int> half = FEDMRN_TRY(Half(number));
  FEDMRN_TRY(Even(*half));
  return *half / 2;
}

TEST(Try, GivesTheValueOrReturnsTheError) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).error().message, "odd");
  EXPECT_EQ(Quarter(5).error().code, ErrorCode::kBadValue);
}

// Stacks as large as no address space has room for.
TEST(ParallelFor, WithoutThreadsTheCallerDoesAll) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 48), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  int sum = 0;  // of one thread, so it needs no lock
  ParallelFor(10, 4, [&](size_t thread, size_t item) {
    EXPECT_EQ(thread, 0u);
    sum += static_cast<int>(item);
  });
  EXPECT_EQ(sum, 45);
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  pthread_attr_destroy(&usual);
  pthread_attr_destroy(&huge);
}

TEST(ParallelFor, EveryItemOnceByThreadsOfItsNumbers) {
  for (const size_t threads : {0, 1, 2, 5}) {
    for (const size_t items : {0, 1, 3, 100}) {
      std::vector<std::atomic<int>> times(items);
      std::atomic<size_t> largest = 0;
      ParallelFor(items, threads, [&](size_t thread, size_t item) {
        ++times[item];
        size_t seen = largest;
        while (thread > seen && !largest.compare_exchange_weak(seen, thread)) {
        }
      });
      for (const auto& count : times) EXPECT_EQ(count, 1);
      EXPECT_LT(largest, std::max<size_t>(threads, 1));
    }
  }
}

TEST(ParallelFor, ThrowsTheFirstExceptionAfterAllHaveStopped) {
  std::atomic<int> running = 0;
  const auto work = [&](size_t, size_t item) {
    ++running;
    struct Leave {
      std::atomic<int>& count;
      ~Leave() { --count; }
    } leave{running};
    if (item == 3) throw std::runtime_error("the third");
  };
  EXPECT_THROW(ParallelFor(1000, 4, work), std::runtime_error);
  EXPECT_EQ(running, 0);
}

}  // namespace
}  // namespace fedmrn
