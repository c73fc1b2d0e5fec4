// fedmrn aggregate: a round's new model from the frames that run --save-frames
// left, for whoever wants to check a server's work.
#include "fedmrn/core/aggregate.h"

#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "fedmrn/base/files.h"
#include "fedmrn/base/sha256.h"
#include "fedmrn/cli/commands.h"
#include "fedmrn/train/method/method.h"

namespace fedmrn::cli {
namespace {

struct AggregateArguments {
  std::vector<std::string> frames;
  std::string model, out;
  std::string weight = "examples";
  uint32_t batch = 64;
  std::string run_seed;
  double target_ones = train::MaskSettings().target_ones;
  double clip_norm = 0;
  uint64_t max_weight = 0;
  uint32_t max_examples = RoundSpec().max_examples;
};

Error In(const std::string& path, const Error& error) {
  return Error{error.code, path + ": " + error.ToString()};
}

// What the frames of a round must look like: as the broadcast and the first of
// them.
RoundSpec SpecOf(const AggregateArguments& arguments,
                 const FrameView& broadcast, const FrameView& first) {
  RoundSpec spec;
  spec.run = broadcast.run;
  spec.round = broadcast.round;
  spec.max_examples = arguments.max_examples;
  spec.fingerprint = broadcast.fingerprint;
  spec.params = broadcast.params;
  spec.plain_count = broadcast.plain_count;
  spec.plain_reference.resize(broadcast.plain_count);
  broadcast.CopyPlain(spec.plain_reference);
  spec.codec = first.codec;
  spec.noise = first.noise.kind;
  spec.magnitude = first.noise.magnitude;
  const ByteView magnitudes = broadcast.noise.magnitudes.bytes();
  spec.magnitudes.assign(magnitudes.begin(), magnitudes.end());
  if (!arguments.run_seed.empty()) {
    spec.run_seed = std::stoull(arguments.run_seed);
  }
  if (arguments.weight == "batches") {
    spec.examples_per_weight = arguments.batch;
  } else if (arguments.weight == "equal") {
    spec.examples_per_weight = spec.max_examples;
  }
  spec.max_weight = arguments.max_weight;
  return spec;
}

Status Aggregate(const AggregateArguments& arguments) {
  const Bytes model_bytes = FEDMRN_TRY(ReadFile(arguments.model));
  const Result<FrameView> model = ParseFrame(model_bytes);
  if (!model) return In(arguments.model, model.error());
  if (!model->broadcast) {
    return Error{ErrorCode::kForeign,
                 arguments.model + ": an update, not a model broadcast"};
  }
  std::vector<float> weights(model->params), plain(model->plain_count);
  DecodeUpdate(*model, weights);
  model->CopyPlain(plain);

  const Bytes first_bytes = FEDMRN_TRY(ReadFile(arguments.frames.front()));
  const Result<FrameView> first =
      ParseFrame(first_bytes, {.max_params = model->params});
  if (!first) return In(arguments.frames.front(), first.error());
  Aggregator sum =
      FEDMRN_TRY(Aggregator::Create(SpecOf(arguments, *model, *first)));
  std::vector<Norms> norms;
  for (const std::string& path : arguments.frames) {
    if (arguments.clip_norm == 0) break;
    const Bytes bytes = FEDMRN_TRY(ReadFile(path));
    const FrameView frame = FEDMRN_TRY(sum.Parse(bytes));
    norms.push_back(FEDMRN_TRY(sum.NormsOf(frame)));
  }
  const Norms most = LimitOf(arguments.clip_norm, std::move(norms));
  for (const std::string& path : arguments.frames) {
    const Bytes bytes = FEDMRN_TRY(ReadFile(path));
    const Result<FrameView> frame = sum.Parse(bytes);
    if (!frame) return In(path, frame.error());
    if (const Status added = sum.Add(*frame, 1, most); !added) {
      return In(path, added.error());
    }
  }
  FEDMRN_TRY(sum.Finish(weights, plain));

  FrameHeader header = *model;
  ++header.round;
  Bytes magnitudes;
  if (!header.noise.magnitudes.empty()) {
    magnitudes = SteerMagnitudes(header.noise.magnitudes, sum.beyond(),
                                 sum.clients(), arguments.target_ones);
    header.noise.magnitudes = MagnitudesView(magnitudes);
  }
  const Bytes after = FEDMRN_TRY(EncodeFrame(header, {}, weights, plain));
  if (!arguments.out.empty()) {
    FEDMRN_TRY(WriteFileAtomically(arguments.out, after));
  }
  Bytes values;
  AppendLe(std::span<const float>(weights), values);
  AppendLe(std::span<const float>(plain), values);
  fmt::print("frames     {}, total weight {}\n", sum.clients(),
             sum.total_weight());
  fmt::print("model      sha256 {}\n", Sha256Hex(values));
  return Ok();
}

}  // namespace

void AddAggregate(Verb program) {
  const Verb verb = program.AddVerb(
      "aggregate", "Make a round's new model of its frames again");
  verb.Footer(
      "  fedmrn run --save-frames frames --rounds.count 1\n"
      "  fedmrn aggregate frames/round-000001/client-*.frame \\\n"
      "    --model frames/round-000001/before.frame --out mine.frame\n"
      "  cmp mine.frame frames/round-000001/after.frame\n\n"
      "The mean of the updates is added to the model, as a server without an\n"
      "optimizer does for all methods but fedpm and fedsparsify.");
  auto arguments = std::make_shared<AggregateArguments>();
  verb.AddOption("FRAMES", arguments->frames, "The clients' frames").Required();
  verb.AddOption("--model", arguments->model, "The broadcast they started from")
      .Type("FRAME")
      .Required();
  verb.AddOption("--out", arguments->out, "Where the new model goes")
      .Type("FRAME");
  verb.AddOption("--weight", arguments->weight,
                 "A client's weight, as rounds.weight")
      .OneOf({"examples", "batches", "equal"})
      .ShowDefault();
  verb.AddOption("--batch", arguments->batch,
                 "Examples of a batch, for --weight batches")
      .Positive()
      .ShowDefault();
  verb.AddOption("--target-ones", arguments->target_ones,
                 "As method.target_ones, for steered magnitudes")
      .Positive()
      .ShowDefault();
  verb.AddOption("--clip-norm", arguments->clip_norm,
                 "As rounds.clip_norm, of the medians of these frames; 0: none")
      .ShowDefault();
  verb.AddOption("--max-weight", arguments->max_weight,
                 "The most that one client weighs; 0: what it says")
      .ShowDefault();
  verb.AddOption("--max-examples", arguments->max_examples,
                 "What the run's largest client has, if it has more than this")
      .Positive()
      .ShowDefault();
  verb.AddOption("--run-seed", arguments->run_seed,
                 "Refuse seeds that do not follow from it")
      .Type("N")
      .Check([](const std::string& value) {
        const bool number =
            !value.empty() && value.size() < 20 &&
            value.find_first_not_of("0123456789") == std::string::npos;
        return number ? std::string() : "is not a number";
      });
  verb.Do([arguments] {
    const Status done = Aggregate(*arguments);
    return done ? kExitOk : Fail("fedmrn aggregate", done.error());
  });
}

}  // namespace fedmrn::cli
