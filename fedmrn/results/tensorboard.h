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

// The same of one run's rows that become more from call to call: writes out
// only the new ones, so that a round takes no longer the more there were
// before.
class GrowingEvents {
 public:
  const Bytes& Of(std::span<const RoundRow> rows, int64_t start_time);

 private:
  Bytes events_;
  size_t rows_ = 0;  // that they hold
  double wall_time_ = 0;
  uint64_t uplink_bytes_ = 0;
};

// Makes the event file in `folder` (created if missing) hold these events. A
// TensorBoard that is watching keeps the file open, so it grows in place.
Status WriteTensorBoard(const std::string& folder, ByteView events,
                        int64_t start_time);

// The Castagnoli polynomial's, as TensorBoard's records carry it.
uint32_t Crc32c(ByteView bytes);

}  // namespace fedmrn::results
