// Run folders, as `fedmrn run` leaves them, read back. The config is read as
// names and values, not as a Config: runs of older and newer versions of the
// program, with keys and methods that this one does not know, can stand on the
// same page.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/results/results.h"
#include "fedmrn/results/summary.h"

namespace fedmrn::report {

struct SavedRun {
  std::string folder;  // as given, or found below what was given
  // {"train.lr", "0.1"}, in the file's order; values as JSON and TOML write
  // them, so text is in quotes. A key that the run's version did not have yet
  // stands here with its default: what it did without knowing the key.
  std::vector<std::pair<std::string, std::string>> config;
  std::vector<results::RoundRow> rows;
  results::Summary summary;         // of the rows
  std::string metric = "accuracy";  // what their scores are
  bool finished = false;
  std::string ended_by;          // the key that ended it; empty: not known
  results::Confusion confusion;  // of the last test, or empty
  uint64_t coded_params = 0;
  uint64_t plain_values = 0;
  std::string model_sha256;
  // What it read, by content; empty: nothing, or its version did not tell.
  std::string data_sha256, model_file_sha256;
  // 0: its version did not tell.
  uint64_t train_examples = 0, test_examples = 0;
  // The files of data and network that its config names, of which runs with the
  // same content share one name; given by MakeStudy.
  std::string data_files, model_files;
  // A run that a grid made has the grid's summary, and its place on the grid's
  // axes: {"method", "uniform"}.
  std::string grid_summary;
  std::vector<std::pair<std::string, std::string>> grid_labels;
  std::string version;
  std::string machine;  // "AMD EPYC, 2 cores, Debian GNU/Linux 12"
  std::string started, ended;

  // A key's value without quotes, or nothing if there is no such key.
  std::string Get(std::string_view key) const;
  // `otherwise` if it is no number.
  double Number(std::string_view key, double otherwise) const;
};

// What this program takes where a config names only its data, network, kind of
// partition and method. Of a method that it does not know, the learning rate
// and the noise are not known either.
std::map<std::string, std::string> UsualConfig(const SavedRun& run);

// Every folder with a run.json at or below `dirs`, each once, in the order of
// their names. The error is a sentence that begins with the file.
Result<std::vector<SavedRun>> ReadRuns(std::span<const std::string> dirs);

// The config as TOML that `fedmrn run` takes.
std::string ConfigToml(const SavedRun& run);

}  // namespace fedmrn::report
