// A run's curves as TensorBoard reads them: `tensorboard --logdir DIR`.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"
#include "fedmrn/results/results.h"

namespace fedmrn::results {

// The contents of an event file: a pure function of the rows, in which more
// rows only add bytes at the end. `start_time`, of the whole run (not of its
// last resumption), is in seconds since 1970.
Bytes TensorBoardEvents(std::span<const RoundRow> rows, int64_t start_time);

// One run's event file in `folder` (created if missing). A TensorBoard that is
// watching keeps the file open, so it grows in place.
class EventFile {
 public:
  EventFile(std::string folder, int64_t start_time);

  // Makes it hold the events of these rows, which become more from call to
  // call: only the new ones are written, and none are kept, so that a round
  // takes no longer the more there were before.
  Status Write(std::span<const RoundRow> rows);

 private:
  std::string folder_, path_;
  int64_t start_time_;
  // What was written.
  size_t rows_ = 0;
  uint64_t length_ = 0;  // 0: nothing yet
  double wall_time_ = 0;
  uint64_t uplink_bytes_ = 0;
};

// The Castagnoli polynomial's, as TensorBoard's records carry it.
uint32_t Crc32c(ByteView bytes);

}  // namespace fedmrn::results
