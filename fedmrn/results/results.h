// What a run leaves behind for people and programs: rounds.csv, a row per
// round, and run.json, the run at a glance. Both are written whole from the
// rows, which live in the checkpoint: after a crash and --resume no round is
// missing and none is there twice.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/results/confusion.h"

namespace fedmrn::results {

struct RoundRow {
  uint32_t round = 0;
  // What the model's metric gives (accuracies are 0 to 1), in a column that is
  // called accuracy for all of them; NaN: not tested in this round.
  double score = std::nan("");
  double loss = std::nan("");  // same
  uint64_t uplink_bytes = 0;   // sum of the frames' lengths, of which
  uint64_t payload_bytes = 0;  // compressed parameters
  uint64_t plain_bytes = 0;    // what is not compressed; the rest: headers
  uint64_t downlink_bytes = 0;
  double uplink_bits_per_param = 0;
  uint32_t clients = 0;  // whose updates arrived
  uint32_t dropped = 0;
  double train_s = 0;
  double encode_s = 0;
  double aggregate_s = 0;
  double eval_s = 0;
  double wall_s = 0;
  double mean_iou = std::nan("");  // of a segmentation
  // Means over the counted clients' last local epochs, weighted by examples, as
  // they tell: of what was trained, in training mode, before each step. Not of
  // the round's model.
  double train_loss = std::nan("");
  double train_score = std::nan("");
  // How some clients score on their own held-out examples (mean, 10th
  // percentile and worst) with the global model, and with what a local round of
  // theirs makes of it.
  double client_score = std::nan("");
  double client_score_p10 = std::nan("");
  double client_score_worst = std::nan("");
  double personal_score = std::nan("");
  double personal_score_p10 = std::nan("");
  double personal_score_worst = std::nan("");
  // Where magnitudes are steered, over all tensors and clients: the
  // geometric mean of the magnitudes, and the share of ones in binary masks
  // (signed ones: of updates beyond their thresholds).
  double magnitude = std::nan("");
  double share_of_ones = std::nan("");
};

// Seconds are rounded to milliseconds, NaN is an empty field, every other
// number can be read back exactly. Columns that are empty in all rows and that
// not every run has (mean_iou and what is younger) are left out.
std::string RoundsCsv(std::span<const RoundRow> rows);
Status WriteRoundsCsv(const std::string& path, std::span<const RoundRow> rows);

// The same of rows that become more from call to call: writes out only the new
// ones, so that a round takes no longer the more there were before.
class GrowingCsv {
 public:
  const std::string& Of(std::span<const RoundRow> rows);

 private:
  std::string csv_;
  size_t rows_ = 0;  // that it holds
};

// The inverse, also of files of older versions. Refuses a file that is cut off
// or whose rounds do not increase; the error begins with the line: "line 3:
// ...".
Result<std::vector<RoundRow>> ParseRoundsCsv(std::string_view text);

// What a run read, by content: part of its identity wherever the files lie.
struct Inputs {
  std::string data_sha256 = {};
  std::string model_file_sha256 = {};  // empty: the network is a built-in one

  bool operator==(const Inputs&) const = default;
};

// What run.json tells beyond the config and the rows.
struct RunInfo {
  std::string version = {};
  std::string simd_target = {};
  bool mixed = false;   // ranks may have computed with other vector units
  int64_t started = 0;  // seconds since 1970
  std::optional<int64_t> ended = {};  // of a finished run,
  std::string ended_by = {};          // and the key that ended it
  std::string metric = "accuracy";    // what the score is
  uint64_t coded_params = 0;
  uint64_t plain_values = 0;
  uint64_t local_values = 0;  // that stay on each client
  std::string model_sha256 = {};
  Inputs inputs = {};
  uint64_t train_examples = 0, test_examples = 0;  // that were read
  Confusions confusions = {};  // of the best and the last tested round
};

// A config as its keys and values: {"train.lr", "0.1"}, as TOML writes them.
using ConfigValuesView = std::span<const std::pair<std::string, std::string>>;

// Numbers that JSON cannot express (NaN, infinity) are null.
std::string RunJson(ConfigValuesView config, const RunInfo& info,
                    std::span<const RoundRow> rows);
Status WriteRunJson(const std::string& path, ConfigValuesView config,
                    const RunInfo& info, std::span<const RoundRow> rows);

// What a run.json tells of its run; an error if it is none.
struct RunFacts {
  bool finished = false;
  std::string metric;
  Inputs inputs;       // empty in a run of a version that did not keep them
  bool mixed = false;  // see RunInfo
};
Result<RunFacts> ParseRunJson(std::string_view json);

}  // namespace fedmrn::results
