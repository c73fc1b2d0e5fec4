// A rank's threads at work on clients, beside the one that talks to the other
// ranks. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fedmrn/client/client.h"
#include "fedmrn/sim/workers.h"

namespace fedmrn::sim {

class Crew {
 public:
  struct Done {
    uint32_t client = 0;
    Result<client::Answer> answer;
    std::vector<float> state = {};  // that the client has kept
  };
  using Job = std::function<Done(client::Bench& bench)>;

  // Nobody else uses the workers while it lives.
  explicit Crew(Workers& workers);
  // Waits for the jobs at work; the others are forgotten.
  ~Crew();

  void Give(Job job);
  // What a job that has ended came to, if there is one.
  std::optional<Done> Take();
  // Why a job came to nothing, if one did.
  std::string failure() const;

 private:
  void WorkUntilEnded(client::Bench& bench);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  std::deque<Done> done_;
  std::string failure_;
  bool ended_ = false;
  std::thread thread_;  // the first of the threads, which starts the others
};

}  // namespace fedmrn::sim
