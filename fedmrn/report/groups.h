// Runs put in order for comparison. Runs that differ in their seed alone are a
// group. Groups that share data and training are compared with each other: a
// setting has cells, one per partition, and a cell has groups, one per
// configuration of a method. Two runs are the same if nothing in their configs
// that can change results differs.
#pragma once

#include <cmath>
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
  // "FedMRN", "FedMRN w/o SM", "Top-k with error feedback": the method and what
  // sets it apart from its defaults and from other groups of the cell, none of
  // which has the same. Where all runs of a setting come from grids and are not
  // the paper's protocol, what the grid's variants are called: "topk-ef".
  std::string label;
  // What sets it apart but the noise: "w/o SM lr=0.3", or nothing.
  std::string but_noise;
  bool standard = false;  // the method's defaults: what the paper reports
  // FedMRN with parts left out or other noise: has plots of its own as well.
  bool ablation = false;
  bool noise_variant = false;
  std::vector<const SavedRun*> runs;  // by seed
  // Over the seeds, scores in the unit of their metric.
  results::Spread best, last, last_ten;
  double swing = 0;  // deviation of the last ten rounds in a run
  size_t last_rounds = 0, last_tests = 0;  // there are of the ten, and tested
  double uploaded_mb = 0;                  // of a whole run, mean
  Cost cost;

  bool variant() const { return ablation || noise_variant; }
};

struct Cell {
  std::string kind;  // partition.kind of a config
  // "IID", "Dirichlet, alpha=0.1"; "Non-IID-1" only where the protocol is the
  // paper's.
  std::string name;
  // Keys that the paper has otherwise for its partition of this kind:
  // "alpha=0.1 (0.3)", and of a data set that it does not have, those of
  // Fashion-MNIST's.
  std::vector<std::string> departures;
  std::vector<Group> groups;  // in the paper's order

  // Null if there is none.
  const Group* Standard(std::string_view method) const;
  const Group* Labelled(std::string_view label) const;
};

struct Setting {
  std::string data;  // data.name of a config
  // "FMNIST, 20 rounds × 2 epochs": tells settings apart. On a page of several
  // grids, behind the summary of the setting's own.
  std::string name;
  std::string slug;                 // the same for file names and ids
  std::string metric = "accuracy";  // what is measured
  std::string on = "test";  // or "validation", where examples were held out
  uint32_t rounds = 0, epochs = 0;
  // Keys that the paper has otherwise: "train.batch=25 (64)"; of a data set
  // that it does not have, none.
  std::vector<std::string> departures;
  std::vector<Cell> cells;

  // Whether a cell is what the paper reports: only then may its numbers be
  // compared.
  bool IsPapers(const Cell& cell) const;
  // The paper's cell of a kind, or the only one; null if there is none.
  const Cell* CellOf(std::string_view kind) const;
  // Labels of all cells, each once, in the paper's order, with the runs behind
  // them.
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
  std::string title;  // the summary of the grid that all come from, or nothing
  size_t unfinished = 0, repeated = 0;  // which count in no setting
  double target = std::nan("");         // see TargetOf

  Study() = default;
  Study(Study&&) = default;  // settings point to runs
  Study& operator=(Study&&) = default;
};

Study MakeStudy(std::vector<SavedRun> runs);

}  // namespace fedmrn::report
