// fedmrn codecs: one round of the core alone. Every client's update becomes a
// frame, the server adds up the frames' bytes, and each codec shows what it
// costs and what it loses.
#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fedmrn/base/files.h"
#include "fedmrn/base/stopwatch.h"
#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/table.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/core/aggregate.h"
#include "fedmrn/core/codec.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/layout.h"
#include "fedmrn/core/noise.h"

namespace fedmrn::cli {
namespace {

constexpr uint32_t kRound = 1;
constexpr uint32_t kHeaderExamples = 600;
// The scale of what a client learns in a round, and noise to match.
constexpr float kUpdateStd = 0.001f;
constexpr Noise kNoise{NoiseKind::kUniform, 0.003f, 0};

// The paper's CNN4: batch norm travels as plain floats.
ModelLayout Cnn4() {
  ModelLayout layout;
  uint32_t inputs = 1;
  for (uint32_t outputs : {32, 64, 128, 256}) {
    const std::string n = std::to_string(outputs);
    layout.tensors.push_back({"conv" + n, {outputs, inputs, 3, 3}, true});
    for (const char* part : {"weight", "bias", "mean", "variance"}) {
      layout.tensors.push_back({"norm" + n + "." + part, {outputs}, false});
    }
    inputs = outputs;
  }
  layout.tensors.push_back({"classifier", {10, inputs}, true});
  return layout;
}

// What all clients learn alike, plus what client k learns alone.
std::vector<float> ClientUpdate(uint64_t k, size_t params) {
  std::vector<float> update(params), own(params);
  NoiseValues({NoiseKind::kGaussian, kUpdateStd, 0}, 0, update);
  NoiseValues({NoiseKind::kGaussian, kUpdateStd, k + 1}, 0, own);
  for (size_t i = 0; i < params; ++i) update[i] += own[i];
  return update;
}

// ||estimate - exact|| / ||exact||.
double RelativeError(const std::vector<float>& estimate,
                     const std::vector<double>& exact) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double difference = estimate[i] - exact[i];
    error += difference * difference;
    norm += exact[i] * exact[i];
  }
  return std::sqrt(error / norm);
}

struct Outcome {
  std::vector<Bytes> frames;
  double relative_error = 0;
  double encode_ms = 0, aggregate_ms = 0;  // of all clients
};

// All clients' frames by one codec, and the server's mean of them.
Result<Outcome> RunCodec(const Codec& codec, const ModelLayout& layout,
                         const std::vector<std::vector<float>>& updates,
                         const std::vector<double>& exact) {
  const std::vector<uint32_t> segments = layout.segments();
  std::vector<float> plain(layout.plain_values());
  NoiseValues({NoiseKind::kUniform, 0.1f, 0}, 0, plain);
  for (float& value : plain) value += 1;
  Outcome outcome;
  for (size_t k = 0; k < updates.size(); ++k) {
    FrameHeader header;
    header.codec = codec.id;
    header.round = kRound;
    header.client = k;
    header.examples = kHeaderExamples;
    header.fingerprint = layout.Fingerprint();
    if (codec.uses_noise) header.noise = kNoise;
    if (codec.uses_seed) header.noise.seed = 1000 + k;
    EncodeOptions options;
    options.draw_seed = 2000 + k;
    options.segments = segments;
    const Stopwatch watch;
    Result<Bytes> frame = EncodeFrame(header, options, updates[k], plain);
    outcome.encode_ms += 1e3 * watch.seconds();
    if (!frame) return frame.error();
    outcome.frames.push_back(*std::move(frame));
  }

  RoundSpec spec;
  spec.round = kRound;
  spec.fingerprint = layout.Fingerprint();
  spec.params = layout.coded_params();
  spec.plain_count = static_cast<uint32_t>(layout.plain_values());
  spec.codec = codec.id;
  if (codec.uses_noise) {
    spec.noise = kNoise.kind;
    spec.magnitude = kNoise.magnitude;
  }
  std::vector<float> mean(spec.params), plain_mean(spec.plain_count);
  const Stopwatch watch;
  Result<Aggregator> server = Aggregator::Create(spec);
  if (!server) return server.error();
  const std::vector<ByteView> received(outcome.frames.begin(),
                                       outcome.frames.end());
  for (const Status& verdict : server->AddAll(received, 1)) {
    if (!verdict) return verdict.error();
  }
  if (Status done = server->Finish(mean, plain_mean); !done) {
    return done.error();
  }
  outcome.aggregate_ms = 1e3 * watch.seconds();
  outcome.relative_error = RelativeError(mean, exact);
  return outcome;
}

Status RunCodecs(size_t clients, const std::string& out_dir) {
  if (!out_dir.empty()) FEDMRN_TRY(MakeFolder(out_dir));
  const ModelLayout layout = Cnn4();
  const size_t params = layout.coded_params();
  std::vector<std::vector<float>> updates;
  std::vector<double> exact(params);
  for (size_t k = 0; k < clients; ++k) {
    updates.push_back(ClientUpdate(k, params));
    for (size_t i = 0; i < params; ++i) {
      exact[i] += updates[k][i] / static_cast<double>(clients);
    }
  }

  PrintParagraph(fmt::format(
      "One round, {}, the size of the paper's CNN4: {} parameters to compress "
      "and {} batch-norm values that travel as float32. The updates are "
      "synthetic: Gaussian, half shared by all clients. mrn-*: uniform noise, "
      "{}.",
      report::Counted(clients, "client"), report::Grouped(params),
      report::Grouped(layout.plain_values()), kNoise.magnitude));
  Table table("lrrrrrr");
  table.Add({"codec", "frame bytes", "bits/param", "vs float32", "error/mean",
             "encode ms", "add ms"});
  size_t float32_bytes = 0;
  for (const Codec& codec : Codecs()) {
    const Result<Outcome> outcome = RunCodec(codec, layout, updates, exact);
    if (!outcome) {
      return Error{outcome.error().code,
                   std::string(codec.name) + ": " + outcome.error().ToString()};
    }
    size_t bytes = 0;
    for (const Bytes& frame : outcome->frames) bytes += frame.size();
    if (codec.id == CodecId::kFloat32) float32_bytes = bytes;
    const auto each = [&](double total) {
      return total / static_cast<double>(clients);
    };
    const double frame_bytes = each(static_cast<double>(bytes));
    const auto fixed = [](double value, int digits) {
      return fmt::format("{:.{}f}", value, digits);
    };
    table.Add(
        {std::string(codec.name),
         report::Grouped(static_cast<uint64_t>(frame_bytes + 0.5)),
         fixed(8 * frame_bytes / static_cast<double>(params), 3),
         fixed(static_cast<double>(float32_bytes) / static_cast<double>(bytes),
               1) +
             "x",
         codec.encodes_probabilities ? "-" : fixed(outcome->relative_error, 4),
         fixed(each(outcome->encode_ms), 2),
         fixed(each(outcome->aggregate_ms), 2)});
    if (!out_dir.empty()) {
      const auto path =
          std::filesystem::path(out_dir) / (std::string(codec.name) + ".frame");
      FEDMRN_TRY(WriteFileAtomically(path, outcome->frames[0]));
    }
  }
  table.Print();
  fmt::print("\n");
  PrintParagraph(
      "Bytes are lengths of real frames, bits those of whole frames; bytes and "
      "times are per client. error/mean: |server's mean - exact mean| / |exact "
      "mean|. A FedMRN client trains with its mask in place; here finished "
      "updates are masked, the paper's weaker \"FedAvg w. SM\". mask carries "
      "probabilities (FedPM's), not updates.");
  if (out_dir.empty()) {
    fmt::print(
        "Next: fedmrn codecs --out frames; "
        "fedmrn inspect frames/mrn-binary.frame\n");
  } else {
    fmt::print("Next: fedmrn inspect {}\n",
               (std::filesystem::path(out_dir) / "mrn-binary.frame").string());
  }
  return Ok();
}

}  // namespace

void AddCodecs(Verb program) {
  const Verb codecs = program.AddVerb(
      "codecs", "One round with every codec: bytes, error, time");
  struct Options {
    size_t clients = 10;
    std::string out_dir;
  };
  auto options = std::make_shared<Options>();
  codecs.AddOption("--clients", options->clients, "Clients in the round")
      .Between(1, 1000)
      .Text("N=10");
  codecs
      .AddOption("--out", options->out_dir,
                 "Write a frame of each codec to DIR/CODEC.frame")
      .Text("DIR");
  codecs.Do([options] {
    const Status done = RunCodecs(options->clients, options->out_dir);
    return done ? kExitOk : Fail("fedmrn codecs", done.error());
  });
}

}  // namespace fedmrn::cli
