// fedmrn inspect: what a frame file holds, for people and (--json) programs.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "fedmrn/base/json.h"
#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/core/codec.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/wire.h"

namespace fedmrn::cli {
namespace {

// A large file that is not a frame is not read to its end.
Result<Bytes> ReadInput(const std::string& path) {
  const auto failed = [](const std::string& message) {
    return Error{ErrorCode::kBadValue, message};
  };
  if (std::error_code ignored;
      path != "-" && std::filesystem::is_directory(path, ignored)) {
    return failed("is a directory, not a frame");
  }
  const auto close = [](std::FILE* file) {
    if (file != stdin) std::fclose(file);
  };
  const std::unique_ptr<std::FILE, decltype(close)> file(
      path == "-" ? stdin : std::fopen(path.c_str(), "rb"), close);
  if (!file) {
    return failed(std::string("cannot open it: ") + std::strerror(errno));
  }
  Bytes bytes;
  for (size_t want = wire::kLeastFrameBytes;;) {
    const size_t at = bytes.size();
    bytes.resize(at + want);
    const size_t got = std::fread(bytes.data() + at, 1, want, file.get());
    bytes.resize(at + got);
    if (got < want || !wire::HasMagic(bytes)) break;
    want = std::max(bytes.size(), size_t{1} << 16);
  }
  if (std::ferror(file.get()) != 0) {
    return failed(std::string("cannot read it: ") + std::strerror(errno));
  }
  if (bytes.empty()) return failed("is empty");
  return bytes;
}

const char* NoiseName(NoiseKind kind) {
  switch (kind) {
    case NoiseKind::kNone:
      return "none";
    case NoiseKind::kUniform:
      return "uniform";
    case NoiseKind::kGaussian:
      return "gaussian";
    case NoiseKind::kBernoulli:
      return "bernoulli";
  }
  return "unknown";
}

struct Checksum {
  uint64_t stored, computed;
  bool ok() const { return stored == computed; }
};

struct PlainStats {
  float min, max;
  double mean;
};

// What a codec says about a payload.
struct Fact {
  const PayloadFact* about;
  double value;
};

// Everything that could be learnt from one file.
struct Report {
  std::string name;
  size_t file_bytes = 0;
  std::optional<Error> error;
  std::optional<wire::Header> header;  // where a magic is; sound or not
  const Codec* codec = nullptr;        // the header's, if it names one
  std::optional<Checksum> checksum;    // where the length is right
  // Only a valid frame is looked into.
  std::vector<Fact> facts;
  std::optional<PlainStats> plain;
  std::vector<TensorMagnitude> magnitudes;
};

PlainStats StatsOf(const FrameView& frame) {
  std::vector<float> values(frame.plain_count);
  frame.CopyPlain(values);
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  double sum = 0;
  for (float value : values) sum += value;
  return {*min, *max, sum / static_cast<double>(values.size())};
}

Report Inspect(const std::string& path) {
  Report report;
  report.name = path == "-" ? "stdin" : path;
  const Result<Bytes> bytes = ReadInput(path);
  if (!bytes) {
    report.error = bytes.error();
    return report;
  }
  report.file_bytes = bytes->size();
  if (bytes->size() >= wire::kHeaderBytesOfVersion1 && wire::HasMagic(*bytes)) {
    report.header = wire::ReadHeader(*bytes);
    report.codec = FindCodec(report.header->codec);
    if (wire::IsKnownVersion(report.header->version) &&
        report.header->frame_bytes() == bytes->size()) {
      report.checksum = {wire::StoredChecksum(*bytes),
                         wire::ComputeChecksum(*bytes)};
    }
  }
  const Result<FrameView> frame = ParseFrame(*bytes);
  if (!frame) {
    report.error = frame.error();
    return report;
  }
  for (const PayloadFact& fact : report.codec->facts) {
    report.facts.push_back({&fact, fact.value(*frame)});
  }
  if (frame->plain_count > 0) report.plain = StatsOf(*frame);
  for (size_t t = 0; t < frame->noise.magnitudes.size(); ++t) {
    report.magnitudes.push_back(frame->noise.magnitudes[t]);
  }
  return report;
}

const char* PlainType(const wire::Header& header) {
  switch (header.plain_kind) {
    case PlainKind::kFloat32:
      return "float32";
    case PlainKind::kFloat16:
      return "float16";
    case PlainKind::kDelta:
      return "delta";
  }
  return "unknown";
}

double BitsPerParam(const Report& report) {
  return 8 * static_cast<double>(report.file_bytes) /
         static_cast<double>(report.header->params);
}

std::string ChecksumVerdict(const Report& report) {
  if (!report.checksum) return "not checked";
  if (report.checksum->ok()) return "ok";
  return fmt::format("BAD: should be 0x{:016x}", report.checksum->computed);
}

void Line(std::string_view label, const std::string& text) {
  fmt::print("  {:<13} {}\n", label, text);
}

void BytesLine(const char* label, uint64_t bytes, const std::string& note) {
  fmt::print("  {:<13} {:>14} B{}{}\n", label, report::Grouped(bytes),
             note.empty() ? "" : "  ", note);
}

void PrintHeader(const wire::Header& header, const Codec* codec) {
  Line("codec",
       codec != nullptr
           ? fmt::format("{}: {}", codec->name, codec->summary)
           : fmt::format("unknown ({})", static_cast<uint8_t>(header.codec)));
  Line("holds", header.broadcast ? "a model broadcast" : "an update");
  if (header.version > 1) Line("run", fmt::format("0x{:016x}", header.run));
  Line("round", report::Grouped(header.round));
  Line("client", fmt::format("{}", header.client));
  Line("examples", report::Grouped(header.examples));
  Line("fingerprint", fmt::format("0x{:016x}", header.fingerprint));
  Line("parameters", report::Grouped(header.params));
  if (codec == nullptr || codec->uses_noise) {
    // 0 where the tensors have their own.
    Line("noise",
         NoiseName(header.noise.kind) +
             (header.noise.magnitude == 0
                  ? std::string()
                  : fmt::format(", magnitude {}", header.noise.magnitude)));
  }
  if (codec == nullptr || codec->uses_seed) {
    Line("seed", fmt::format("0x{:016x}", header.noise.seed));
  }
  if (codec == nullptr) {
    Line("codec param", report::Grouped(header.codec_param));
  } else if (codec->uses_param) {
    const auto [label, text] = codec->describe_param(header.codec_param);
    Line(label, text);
  }
}

void PrintBytes(const Report& report) {
  const wire::Header& header = *report.header;
  BytesLine("header", header.header_bytes(), "");
  if (header.extension_bytes > 0) {
    BytesLine("extensions", header.extension_bytes, "");
  }
  BytesLine("payload", header.payload_bytes, "");
  BytesLine(
      "plain", header.plain_bytes,
      header.plain_count == 0
          ? ""
          : fmt::format("{} {} values", report::Grouped(header.plain_count),
                        PlainType(header)));
  BytesLine("checksum", kFrameChecksumBytes, ChecksumVerdict(report));
  BytesLine("total", report.file_bytes,
            report.error
                ? "the file's length"
                : fmt::format("{:.4f} bits a parameter", BitsPerParam(report)));
}

std::string FactText(const Fact& fact, uint64_t params) {
  if (fact.about->kind == PayloadFact::Kind::kValue) {
    return fmt::format("{:.6g}", fact.value);
  }
  const std::string count = report::Grouped(static_cast<uint64_t>(fact.value));
  if (fact.about->kind == PayloadFact::Kind::kCount) return count;
  return fmt::format("{:.2f} % ({} of {})",
                     100 * (fact.value / static_cast<double>(params)), count,
                     report::Grouped(params));
}

void PrintText(const Report& report) {
  if (!report.header) return;
  fmt::print("{}: FedMRN frame, version {}, {}\n", report.name,
             report.header->version, report.error ? "NOT VALID" : "valid");
  // Another version's header may be laid out differently.
  if (!wire::IsKnownVersion(report.header->version)) return;
  if (report.error) fmt::print("  (header not verified)\n");
  PrintHeader(*report.header, report.codec);
  if (!report.magnitudes.empty()) {
    std::string text;
    for (const TensorMagnitude& tensor : report.magnitudes) {
      text +=
          fmt::format("{}{:.4g}", text.empty() ? "" : ", ", tensor.magnitude);
    }
    Line("magnitudes", text);
  }
  for (const Fact& fact : report.facts) {
    Line(fact.about->label, FactText(fact, report.header->params));
  }
  if (report.plain) {
    Line("plain values",
         fmt::format("min {:.6g}, mean {:.6g}, max {:.6g}", report.plain->min,
                     report.plain->mean, report.plain->max));
  }
  fmt::print("\n");
  PrintBytes(report);
}

// The keys of all codecs' facts; what does not apply to this frame is null.
void FactsToJson(const Report& report, Json& out) {
  const auto params = static_cast<double>(report.header->params);
  for (const Codec& codec : Codecs()) {
    for (const PayloadFact& fact : codec.facts) {
      const std::string key(fact.key);
      out[key] = nullptr;
      if (fact.kind == PayloadFact::Kind::kParams) {
        out["share_of_" + key] = nullptr;
      }
    }
  }
  for (const auto& [about, value] : report.facts) {
    const std::string key(about->key);
    if (about->kind == PayloadFact::Kind::kValue) {
      out[key] = value;
    } else {
      out[key] = static_cast<uint64_t>(value);
    }
    if (about->kind == PayloadFact::Kind::kParams) {
      out["share_of_" + key] = value / params;
    }
  }
}

// The keys are the same for every codec.
Json ToJson(const Report& report) {
  const auto hex = [](uint64_t v) { return fmt::format("0x{:016x}", v); };
  Json out;
  out["valid"] = !report.error;
  out["file"] = report.name;
  if (report.error) {
    Json& error = out["error"];
    error["offset"] = report.error->offset == Error::kNoOffset
                          ? Json()
                          : Json(report.error->offset);
    error["message"] = report.error->message;
  }
  if (!report.header) return out;
  const wire::Header& header = *report.header;
  out["version"] = header.version;
  if (!wire::IsKnownVersion(header.version)) return out;
  const Codec* codec = report.codec;
  out["codec"] = codec != nullptr ? Json(codec->name) : Json();
  out["codec_id"] = static_cast<uint8_t>(header.codec);
  out["codec_param"] = header.codec_param;
  out["broadcast"] = header.broadcast;
  out["run"] = header.version > 1 ? Json(hex(header.run)) : Json();
  out["round"] = header.round;
  out["client"] = header.client;
  out["examples"] = header.examples;
  out["fingerprint"] = hex(header.fingerprint);
  out["params"] = header.params;
  out["noise"] = nullptr;
  if (codec != nullptr && codec->uses_noise) {
    out["noise"] = {{"kind", NoiseName(header.noise.kind)},
                    {"magnitude", header.noise.magnitude}};
  }
  out["magnitudes"] = Json::array();
  for (const auto& [length, magnitude] : report.magnitudes) {
    out["magnitudes"].push_back({{"params", length}, {"magnitude", magnitude}});
  }
  out["seed"] = codec != nullptr && codec->uses_seed
                    ? Json(hex(header.noise.seed))
                    : Json();
  FactsToJson(report, out);
  out["bytes"] = {
      {"header", header.header_bytes()}, {"extensions", header.extension_bytes},
      {"payload", header.payload_bytes}, {"plain", header.plain_bytes},
      {"checksum", kFrameChecksumBytes}, {"total", report.file_bytes}};
  out["bits_per_param"] = report.error ? Json() : Json(BitsPerParam(report));
  out["checksum"] = {
      {"ok", nullptr}, {"stored", nullptr}, {"computed", nullptr}};
  if (report.checksum) {
    out["checksum"]["ok"] = report.checksum->ok();
    out["checksum"]["stored"] = hex(report.checksum->stored);
    out["checksum"]["computed"] = hex(report.checksum->computed);
  }
  out["plain"] = {{"count", header.plain_count},
                  {"type", PlainType(header)},
                  {"min", nullptr},
                  {"mean", nullptr},
                  {"max", nullptr}};
  if (report.plain) {
    out["plain"]["min"] = report.plain->min;
    out["plain"]["mean"] = report.plain->mean;
    out["plain"]["max"] = report.plain->max;
  }
  return out;
}

}  // namespace

void AddInspect(Verb program) {
  const Verb inspect = program.AddVerb(
      "inspect", "Show what a frame file holds, and if it is sound");
  struct Options {
    std::string path;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  inspect.AddOption("FRAME", options->path, "The frame's file; - for stdin")
      .Required();
  inspect.AddFlag("--json", options->json, "Print a JSON object");
  inspect.Footer("Exit code: 0 for a valid frame, 2 otherwise.");
  inspect.Do([options] {
    const Report report = Inspect(options->path);
    if (options->json) {
      fmt::print("{}\n", JsonText(ToJson(report), 2));
    } else {
      PrintText(report);
    }
    if (!report.error) return kExitOk;
    std::fflush(stdout);
    fmt::print(stderr, "fedmrn inspect: {}: {}\n", report.name,
               report.error->ToString());
    return kExitBadInput;
  });
}

}  // namespace fedmrn::cli
