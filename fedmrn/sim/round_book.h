// The bookkeeping of a round: what went over the wire, who was counted and who
// failed, as the columns of the round's row.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "fedmrn/base/result.h"
#include "fedmrn/client/client.h"
#include "fedmrn/core/aggregate.h"
#include "fedmrn/results/results.h"

namespace fedmrn::sim {

class RoundBook {
 public:
  // `log` hears of every client that failed.
  RoundBook(uint32_t round, std::function<void(const std::string&)> log);

  // A new sample: the model goes out to so many clients, in so many bytes each.
  void Send(size_t clients, size_t bytes);

  // A client's answer: checks its frame and adds it to the sum, `most` of it.
  // Whether it was counted; if not, why goes to the log.
  bool Receive(uint32_t client, const Result<client::Answer>& answer,
               Aggregator& sum, int threads, const Norms& most = {});

  // The model has made its step from the sum, which took so long. The clients'
  // noise had these magnitudes, if they were steered.
  void Step(const Aggregator& sum, const MagnitudesView& magnitudes,
            double seconds);

  const std::string& last_failure() const { return last_failure_; }
  // Whether every answer so far held something that is no number.
  bool diverged() const { return not_finite_ > 0 && not_finite_ == answers_; }

  // All columns but those of the evaluation.
  results::RoundRow Row(uint64_t coded_params) const;

 private:
  results::RoundRow row_;
  std::function<void(const std::string&)> log_;
  // The clients counted in this sample stand here in their order, so that means
  // do not depend on that of arrival.
  struct Training {
    double examples, loss, score;
  };
  std::map<uint32_t, Training> training_;
  uint64_t frames_ = 0;
  uint32_t answers_ = 0, not_finite_ = 0;
  std::string last_failure_ = "no client answered";
};

}  // namespace fedmrn::sim
