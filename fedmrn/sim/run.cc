#include "fedmrn/sim/run.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "fedmrn/base/files.h"
#include "fedmrn/base/sha256.h"
#include "fedmrn/client/states.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/noise.h"
#include "fedmrn/results/checkpoint.h"
#include "fedmrn/results/summary.h"
#include "fedmrn/results/tensorboard.h"
#include "fedmrn/sim/client_tests.h"
#include "fedmrn/sim/ending.h"
#include "fedmrn/sim/executor.h"
#include "fedmrn/sim/inputs.h"
#include "fedmrn/sim/workers.h"
#include "fedmrn/train/kernels/vector_units.h"

namespace fedmrn::sim {
namespace {

int64_t SecondsSince1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The state of a run between two rounds.
struct State {
  int64_t started = 0;
  std::vector<results::RoundRow> rows;
  GlobalModel model;
  results::Confusions confusions;
  bool mixed = false;  // some of it: see RunOptions
};

class RunFolder {
 public:
  RunFolder(const Config& config, const RunOptions& options,
            const RunInputs& inputs, client::States& states)
      : config_(config),
        options_(options),
        task_(inputs.task),
        digests_(inputs.digests),
        fingerprint_(task_.model.layout.Fingerprint()),
        states_(states) {}

  bool exists() const { return !options_.out.empty(); }

  // Nobody else's from here on.
  Status Take() {
    if (exists()) lock_ = FEDMRN_TRY(FolderLock::Take(options_.out));
    return Ok();
  }

  // An error of a run that has begun, as it looks to those who hear of it: that
  // a path is wrong now is no bad input.
  Error Explained(const Error& error) const {
    if (const Status ours = StillOurs(); !ours) return ours.error();
    return {
        error.code == ErrorCode::kUnavailable ? ErrorCode::kFailed : error.code,
        error.message, error.offset};
  }

  std::string Path(const char* name) const { return options_.out + "/" + name; }

  // The state to go on from, or nothing: a new run.
  Result<std::optional<State>> Open() const {
    if (!exists()) return std::optional<State>();
    if (options_.overwrite) FEDMRN_TRY(RemoveRun());
    std::vector<std::string> warnings;
    Result<std::optional<results::Checkpoint>> found = results::LoadCheckpoint(
        Path("checkpoints"),
        [&](const std::string& warning) { warnings.push_back(warning); });
    const bool none = found && !found->has_value();
    // Results are somebody's even where the checkpoints have been removed.
    if (none && !std::filesystem::exists(Path("run.json"))) {
      return std::optional<State>();
    }
    if (!options_.resume) {
      return Error{ErrorCode::kDuplicate,
                   options_.out +
                       " already holds a run; --resume goes on with it, "
                       "--overwrite begins anew, --out DIR writes elsewhere"};
    }
    for (const std::string& warning : warnings) options_.log(warning);
    if (!found) return found.error();
    if (none) {
      return Error{ErrorCode::kUnavailable,
                   options_.out +
                       " holds results, but no checkpoint to go on from; "
                       "--out DIR writes elsewhere"};
    }
    const results::Checkpoint& checkpoint = **found;
    const Status same =
        CheckSameConfig(config_, checkpoint.config, options_.out);
    if (!same) return same.error();
    FEDMRN_TRY(CheckSameInputs(digests_, checkpoint.inputs, options_.out));
    const Result<FrameView> frame = ParseFrame(checkpoint.model);
    if (!frame || frame->fingerprint != fingerprint_ ||
        frame->params != task_.model.layout.coded_params() ||
        frame->plain_count != task_.model.layout.plain_values()) {
      return Error{ErrorCode::kForeign,
                   options_.out + "'s checkpoint is of another model"};
    }
    if (!checkpoint.client_states.empty() &&
        !EndingOf(config_.rounds, checkpoint.rows) &&
        !std::filesystem::exists(Path("clients"))) {
      return Error{ErrorCode::kUnavailable,
                   options_.out +
                       " has ended, and with it went what its clients kept "
                       "from round to round: it cannot have more rounds"};
    }
    const Status restored = states_.Restore(checkpoint.client_states);
    if (!restored) return restored.error();
    State state;
    state.started = checkpoint.started;
    state.rows = checkpoint.rows;
    state.confusions = checkpoint.confusions;
    const auto facts = Facts();
    // What has rounded differently once does not become the same again.
    state.mixed = facts && facts->mixed;
    state.model.weights.resize(frame->params);
    state.model.plain.resize(frame->plain_count);
    DecodeUpdate(*frame, state.model.weights);
    frame->CopyPlain(state.model.plain);
    const ByteView magnitudes = frame->noise.magnitudes.bytes();
    state.model.magnitudes.assign(magnitudes.begin(), magnitudes.end());
    state.model.moments = FEDMRN_TRY(MomentsOf(checkpoint));
    return std::optional(std::move(state));
  }

  // What run.json says, if it is there and sound.
  std::optional<results::RunFacts> Facts() const {
    const Result<Bytes> json = ReadFile(Path("run.json"));
    if (!json) return std::nullopt;
    Result<results::RunFacts> facts = results::ParseRunJson(AsText(*json));
    if (!facts) return std::nullopt;
    return *std::move(facts);
  }

  Result<Moments> MomentsOf(const results::Checkpoint& checkpoint) const {
    const ByteView bytes = checkpoint.moments;
    const size_t count =
        task_.model.layout.coded_params() + task_.model.trainable_plain;
    Moments moments;
    if (bytes.empty()) return moments;
    if (bytes.size() != 2 * count * sizeof(float)) {
      return Error{ErrorCode::kForeign,
                   options_.out + "'s checkpoint is of another model"};
    }
    for (std::vector<float>* values : {&moments.first, &moments.second}) {
      const size_t from = values == &moments.first ? 0 : count;
      values->resize(count);
      for (size_t i = 0; i < count; ++i) {
        (*values)[i] = LoadLe<float>(bytes.data() + (from + i) * sizeof(float));
      }
    }
    return moments;
  }

  static Bytes MomentBytes(const Moments& moments) {
    Bytes bytes;
    AppendLe(std::span<const float>(moments.first), bytes);
    AppendLe(std::span<const float>(moments.second), bytes);
    return bytes;
  }

  // What a run has written, and nothing else that may lie there.
  Status RemoveRun() const {
    std::error_code error;
    for (const char* name :
         {"checkpoints", "clients", "tb", "run.json", "rounds.csv", "model.pt",
          "model-best.pt", "config.toml"}) {
      std::filesystem::remove_all(Path(name), error);
      if (error) {
        return Error{ErrorCode::kFailed,
                     Path(name) + " cannot be removed: " + error.message()};
      }
    }
    return Ok();
  }

  // A resumed run may have been given more rounds.
  Status WriteConfig() const {
    if (!exists()) return Ok();
    return WriteFileAtomically(Path("config.toml"),
                               AsBytes(ConfigToml(config_)));
  }

  Status Begin(const State& state) {
    FEDMRN_TRY(WriteConfig());
    return Checkpointed(state);
  }

  Status Checkpointed(const State& state) {
    if (!exists()) return Ok();
    FEDMRN_TRY(StillOurs());
    const uint32_t round = state.rows.empty() ? 0 : state.rows.back().round;
    Result<Bytes> model =
        EncodeModel(config_, fingerprint_, round, state.model);
    if (!model) return model.error();
    const Status saved = results::SaveCheckpoint(
        Path("checkpoints"),
        {ConfigToml(config_), state.started, state.rows, std::move(*model),
         MomentBytes(state.model.moments), states_.List(), digests_,
         state.confusions},
        &csv_);
    if (saved) states_.RemoveOld();
    return saved;
  }

  // The network of a round, for PyTorch.
  Status WriteModel(const char* name, uint32_t round,
                    const GlobalModel& model) const {
    if (!exists()) return Ok();
    FEDMRN_TRY(StillOurs());
    const GlobalModel network = NetworkOf(config_, task_, round, model);
    const std::string module =
        FEDMRN_TRY(task_.model.torchscript(network.weights, network.plain));
    return WriteFileAtomically(Path(name), AsBytes(module));
  }

  // Everything for people: follows the checkpoint, and is made anew from it.
  Status Report(const State& state, const std::optional<Ending>& ending) {
    if (!exists()) return Ok();
    FEDMRN_TRY(StillOurs());
    FEDMRN_TRY(
        WriteFileAtomically(Path("rounds.csv"), AsBytes(csv_.Of(state.rows))));
    if (config_.run.tensorboard) {
      if (!events_) events_.emplace(Path("tb"), state.started);
      FEDMRN_TRY(events_->Write(state.rows));
    }
    results::RunInfo info;
    info.version = options_.version;
    info.simd_target = train::SimdTarget();
    info.mixed = options_.mixed || state.mixed;
    info.started = state.started;
    if (ending) {
      info.ended = SecondsSince1970();
      info.ended_by = ending->key;
    }
    info.metric = task_.model.metric;
    info.coded_params = state.model.weights.size();
    info.plain_values = state.model.plain.size();
    info.local_values = task_.model.local_values;
    info.model_sha256 = ModelSha256(state.model);
    info.inputs = digests_;
    info.train_examples = task_.data->train_examples;
    info.test_examples = task_.data->test_examples;
    info.confusions = state.confusions;
    return results::WriteRunJson(Path("run.json"), ConfigValues(config_), info,
                                 state.rows);
  }

 private:
  Status StillOurs() const { return lock_ ? lock_->Check() : Ok(); }

  const Config& config_;
  const RunOptions& options_;
  const train::Task& task_;
  const results::Inputs& digests_;
  uint64_t fingerprint_;
  client::States& states_;
  std::optional<FolderLock> lock_;
  results::GrowingCsv csv_;
  std::optional<results::EventFile> events_;
};

ExecutorParts PartsOf(const Config& config, const RunOptions& options,
                      const RunInputs& inputs, Workers& workers,
                      client::States& states, Progress& progress) {
  return {config,        inputs.task, inputs.partition, workers,
          states,        progress,    options.version,  inputs.digests,
          options.mixed, options.log};
}

// Rounds from this state on, until the run ends or is stopped.
Result<RunResult> DoRounds(const RoundContext& context,
                           const ClientTests& client_tests, RunFolder& folder,
                           const decltype(RunOptions::on_round)& on_round,
                           State& state) {
  const Config& config = context.config;
  const char* const metric = context.task.model.metric;
  std::optional<Ending> ending = EndingOf(config.rounds, state.rows);
  while (!ending) {
    const uint32_t round = state.rows.empty() ? 1 : state.rows.back().round + 1;
    context.progress.round = round;
    Result<RoundResult> result = RunRound(context, round, state.model);
    if (result && !std::isnan(result->row.score)) {
      const Status tested = client_tests.Test(round, state.model, result->row);
      if (!tested) result = tested.error();
    }
    if (!result && result.error().code == ErrorCode::kStopped) {
      return RunResult{std::move(state.rows), metric, "", true};
    }
    if (!result) return result.error();
    state.rows.push_back(result->row);
    if (!result->confusion.empty()) {
      state.confusions.last = {round, std::move(result->confusion)};
    }
    if (results::SummaryOf(state.rows).best.round == round) {
      state.confusions.best = state.confusions.last;
      FEDMRN_TRY(folder.WriteModel("model-best.pt", round, state.model));
    }
    ending = EndingOf(config.rounds, state.rows);
    if (ending || round % config.run.checkpoint_every == 0) {
      FEDMRN_TRY(folder.Checkpointed(state));
    }
    FEDMRN_TRY(folder.Report(state, std::nullopt));
    if (on_round) on_round(state.rows);
  }
  FEDMRN_TRY(folder.WriteModel("model.pt", ending->round, state.model));
  FEDMRN_TRY(folder.Report(state, ending));
  return RunResult{state.rows,
                   metric,
                   ModelSha256(state.model),
                   false,
                   std::string(ending->key),
                   ending->why};
}

}  // namespace

Status Follow(const Result<Config>& config, const RunOptions& options) {
  if (!config) {
    options.team->Refuse(config.error());
    return Ok();
  }
  Progress unwatched;
  Progress& progress = options.progress ? *options.progress : unwatched;
  const Result<RunInputs> inputs = ReadInputs(*config);
  if (!inputs) {
    options.team->Refuse(inputs.error());
    return Ok();
  }
  Workers workers(inputs->task, config->run.workers);
  client::States none("");
  return options.team->Follow(
      PartsOf(*config, options, *inputs, workers, none, progress));
}

Result<RunResult> Run(const Config& config, const RunOptions& options) {
  Progress unwatched;
  Progress& progress = options.progress ? *options.progress : unwatched;
  const Result<RunInputs> inputs = ReadInputs(config);
  if (!inputs) return inputs.error();
  const train::Task& task = inputs->task;
  const Partition& partition = inputs->partition;
  for (const std::string& note : task.data->notes) options.log(note);
  progress.metric = task.model.metric;
  if (config.method.error_feedback &&
      !train::FindMethod(config.method.name)->contractive) {
    options.log("error feedback may do harm with " + config.method.name +
                ": what it sends can be further from the update than nothing "
                "at all, and the error grows");
  }
  if (task.model.local_values > 0 && config.run.eval_clients == 0) {
    options.log(
        "the tensors of method.local keep their initial values in the "
        "global model, whose accuracy says little then; "
        "run.eval_clients tests clients with their own");
  }
  const uint64_t fingerprint = task.model.layout.Fingerprint();
  Workers workers(task, config.run.workers);
  client::States states(options.out.empty() ? "" : options.out + "/clients");
  const ExecutorParts parts =
      PartsOf(config, options, *inputs, workers, states, progress);
  const std::unique_ptr<Executor> executor =
      options.team != nullptr ? FEDMRN_TRY(options.team->MakeExecutor(parts))
                              : MakeThreadExecutor(parts);

  RunFolder folder(config, options, *inputs, states);
  FEDMRN_TRY(folder.Take());
  if (!options.save_frames.empty()) FEDMRN_TRY(MakeFolder(options.save_frames));
  Result<std::optional<State>> opened = folder.Open();
  if (!opened) return opened.error();
  State state;
  const bool resumed = opened->has_value();
  if (resumed) {
    state = std::move(**opened);
  } else {
    state.started = SecondsSince1970();
    state.model.weights.resize(task.model.layout.coded_params());
    state.model.plain.resize(task.model.layout.plain_values());
    task.model.initialize(config.seed, state.model.weights, state.model.plain);
    if (config.method.mask.steered()) {
      state.model.magnitudes = MagnitudeBytes(
          task.model.layout.segments(), config.method.mask.first_magnitude);
    }
    const train::Method& method = *train::FindMethod(config.method.name);
    if (method.initialize != nullptr) {
      method.initialize(config.seed, state.model.weights);
    }
  }
  // Before any training, not after the first round's.
  const Result<Aggregator> possible =
      Aggregator::Create(RoundSpecOf(config, task.model.layout, 1, state.model,
                                     std::ranges::max(partition.sizes())));
  if (!possible) {
    return Error{ErrorCode::kBadValue,
                 "no update could be added, is method.magnitude too large? " +
                     possible.error().ToString()};
  }
  if (!resumed) {
    FEDMRN_TRY(folder.Begin(state));
  } else {
    // A finished run that was given more rounds is unfinished before its config
    // says so: whoever reads the folder after a kill goes by its checkpoint.
    const auto facts = folder.Facts();
    if (facts && facts->finished && !EndingOf(config.rounds, state.rows)) {
      FEDMRN_TRY(folder.Report(state, std::nullopt));
    }
    FEDMRN_TRY(folder.WriteConfig());
  }
  if (options.on_round) options.on_round(state.rows);

  const RoundContext context{
      config,  task,     fingerprint, partition.sizes(),  *executor,
      workers, progress, options.log, options.save_frames};
  const ClientTests client_tests(config, task, inputs->held_out, states,
                                 *executor, workers, progress);
  Result<RunResult> result =
      DoRounds(context, client_tests, folder, options.on_round, state);
  if (!result) return folder.Explained(result.error());
  // Tensors that stay on clients are part of what was trained.
  if (!result->stopped && task.model.local_values == 0) states.RemoveAll();
  return result;
}

std::vector<KeyDifference> DifferencesOf(const Config& first,
                                         const Config& second) {
  const auto values = ConfigValues(first), others = ConfigValues(second);
  std::vector<KeyDifference> differences;
  for (size_t i = 0; i < values.size(); ++i) {
    if (ConfigKeys()[i].changes_results && values[i] != others[i]) {
      differences.push_back(
          {values[i].first, values[i].second, others[i].second});
    }
  }
  return differences;
}

Status CheckSameConfig(const Config& config, const std::string& saved_toml,
                       const std::string& folder) {
  const Result<Config> saved =
      ParseConfig(saved_toml, folder + "'s config", {});
  if (!saved) return saved.error();
  std::string differences;
  for (const KeyDifference& key : DifferencesOf(*saved, config)) {
    if (!OnlyLonger(key.name, config.rounds, saved->rounds)) {
      differences +=
          "\n  " + key.name + ": was " + key.first + ", now " + key.second;
    }
  }
  if (differences.empty()) return Ok();
  return Error{ErrorCode::kForeign,
               folder + " holds a run with another config:" + differences +
                   "\nresume with the same config, or start anew with another "
                   "--out"};
}

std::string ModelSha256(const GlobalModel& model) {
  Bytes bytes;
  bytes.reserve(4 * (model.weights.size() + model.plain.size()));
  AppendLe(std::span<const float>(model.weights), bytes);
  AppendLe(std::span<const float>(model.plain), bytes);
  return Sha256Hex(bytes);
}

std::string DefaultFolder(const Config& config, const std::string& file,
                          std::span<const std::string> settings) {
  const bool usual =
      config.model.name == train::FindDataSet(config.data.name)->model;
  std::string name =
      file.empty()
          ? config.data.name + "-" + (usual ? "" : config.model.name + "-") +
                std::string(NameOf(config.partition.kind, kPartitionKinds)) +
                "-" + config.method.name + "-seed" + std::to_string(config.seed)
          : std::filesystem::path(file).stem().string();
  // What the name tells already.
  const std::set<std::string_view> told =
      file.empty() ? std::set<std::string_view>{"data.name", "model.name",
                                                "partition.kind", "method.name",
                                                kSeedKey}
                   : std::set<std::string_view>{};
  for (const std::string& text : settings) {
    const Result<ConfigSetting> setting = ParseSetting(text);
    if (!setting || told.contains(setting->key)) continue;
    const ConfigKey key = DescribeKey(setting->key);
    // More rounds are the same run.
    if (key.role == KeyRole::kProgram || IsLength(key.name)) continue;
    std::string value = setting->value;
    std::erase(value, '"');
    for (char& c : value) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.') c = '_';
    }
    name += "-" + std::string(key.short_name) + value;
  }
  // File systems allow 255 bytes.
  constexpr size_t kLongest = 120;
  if (name.size() > kLongest) {
    name =
        name.substr(0, kLongest) + "-" + Sha256Hex(AsBytes(name)).substr(0, 8);
  }
  return "runs/" + name;
}

}  // namespace fedmrn::sim
