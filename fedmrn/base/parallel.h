#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace fedmrn {

// Calls work(thread, item) for each item in [0, items), started in this order,
// on up to `threads` threads, which are numbered from 0; one thread is the
// caller's own, and where the system refuses others it does all. The first
// exception ends the rest of the work and is thrown here, after all threads
// have stopped.
template <typename Work>
void ParallelFor(size_t items, size_t threads, const Work& work) {
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto loop = [&](size_t thread) {
    try {
      for (size_t item; (item = next++) < items;) work(thread, item);
    } catch (...) {
      next = items;
      const std::lock_guard lock(failure_mutex);
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  threads = std::min(items, threads);
  others.reserve(threads);
  for (size_t thread = 1; thread < threads; ++thread) {
    try {
      others.emplace_back(loop, thread);
    } catch (const std::exception&) {
      break;
    }
  }
  loop(0);
  for (std::thread& other : others) other.join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace fedmrn
