#include "fedmrn/results/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>

#include "fedmrn/base/files.h"
#include "fedmrn/base/sha256.h"
#include "fedmrn/core/frame.h"

namespace fedmrn::results {
namespace {

namespace fs = std::filesystem;

// The file: this line, the start time (8 bytes), eight sections, each a length
// (8 bytes) and its bytes (config as TOML, rows as CSV, the model as a frame,
// the server's moments, the list of client states, SHA-256 of the data and of
// the model's file, the confusion matrices), and the SHA-256 of all before it,
// in 64 digits. Numbers are little-endian.
constexpr std::string_view kMagic = "FedMRN checkpoint 4\n";
constexpr std::string_view kEnding = ".checkpoint";
constexpr size_t kHashDigits = 64;
constexpr size_t kSections = 8;
constexpr size_t kKept = 2;

// Newest first.
Result<std::vector<fs::path>> Files(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == kEnding) files.push_back(it->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return Error{ErrorCode::kUnavailable, folder + ": " + error.message()};
  }
  // By number, which has more digits from a million on.
  std::ranges::sort(files, std::greater(), [](const fs::path& file) {
    return std::pair(file.native().size(), file.native());
  });
  return files;
}

void AppendSection(Bytes& to, ByteView section) {
  AppendLe(section.size(), to);
  to.insert(to.end(), section.begin(), section.end());
}

}  // namespace

Bytes EncodeCheckpoint(const Checkpoint& checkpoint, GrowingCsv* csv) {
  GrowingCsv anew;
  if (csv == nullptr) csv = &anew;
  Bytes bytes(AsBytes(kMagic).begin(), AsBytes(kMagic).end());
  AppendLe(static_cast<uint64_t>(checkpoint.started), bytes);
  AppendSection(bytes, AsBytes(checkpoint.config));
  AppendSection(bytes, AsBytes(csv->Of(checkpoint.rows)));
  AppendSection(bytes, checkpoint.model);
  AppendSection(bytes, checkpoint.moments);
  AppendSection(bytes, AsBytes(checkpoint.client_states));
  AppendSection(bytes, AsBytes(checkpoint.inputs.data_sha256));
  AppendSection(bytes, AsBytes(checkpoint.inputs.model_file_sha256));
  AppendSection(bytes, AsBytes(ConfusionsText(checkpoint.confusions)));
  const std::string hash = Sha256Hex(bytes);
  bytes.insert(bytes.end(), hash.begin(), hash.end());
  return bytes;
}

Result<Checkpoint> DecodeCheckpoint(ByteView bytes) {
  const auto bad = [](std::string message) {
    return Error{ErrorCode::kBadFormat, std::move(message)};
  };
  if (bytes.size() < kMagic.size() + 8 + kHashDigits ||
      AsText(bytes.first(kMagic.size())) != kMagic) {
    return bad("is not a checkpoint of this version");
  }
  const ByteView hashed = bytes.first(bytes.size() - kHashDigits);
  if (Sha256Hex(hashed) != AsText(bytes.last(kHashDigits))) {
    return bad("is damaged (its SHA-256 differs)");
  }
  Checkpoint checkpoint;
  checkpoint.started =
      static_cast<int64_t>(LoadLe<uint64_t>(hashed.data() + kMagic.size()));
  ByteView rest = hashed.subspan(kMagic.size() + 8);
  ByteView sections[kSections];
  for (ByteView& section : sections) {
    if (rest.size() < 8) return bad("ends too early");
    const uint64_t size = LoadLe<uint64_t>(rest.data());
    rest = rest.subspan(8);
    if (size > rest.size()) return bad("ends too early");
    section = rest.first(size);
    rest = rest.subspan(size);
  }
  if (!rest.empty()) return bad("has bytes behind its end");
  checkpoint.config = AsText(sections[0]);
  Result<std::vector<RoundRow>> rows = ParseRoundsCsv(AsText(sections[1]));
  if (!rows) return bad("has bad rows: " + rows.error().ToString());
  checkpoint.rows = std::move(*rows);
  checkpoint.model.assign(sections[2].begin(), sections[2].end());
  checkpoint.moments.assign(sections[3].begin(), sections[3].end());
  checkpoint.client_states = AsText(sections[4]);
  checkpoint.inputs = {std::string(AsText(sections[5])),
                       std::string(AsText(sections[6]))};
  Result<Confusions> confusions = ParseConfusions(AsText(sections[7]));
  if (!confusions) return bad(confusions.error().message);
  checkpoint.confusions = std::move(*confusions);
  const Result<FrameView> model = ParseFrame(checkpoint.model);
  if (!model) return bad("has a bad model: " + model.error().ToString());
  if (!model->broadcast) return bad("has an update in the model's place");
  return checkpoint;
}

Status SaveCheckpoint(const std::string& folder, const Checkpoint& checkpoint,
                      GrowingCsv* csv) {
  FEDMRN_TRY(MakeFolder(folder));
  char name[40];
  std::snprintf(name, sizeof name, "round-%06u%s", checkpoint.rounds_done(),
                kEnding.data());
  const Status written = WriteFileAtomically(folder + "/" + name,
                                             EncodeCheckpoint(checkpoint, csv));
  if (!written) return written;
  const Result<std::vector<fs::path>> files = Files(folder);
  if (!files) return files.error();
  std::error_code ignored;
  for (size_t i = kKept; i < files->size(); ++i) {
    fs::remove((*files)[i], ignored);
  }
  return Ok();
}

Result<std::optional<Checkpoint>> LoadCheckpoint(
    const std::string& folder,
    const std::function<void(const std::string&)>& warn) {
  const Result<std::vector<fs::path>> files = Files(folder);
  if (!files) return files.error();
  std::string last_problem;
  for (const fs::path& file : *files) {
    Result<Bytes> bytes = ReadFile(file.string());
    Result<Checkpoint> checkpoint =
        bytes ? DecodeCheckpoint(*bytes) : Result<Checkpoint>(bytes.error());
    if (checkpoint) return std::optional(std::move(*checkpoint));
    last_problem = file.string() + " " + checkpoint.error().ToString();
    warn(last_problem + "; going back to the one before");
  }
  if (files->empty()) return std::optional<Checkpoint>();
  return Error{ErrorCode::kBadFormat,
               "no checkpoint in " + folder + " can be used: " + last_problem};
}

}  // namespace fedmrn::results
