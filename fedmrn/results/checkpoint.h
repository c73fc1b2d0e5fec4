// Checkpoints: a run between two rounds, in one file. Written whole or not at
// all; the last two are kept, so that a damaged one costs one step back.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"
#include "fedmrn/results/results.h"

namespace fedmrn::results {

struct Checkpoint {
  std::string config;   // TOML
  int64_t started = 0;  // of the run, in seconds since 1970
  std::vector<RoundRow> rows;
  Bytes model;                // a broadcast frame
  Bytes moments;              // of the server's optimizer, little-endian floats
  std::string client_states;  // ClientStates::List
  Inputs inputs;
  Confusions confusions = {};

  uint32_t rounds_done() const { return rows.empty() ? 0 : rows.back().round; }
};

// Into `folder` (created if missing), as round-NNNNNN.checkpoint; then removes
// all but the last two. `csv` remembers the rows from one to the next.
Status SaveCheckpoint(const std::string& folder, const Checkpoint& checkpoint,
                      GrowingCsv* csv = nullptr);

// The newest that is whole; `warn` hears about the others. Nothing if there is
// none at all; an error if there are some and none can be used.
Result<std::optional<Checkpoint>> LoadCheckpoint(
    const std::string& folder,
    const std::function<void(const std::string&)>& warn);

// The file's bytes and back; the error says what is wrong.
Bytes EncodeCheckpoint(const Checkpoint& checkpoint, GrowingCsv* csv = nullptr);
Result<Checkpoint> DecodeCheckpoint(ByteView bytes);

}  // namespace fedmrn::results
