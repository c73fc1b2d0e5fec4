// fedmrn inspect: what a frame file holds, for people and (--json) programs.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/core/codec.h"
#include "fedmrn/core/frame.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fedmrn::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLeastFrameBytes = kFrameHeaderBytes + kFrameChecksumBytes;

bool HasMagic(ByteView bytes) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), "FMRN", 4) == 0;
}

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
  for (size_t want = kLeastFrameBytes;;) {
    const size_t at = bytes.size();
    bytes.resize(at + want);
    const size_t got = std::fread(bytes.data() + at, 1, want, file.get());
    bytes.resize(at + got);
    if (got < want || !HasMagic(bytes)) break;
    want = std::max(bytes.size(), size_t{1} << 16);
  }
  if (std::ferror(file.get()) != 0) {
    return failed(std::string("cannot read it: ") + std::strerror(errno));
  }
  if (bytes.empty()) return failed("is empty");
  return bytes;
}

// A header as it stands in the file, sound or not: docs/wire-format.md's table.
struct RawHeader {
  explicit RawHeader(ByteView bytes) {
    const uint8_t* at = bytes.data();
    version = at[4];
    codec_id = at[5];
    flags = at[6];
    noise = {static_cast<NoiseKind>(at[7]), LoadLe<float>(at + 60),
             LoadLe<uint64_t>(at + 32)};
    round = LoadLe<uint32_t>(at + 8);
    examples = LoadLe<uint32_t>(at + 12);
    client = LoadLe<uint64_t>(at + 16);
    fingerprint = LoadLe<uint64_t>(at + 24);
    params = LoadLe<uint64_t>(at + 40);
    payload_bytes = LoadLe<uint64_t>(at + 48);
    plain_count = LoadLe<uint32_t>(at + 56);
    codec_param = LoadLe<uint32_t>(at + 64);
    codec = FindCodec(static_cast<CodecId>(codec_id));
  }

  bool plain_half() const { return (flags & 1) != 0; }
  bool broadcast() const { return (flags & 2) != 0; }
  const char* plain_type() const {
    return plain_half() ? "float16" : "float32";
  }
  uint64_t plain_bytes() const {
    return uint64_t{plain_count} * (plain_half() ? 2 : 4);
  }
  // Whether the file has the length that the header claims; only then are its
  // last bytes a checksum.
  bool Fits(size_t file_bytes) const {
    const uint64_t room = file_bytes - std::min(file_bytes, kLeastFrameBytes);
    return file_bytes >= kLeastFrameBytes && payload_bytes <= room &&
           plain_bytes() == room - payload_bytes;
  }

  uint8_t version, codec_id, flags;
  Noise noise;
  uint32_t round, examples, plain_count, codec_param;
  uint64_t client, fingerprint, params, payload_bytes;
  const Codec* codec;  // null if unknown
};

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

// Everything that could be learnt from one file.
struct Report {
  std::string name;
  size_t file_bytes = 0;
  std::optional<Error> error;
  std::optional<RawHeader> header;   // where a magic is
  std::optional<Checksum> checksum;  // where the length is right
  // Of valid frames:
  std::optional<uint64_t> ones;      // codecs of one bit: the bits that are 1
  std::optional<uint64_t> nonzeros;  // sparse codecs
  std::optional<PlainStats> plain;
};

uint64_t CountOnes(ByteView bits) {
  uint64_t ones = 0;
  for (uint8_t byte : bits) ones += std::popcount(byte);
  return ones;
}

void LookIntoPayload(const FrameView& frame, Report& report) {
  switch (frame.codec) {
    case CodecId::kMrnBinary:
    case CodecId::kMrnSigned:
    case CodecId::kSignSgd:
    case CodecId::kDrive:
    case CodecId::kMask:
      // One bit a parameter at the payload's end, padded with zeros.
      report.ones = CountOnes(frame.payload.last(BytesForBits(frame.params)));
      break;
    case CodecId::kTopK:
      report.nonzeros = LoadLe<uint32_t>(frame.payload.data());
      break;
    case CodecId::kTernGrad: {
      // Trits take a fifth of a byte, so this is a small multiple of the input.
      std::vector<float> update(frame.params);
      DecodeUpdate(frame, update);
      report.nonzeros =
          update.size() -
          static_cast<uint64_t>(std::count(update.begin(), update.end(), 0.0f));
      break;
    }
    case CodecId::kFloat32:
    case CodecId::kFloat16:
    case CodecId::kEden:
      break;
  }
  if (frame.plain_count > 0) {
    std::vector<float> values(frame.plain_count);
    frame.CopyPlain(values);
    const auto [min, max] = std::minmax_element(values.begin(), values.end());
    double sum = 0;
    for (float value : values) sum += value;
    report.plain = {*min, *max, sum / static_cast<double>(values.size())};
  }
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
  if (bytes->size() >= kFrameHeaderBytes && HasMagic(*bytes)) {
    report.header.emplace(*bytes);
    if (report.header->version == kFrameVersion &&
        report.header->Fits(bytes->size())) {
      const size_t at = bytes->size() - kFrameChecksumBytes;
      report.checksum = {LoadLe<uint64_t>(bytes->data() + at),
                         XXH64(bytes->data(), at, 0)};
    }
  }
  const Result<FrameView> frame = ParseFrame(*bytes);
  if (frame) {
    LookIntoPayload(*frame, report);
  } else {
    report.error = frame.error();
  }
  return report;
}

double Share(uint64_t part, uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

double BitsPerParam(const Report& report) {
  return 8 * Share(report.file_bytes, report.header->params);
}

std::string ChecksumVerdict(const Report& report) {
  if (!report.checksum) return "not checked";
  if (report.checksum->ok()) return "ok";
  return fmt::format("BAD: should be 0x{:016x}", report.checksum->computed);
}

void Line(const char* label, const std::string& text) {
  fmt::print("  {:<13} {}\n", label, text);
}

void BytesLine(const char* label, uint64_t bytes, const std::string& note) {
  fmt::print("  {:<13} {:>14} B{}{}\n", label, report::Grouped(bytes),
             note.empty() ? "" : "  ", note);
}

void PrintHeader(const RawHeader& header) {
  const Codec* codec = header.codec;
  Line("codec", codec != nullptr
                    ? fmt::format("{}: {}", codec->name, codec->summary)
                    : fmt::format("unknown ({})", header.codec_id));
  Line("holds", header.broadcast() ? "a model broadcast" : "an update");
  Line("round", report::Grouped(header.round));
  Line("client", fmt::format("{}", header.client));
  Line("examples", report::Grouped(header.examples));
  Line("fingerprint", fmt::format("0x{:016x}", header.fingerprint));
  Line("parameters", report::Grouped(header.params));
  if (codec == nullptr || codec->uses_noise) {
    Line("noise", fmt::format("{}, magnitude {}", NoiseName(header.noise.kind),
                              header.noise.magnitude));
  }
  if (codec == nullptr || codec->uses_seed) {
    Line("seed", fmt::format("0x{:016x}", header.noise.seed));
  }
  if (codec != nullptr && codec->id == CodecId::kEden) {
    Line("bits", fmt::format("{} a parameter", header.codec_param));
  } else if (codec != nullptr && codec->id == CodecId::kDrive) {
    Line("scale", header.codec_param == 0   ? "least error (0)"
                  : header.codec_param == 1 ? "unbiased (1)"
                                            : "unknown");
  } else if (codec == nullptr) {
    Line("codec param", report::Grouped(header.codec_param));
  }
}

void PrintBytes(const Report& report) {
  const RawHeader& header = *report.header;
  BytesLine("header", kFrameHeaderBytes, "");
  BytesLine("payload", header.payload_bytes, "");
  BytesLine(
      "dense", header.plain_bytes(),
      header.plain_count == 0
          ? ""
          : fmt::format("{} {} values", report::Grouped(header.plain_count),
                        header.plain_type()));
  BytesLine("checksum", kFrameChecksumBytes, ChecksumVerdict(report));
  BytesLine("total", report.file_bytes,
            report.error
                ? "the file's length"
                : fmt::format("{:.4f} bits a parameter", BitsPerParam(report)));
}

void PrintText(const Report& report) {
  if (!report.header) return;
  fmt::print("{}: FedMRN frame, version {}, {}\n", report.name,
             report.header->version, report.error ? "NOT VALID" : "valid");
  // Another version's header may be laid out differently.
  if (report.header->version != kFrameVersion) return;
  if (report.error) fmt::print("  (header not verified)\n");
  PrintHeader(*report.header);
  const uint64_t params = report.header->params;
  const auto counted = [&](uint64_t count) {
    return fmt::format("{:.2f} % ({} of {})", 100 * Share(count, params),
                       report::Grouped(count), report::Grouped(params));
  };
  if (report.ones) Line("share of ones", counted(*report.ones));
  if (report.nonzeros) Line("kept", counted(*report.nonzeros));
  if (report.plain) {
    Line("dense values",
         fmt::format("min {:.6g}, mean {:.6g}, max {:.6g}", report.plain->min,
                     report.plain->mean, report.plain->max));
  }
  fmt::print("\n");
  PrintBytes(report);
}

// The keys are the same for every codec; what does not apply is null.
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
  const RawHeader& header = *report.header;
  out["version"] = header.version;
  if (header.version != kFrameVersion) return out;
  const Codec* codec = header.codec;
  out["codec"] = codec != nullptr ? Json(codec->name) : Json();
  out["codec_id"] = header.codec_id;
  out["codec_param"] = header.codec_param;
  out["broadcast"] = header.broadcast();
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
  out["seed"] = codec != nullptr && codec->uses_seed
                    ? Json(hex(header.noise.seed))
                    : Json();
  const auto count = [&](const char* key, const char* share_key,
                         const std::optional<uint64_t>& value) {
    out[key] = value ? Json(*value) : Json();
    out[share_key] = value ? Json(Share(*value, header.params)) : Json();
  };
  count("ones", "share_of_ones", report.ones);
  count("kept", "share_of_kept", report.nonzeros);
  out["bytes"] = {{"header", kFrameHeaderBytes},
                  {"payload", header.payload_bytes},
                  {"dense", header.plain_bytes()},
                  {"checksum", kFrameChecksumBytes},
                  {"total", report.file_bytes}};
  out["bits_per_param"] = report.error ? Json() : Json(BitsPerParam(report));
  out["checksum"] = {
      {"ok", nullptr}, {"stored", nullptr}, {"computed", nullptr}};
  if (report.checksum) {
    out["checksum"]["ok"] = report.checksum->ok();
    out["checksum"]["stored"] = hex(report.checksum->stored);
    out["checksum"]["computed"] = hex(report.checksum->computed);
  }
  out["dense"] = {{"count", header.plain_count},
                  {"type", header.plain_type()},
                  {"min", nullptr},
                  {"mean", nullptr},
                  {"max", nullptr}};
  if (report.plain) {
    out["dense"]["min"] = report.plain->min;
    out["dense"]["mean"] = report.plain->mean;
    out["dense"]["max"] = report.plain->max;
  }
  return out;
}

}  // namespace

void AddInspect(CLI::App& app, int& exit_code) {
  CLI::App* inspect = app.add_subcommand(
      "inspect", "Show what a frame file holds, and if it is sound");
  struct Options {
    std::string path;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  inspect->add_option("FRAME", options->path, "The frame's file; - for stdin")
      ->required();
  inspect->add_flag("--json", options->json, "Print a JSON object");
  inspect->footer("Exit code: 0 for a valid frame, 2 otherwise.");
  inspect->callback([options, &exit_code] {
    const Report report = Inspect(options->path);
    if (options->json) {
      // A file's name need not be UTF-8.
      fmt::print("{}\n", ToJson(report).dump(2, ' ', false,
                                             Json::error_handler_t::replace));
    } else {
      PrintText(report);
    }
    if (report.error) {
      std::fflush(stdout);
      fmt::print(stderr, "fedmrn inspect: {}: {}\n", report.name,
                 report.error->ToString());
      exit_code = kExitBadInput;
    } else {
      exit_code = kExitOk;
    }
  });
}

}  // namespace fedmrn::cli
