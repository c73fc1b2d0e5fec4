// Runs put in order for comparison. Runs that differ in their seed alone are a
// group. Groups that share data and training are compared with each other: a
// setting has cells, one per partition, and a cell has groups, one per method
// and its variants.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fedmrn/report/runs.h"

namespace fedmrn::report {

// What some runs cost, per client that answered.
struct Cost {
  double payload_bits = 0;  // per coded parameter, as are the next two
  double plain_bits = 0;
  double header_bits = 0;
  double train_s = 0;
  double encode_s = 0;
  double float32_bits = 0;  // of the whole model, uncompressed, per parameter

  double bits() const { return payload_bits + plain_bits + header_bits; }
};
Cost CostOf(std::span<const SavedRun* const> runs);
// The upload of a whole run, mean of them.
double UploadedMegabytes(std::span<const SavedRun* const> runs);

struct Group {
  std::string method;  // of the config
  // "FedMRN", "FedMRN w/o SM", "Top-k error_feedback=true": the method and what
  // sets it apart from its defaults and from other groups of the cell.
  std::string label;
  bool standard = false;  // the method's defaults: what the paper reports
  // FedMRN with parts left out or other noise: of the ablation and the noise
  // sweep, not a method of its own.
  bool ablation = false;
  bool noise_variant = false;
  std::vector<const SavedRun*> runs;  // by seed
  results::Spread best, last;         // scores, in the unit of their metric
  double uploaded_mb = 0;             // of a whole run, mean
  Cost cost;

  bool variant() const { return ablation || noise_variant; }
};

struct Cell {
  std::string kind;  // partition.kind of a config
  std::string name;  // "IID", "Non-IID-1, alpha=0.1"
  bool paper = false;
  std::vector<Group> groups;  // in the paper's order

  // Null if there is none.
  const Group* Standard(std::string_view method) const;
  const Group* Labelled(std::string_view label) const;
  // What is compared as methods: all but variants of one that is here itself.
  std::vector<const Group*> Compared() const;
};

struct Setting {
  std::string data;  // data.name of a config
  std::string name;  // "FMNIST, 20 rounds × 2 epochs": tells settings apart
  std::string slug;  // the same for file names and ids
  std::string metric = "accuracy";  // what is measured
  uint32_t rounds = 0, epochs = 0;
  size_t fewest_seeds = 0, most_seeds = 0;
  // Keys other than rounds and epochs that the paper has otherwise:
  // "train.batch=25 (64)".
  std::vector<std::string> departures;
  std::vector<Cell> cells;

  bool PaperLength() const;  // rounds and epochs are the paper's
  const Cell* PaperCell(std::string_view kind) const;
  // Labels of what all cells compare, each once, in the paper's order, with
  // the runs behind them.
  struct Row {
    std::string label, method;
    std::vector<const SavedRun*> runs;
  };
  std::vector<Row> Rows() const;
};

struct Study {
  std::vector<SavedRun> runs;
  // Beside `runs`: the run that has the same config, and counts for both, or
  // null.
  std::vector<const SavedRun*> same_as;
  std::vector<Setting> settings;
  size_t unfinished = 0, repeated = 0;  // which count in no setting

  Study() = default;
  Study(Study&&) = default;  // settings point to runs
  Study& operator=(Study&&) = default;
};

Study MakeStudy(std::vector<SavedRun> runs);

}  // namespace fedmrn::report
