// A whole run: config in, a folder of results out.
//
//   rounds.csv, run.json   results.h      tb/           tensorboard.h
//   config.toml            as used        checkpoints/  checkpoint.h
//   model.pt               the final model, for torch.jit.load
//   model-best.pt          that of the best tested round
//   clients/               states.h, until the run is finished; longer where
//                          tensors stay on clients
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/results/results.h"
#include "fedmrn/sim/config.h"
#include "fedmrn/sim/progress.h"
#include "fedmrn/sim/round.h"

namespace fedmrn::sim {

struct RunOptions {
  std::string out;  // the folder of results; empty: writes nothing
  bool resume = false;
  bool overwrite = false;  // a run that is there already
  std::string version;     // of the program, for run.json
  // A folder for the frames of every round: what went out, what was counted,
  // and the model after it. Empty: they are forgotten.
  std::string save_frames;
  Progress* progress = nullptr;
  // Where the clients run; null: threads of this process.
  Team* team = nullptr;
  bool mixed = false;  // the team's processes may round differently
  // Called once with the rounds of a resumed run, then after each round.
  std::function<void(std::span<const results::RoundRow> rows)> on_round;
  // Warnings, failed clients.
  std::function<void(const std::string&)> log = [](const std::string&) {};
};

struct RunResult {
  std::vector<results::RoundRow> rows;
  std::string metric;  // what their scores are
  std::string model_sha256;
  bool stopped = false;  // by progress->stop; resume goes on from here
  std::string ended_by = {}, why_ended = {};  // of one that was not: see Ending
};

// Same config, same model: with any number of workers, stopped and resumed or
// not. Never overwrites another run's results. Threads may each run one, in
// folders of their own.
Result<RunResult> Run(const Config& config, const RunOptions& options);

// The same for the processes of the team that do not lead: asks clients until
// the server has ended. What is wrong here the server hears of and says.
Status Follow(const Result<Config>& config, const RunOptions& options);

// The keys that change results and whose values differ, as of ConfigValues.
struct KeyDifference {
  std::string name, first, second;
};
std::vector<KeyDifference> DifferencesOf(const Config& first,
                                         const Config& second);

// Whether a run whose config was `saved_toml` can go on with `config`; `folder`
// holds it. The error has a line for each key that differs. That it has become
// longer is no difference: see OnlyLonger.
Status CheckSameConfig(const Config& config, const std::string& saved_toml,
                       const std::string& folder);

// SHA-256 of the parameters: weights, then the plain values, as little-endian
// float32.
std::string ModelSha256(const GlobalModel& model);

// The folder that results go to unless told otherwise: by the config's file or,
// if that is empty, by data, partition, method and seed; then by the settings
// that were given beside it, so that other settings have another folder.
std::string DefaultFolder(const Config& config, const std::string& file,
                          std::span<const std::string> settings);

}  // namespace fedmrn::sim
