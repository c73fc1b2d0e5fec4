#include "fedmrn/sim/round_book.h"

#include <utility>

#include "fedmrn/base/stopwatch.h"
#include "fedmrn/core/frame.h"

namespace fedmrn::sim {

RoundBook::RoundBook(uint32_t round,
                     std::function<void(const std::string&)> log)
    : log_(std::move(log)) {
  row_.round = round;
}

void RoundBook::Send(size_t clients, size_t bytes) {
  row_.downlink_bytes += clients * bytes;
  training_.clear();
}

bool RoundBook::Receive(uint32_t client, const Result<client::Answer>& answer,
                        Aggregator& sum, int threads, const Norms& most) {
  const Stopwatch watch;
  const auto add = [&]() -> Status {
    if (!answer) return answer.error();
    row_.train_s += answer->train_s;
    row_.encode_s += answer->encode_s;
    row_.uplink_bytes += answer->frame.size();
    ++frames_;
    const FrameView frame = FEDMRN_TRY(sum.Parse(answer->frame));
    row_.payload_bytes += frame.payload.size();
    row_.plain_bytes += frame.plain.size();
    if (frame.client != client) {  // it may speak for nobody but itself
      return Error{ErrorCode::kForeign,
                   "its frame is of client " + std::to_string(frame.client)};
    }
    FEDMRN_TRY(sum.Add(frame, threads, most));
    training_[client] = {static_cast<double>(frame.examples),
                         answer->train_loss, answer->train_score};
    return Ok();
  };
  const Status added = add();
  row_.aggregate_s += watch.seconds();
  ++answers_;
  if (added) return true;
  if (added.error().code == ErrorCode::kNotFinite) ++not_finite_;
  ++row_.dropped;
  last_failure_ =
      "client " + std::to_string(client) + ": " + added.error().ToString();
  log_("round " + std::to_string(row_.round) + ": " + last_failure_);
  return false;
}

void RoundBook::Step(const Aggregator& sum, const MagnitudesView& magnitudes,
                     double seconds) {
  row_.clients = static_cast<uint32_t>(sum.clients());
  if (!magnitudes.empty()) {
    uint64_t ones = 0;
    for (const uint64_t of_tensor : sum.beyond()) ones += of_tensor;
    row_.magnitude = MeanMagnitude(magnitudes);
    row_.share_of_ones =
        static_cast<double>(ones) /
        static_cast<double>(sum.clients() * magnitudes.params());
  }
  row_.aggregate_s += seconds;
}

results::RoundRow RoundBook::Row(uint64_t coded_params) const {
  results::RoundRow row = row_;
  double examples = 0;
  row.train_loss = row.train_score = 0;
  for (const auto& [client, training] : training_) {
    examples += training.examples;
    row.train_loss += training.examples * training.loss;
    row.train_score += training.examples * training.score;
  }
  row.train_loss /= examples;
  row.train_score /= examples;
  row.uplink_bits_per_param =
      8.0 * static_cast<double>(row.uplink_bytes) /
      (static_cast<double>(frames_) * static_cast<double>(coded_params));
  return row;
}

}  // namespace fedmrn::sim
