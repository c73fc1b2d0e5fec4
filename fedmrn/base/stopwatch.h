#pragma once

#include <chrono>

namespace fedmrn {

// Runs from its construction on. Its time is for people's eyes: nothing that is
// computed may depend on it.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace fedmrn
