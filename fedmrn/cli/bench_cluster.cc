// fedmrn bench cluster: what the server of a run over ranks costs, with clients
// that answer at once with frames that they have ready.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fedmrn/cli/bench.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/noise.h"
#include "fedmrn/sim/inputs.h"
#include "fedmrn/sim/ranks.h"
#include "fedmrn/sim/round.h"

namespace fedmrn::cli {
namespace {

struct ClusterOptions {
  bool json = false;
  uint32_t ranks = 4;
  uint32_t repeats = 20;
};

constexpr uint32_t kExamplesEach = 600;   // of a client
constexpr uint32_t kClientsOfRound = 10;  // of a round whose time is measured
constexpr uint32_t kClientsOfMemory[] = {10, 100, 1000};
constexpr uint64_t kLargerModel = 10'000'000;

// Ten million parameters and CNN4's, of which as many are sent as late in a run
// on Fashion-MNIST: 22 % of a mask's bits are ones.
std::vector<float> SomeUpdate(size_t size) {
  std::vector<float> update(size);
  NoiseValues({NoiseKind::kGaussian, 0.0024f, 1}, 0, update);
  return update;
}

// A client's answer to the broadcast of a round, without any training.
Bytes FrameOf(const sim::Config& config, const train::Task& task, uint64_t run,
              uint32_t round, uint32_t client) {
  const ModelLayout& layout = task.model.layout;
  FrameHeader header;
  header.codec =
      train::CodecOf(*train::FindMethod(config.method.name), config.method);
  header.run = run;
  header.round = round;
  header.client = client;
  header.examples = kExamplesEach;
  header.fingerprint = layout.Fingerprint();
  header.noise = {config.method.mask.noise, config.method.mask.magnitude,
                  client::SeedsOf(config.seed, round, client).noise};
  const std::vector<uint32_t> segments = layout.segments();
  EncodeOptions options = config.method.codec;
  options.segments = segments;
  const std::vector<float> plain(layout.plain_values(), 1.0f);
  return EncodeFrame(header, options, SomeUpdate(layout.coded_params()), plain)
      .value();
}

// Frames are made when they are first asked for: after a few rounds of one
// number all are ready. Thread-safe.
class ReadyClients {
 public:
  ReadyClients(const sim::Config& config, const train::Task& task)
      : config_(config), task_(task) {}

  Result<client::Answer> Answer(uint32_t client, const sim::RoundOrder& order) {
    const uint64_t run = FEDMRN_TRY(ParseFrame(order.broadcast)).run;
    const std::lock_guard lock(mutex_);
    Bytes& frame = frames_[{run, client}];
    if (frame.empty())
      frame = FrameOf(config_, task_, run, order.round, client);
    return client::Answer{frame};
  }

 private:
  const sim::Config& config_;
  const train::Task& task_;
  std::mutex mutex_;
  std::map<std::pair<uint64_t, uint32_t>, Bytes> frames_;
};

// Frames that one core parses, checks and adds in a second.
double FramesPerSecond(const RoundSpec& spec, const std::vector<Bytes>& frames,
                       uint32_t repeats) {
  const Aggregator empty = Aggregator::Create(spec).value();
  std::vector<double> seconds;
  for (uint32_t turn = 0; turn < repeats; ++turn) {
    Aggregator sum = empty;
    seconds.push_back(SecondsOf([&] {
      for (const Bytes& frame : frames) FEDMRN_CHECK(sum.Add(frame).ok());
    }));
  }
  return static_cast<double>(frames.size()) / Median(seconds);
}

double FramesPerSecondOfLargerModel(uint32_t repeats) {
  RoundSpec spec;
  spec.params = kLargerModel;
  spec.noise = NoiseKind::kUniform;
  spec.magnitude = 0.01f;
  const std::vector<float> update = SomeUpdate(spec.params);
  std::vector<Bytes> frames;
  for (uint32_t client = 0; client < 3; ++client) {
    FrameHeader header;
    header.codec = spec.codec = CodecId::kMrnBinary;
    header.client = client;
    header.examples = kExamplesEach;
    header.noise = {spec.noise, spec.magnitude, client + 1};
    frames.push_back(EncodeFrame(header, {}, update, {}).value());
  }
  return FramesPerSecond(spec, frames, std::max(3u, repeats / 4));
}

// The most memory that this process had since the last call.
double PeakMegabytes() {
  double megabytes = 0;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) {
      megabytes = std::strtod(line.c_str() + 6, nullptr) / 1024;
    }
  }
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins anew
  return megabytes;
}

Result<sim::Config> ConfigOf(uint32_t clients_per_round) {
  return sim::ParseConfig(
      "", "",
      std::vector<std::string>{
          "data.name=synthetic", "data.train_examples=1000",
          "data.test_examples=1", "partition.clients=1000",
          fmt::format("rounds.clients_per_round={}", clients_per_round),
          "run.workers=1", "run.eval_every=1000"});
}

// The median of some rounds over all ranks.
Result<double> RoundSeconds(const sim::Config& config,
                            const sim::RunInputs& inputs,
                            sim::Executor& executor, sim::Workers& workers,
                            sim::Progress& progress, uint32_t repeats) {
  const ModelLayout& layout = inputs.task.model.layout;
  const sim::RoundContext context{
      config,
      inputs.task,
      layout.Fingerprint(),
      std::vector<uint32_t>(inputs.partition.clients(), kExamplesEach),
      executor,
      workers,
      progress,
      [](const std::string&) {}};
  sim::GlobalModel model;
  model.weights.resize(layout.coded_params());
  model.plain.assign(layout.plain_values(), 1.0f);
  std::vector<double> seconds;
  for (uint32_t turn = 0; turn < repeats; ++turn) {
    sim::GlobalModel moved = model;
    const Stopwatch watch;
    const sim::RoundResult round = FEDMRN_TRY(sim::RunRound(context, 1, moved));
    seconds.push_back(watch.seconds());
    FEDMRN_CHECK(round.row.clients == config.rounds.clients_per_round);
  }
  return Median(seconds);
}

Status Measure(const ClusterOptions& options, sim::Team& team) {
  const sim::Config config = FEDMRN_TRY(ConfigOf(kClientsOfRound));
  const sim::RunInputs inputs = FEDMRN_TRY(sim::ReadInputs(config));
  sim::Workers workers(inputs.task, config.run.workers);
  client::States none("");
  sim::Progress progress;
  ReadyClients clients(config, inputs.task);
  sim::ExecutorParts parts{config,  inputs.task, inputs.partition,
                           workers, none,        progress};
  parts.version = FEDMRN_VERSION;
  parts.digests = inputs.digests;
  parts.ask = [&](uint32_t client, const sim::RoundOrder& order,
                  client::States&, client::Bench&, const std::atomic<bool>&) {
    return clients.Answer(client, order);
  };
  if (!team.leads()) return team.Follow(parts);

  const std::unique_ptr<sim::Executor> executor =
      FEDMRN_TRY(team.MakeExecutor(parts));
  fmt::print(stderr, "measuring a round of {} ranks ...\n", team.size());
  const uint32_t warm_up = 10;  // until every rank has every frame
  FEDMRN_TRY(
      RoundSeconds(config, inputs, *executor, workers, progress, warm_up));
  const double round_s = FEDMRN_TRY(RoundSeconds(
      config, inputs, *executor, workers, progress, options.repeats));

  std::vector<double> megabytes;
  // MPI's own buffers grow with the frames, up to a point, which is reached
  // here.
  const sim::Config hundred = FEDMRN_TRY(ConfigOf(100));
  FEDMRN_TRY(RoundSeconds(hundred, inputs, *executor, workers, progress, 10));
  for (const uint32_t count : kClientsOfMemory) {
    fmt::print(stderr, "measuring memory with {} clients a round ...\n", count);
    const sim::Config many = FEDMRN_TRY(ConfigOf(count));
    (void)PeakMegabytes();
    // The same number of frames each time.
    FEDMRN_TRY(RoundSeconds(many, inputs, *executor, workers, progress,
                            std::ranges::max(kClientsOfMemory) / count));
    megabytes.push_back(PeakMegabytes());
  }

  fmt::print(stderr, "measuring aggregation ...\n");
  std::vector<Bytes> frames;
  for (uint32_t client = 0; client < kClientsOfRound; ++client) {
    frames.push_back(
        FrameOf(config, inputs.task, sim::RunId(config), 1, client));
  }
  const ModelLayout& layout = inputs.task.model.layout;
  const sim::GlobalModel model = {
      std::vector<float>(layout.coded_params()),
      std::vector<float>(layout.plain_values(), 1.0f)};
  const double small = FramesPerSecond(
      sim::RoundSpecOf(config, layout, 1, model, 0), frames, options.repeats);
  const double large = FramesPerSecondOfLargerModel(options.repeats);
  const size_t broadcast_bytes =
      FEDMRN_TRY(sim::EncodeModel(config, layout.Fingerprint(), 1, model))
          .size();

  const auto [least, most] = std::ranges::minmax(megabytes);
  const std::vector<BenchRow> rows = {
      {"round_overhead_ms", 1e3 * round_s, "<= 20",
       fmt::format("{} clients on {} ranks: {} bytes to each rank, {} from "
                   "each client",
                   kClientsOfRound, team.size(), broadcast_bytes,
                   frames[0].size())},
      {"server_frames_per_s", small, "reported",
       fmt::format("{} parameters, parsed, checked and added on one core",
                   layout.coded_params())},
      {"server_frames_per_s_1e7", large, "reported",
       "the same with 10^7 parameters"},
      {"server_memory_mb_10", megabytes[0], "flat", "10 clients a round"},
      {"server_memory_mb_100", megabytes[1], "flat", "100 clients a round"},
      {"server_memory_mb_1000", megabytes[2], "flat", "1,000 clients a round"},
      {"server_memory_growth", most / least, "<= 1.1",
       "the most of these over the least"}};
  PrintBench(rows, options.json,
             {{"frame_bytes", frames[0].size()},
              {"broadcast_bytes", broadcast_bytes},
              {"ranks", team.size()},
              {"clients", kClientsOfRound}},
             options.repeats, "rounds");
  return Ok();
}

// Becomes mpirun, which starts this program again so many times.
Status BecomeRanks(const ClusterOptions& options) {
  FEDMRN_TRY(sim::LoadMpiModule());
  if (geteuid() == 0) {  // which mpirun refuses unless told that it is meant
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  std::error_code error;
  std::vector<std::string> words = {
      "mpirun",
      "--oversubscribe",
      "--bind-to",
      "none",
      "-n",
      std::to_string(options.ranks),
      std::filesystem::read_symlink("/proc/self/exe", error).string(),
      "bench",
      "cluster",
      "--repeats",
      std::to_string(options.repeats)};
  if (options.json) words.emplace_back("--json");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  return Error{ErrorCode::kFailed,
               fmt::format("cannot start mpirun: {}; install openmpi-bin",
                           std::strerror(errno))};
}

int BenchCluster(const ClusterOptions& options) {
  constexpr const char* kWho = "fedmrn bench cluster";
  if (sim::RanksStarted() == 1) {
    return Fail(kWho, BecomeRanks(options).error());
  }
  const Result<std::unique_ptr<sim::Team>> team = sim::GatherTeam("mpi");
  if (!team) return Fail(kWho, team.error());
  const Status measured = Measure(options, **team);
  return measured ? kExitOk : Fail(kWho, measured.error());
}

}  // namespace

void AddBenchCluster(Verb bench) {
  const Verb cluster = bench.AddVerb(
      "cluster", "The server of a run over ranks, clients answering at once");
  auto options = std::make_shared<ClusterOptions>();
  cluster
      .AddOption("--ranks", options->ranks,
                 "On this machine, unless started by mpirun")
      .Between(2, 64)
      .ShowDefault();
  cluster.AddOption("--repeats", options->repeats, "Repetitions of each figure")
      .Between(3, 1000)
      .ShowDefault();
  cluster.AddFlag("--json", options->json, "Print a JSON object");
  cluster.Do([options] { return BenchCluster(*options); });
}

}  // namespace fedmrn::cli
