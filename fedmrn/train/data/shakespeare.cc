#include "fedmrn/train/data/shakespeare.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "fedmrn/base/check.h"
#include "fedmrn/core/random.h"
#include "fedmrn/train/data/rows.h"

namespace fedmrn::train {
namespace {

constexpr double kTrainShare = 0.9;
// Six times the complete works.
constexpr size_t kMaxTextBytes = size_t{1} << 25;

constexpr auto kLastCode = static_cast<uint8_t>(kCharacters.size() - 1);
constexpr uint8_t kUnknown = 0xFF;

constexpr std::array<uint8_t, 256> kCodes = [] {
  std::array<uint8_t, 256> codes{};
  codes.fill(kUnknown);
  for (size_t i = 0; i < kCharacters.size(); ++i) {
    codes[static_cast<unsigned char>(kCharacters[i])] = static_cast<uint8_t>(i);
  }
  return codes;
}();

// Packed with gzip or not.
Result<std::string> ReadText(const std::string& path) {
  errno = 0;
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file(
      gzopen(path.c_str(), "rb"), &gzclose);
  if (!file) {
    return FileError(ErrorCode::kUnavailable, path,
                     std::string("cannot be read: ") + std::strerror(errno));
  }
  gzbuffer(file.get(), 1 << 17);
  std::string text;
  for (;;) {
    constexpr unsigned kBlock = 1 << 18;
    const size_t had = text.size();
    text.resize(had + kBlock);
    const int got = gzread(file.get(), text.data() + had, kBlock);
    int code = Z_OK;
    const char* what = gzerror(file.get(), &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      return Error{
          code == Z_BUF_ERROR ? ErrorCode::kTruncated : ErrorCode::kBadChecksum,
          what};  // which names the file
    }
    text.resize(had + static_cast<size_t>(got));
    if (got == 0) return text;
    if (text.size() > kMaxTextBytes) {
      return FileError(ErrorCode::kBadFormat, path,
                       "is larger than any file of the set");
    }
  }
}

// A role and its text in each line, a tab between.
Result<std::vector<Role>> ParseRoles(std::string_view lines) {
  std::vector<Role> roles;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    const size_t tab = line.find('\t');
    if (tab == 0 || tab == std::string_view::npos) {
      return Error{ErrorCode::kBadFormat,
                   "line " + std::to_string(roles.size() + 1) +
                       " is not a role, a tab and its text"};
    }
    roles.push_back(
        {std::string(line.substr(0, tab)), std::string(line.substr(tab + 1))});
  }
  return roles;
}

struct Loaded {
  RoleWindows train, test;
};

size_t WindowsIn(std::span<const uint8_t> codes) {
  return codes.size() - std::min(codes.size(), kWindow);
}

// As LEAF does: roles in random order until there are enough windows, the last
// one cut off; of each, the first windows for training and, after those that
// overlap with them, the rest for testing; roles without both are left out.
// Unlike LEAF, the windows of the role that is cut off stay in order: LEAF
// shuffles them, which mixes this role's training and test text.
Result<Loaded> SampleAndSplit(std::vector<Role> roles, double fraction,
                              uint64_t seed) {
  Loaded loaded;
  std::vector<std::vector<uint8_t>> codes(roles.size());
  std::vector<size_t> order;
  size_t all_windows = 0;
  for (size_t i = 0; i < roles.size(); ++i) {
    loaded.train.unknown_characters += AppendCodes(roles[i].text, codes[i]);
    roles[i].text = {};  // a text in memory once is enough
    all_windows += WindowsIn(codes[i]);
    if (WindowsIn(codes[i]) > 0) order.push_back(i);
  }
  Random({seed, Purpose::kSubset}).Shuffle(std::span(order));
  auto wanted =
      static_cast<size_t>(fraction * static_cast<double>(all_windows));
  for (const size_t i : order) {
    const std::span<const uint8_t> text(codes[i]);
    const size_t windows = std::min(WindowsIn(text), wanted);
    wanted -= windows;
    const auto train =
        static_cast<size_t>(kTrainShare * static_cast<double>(windows));
    const size_t test_begin = train + kWindow - 1;
    if (train == 0 || test_begin >= windows) continue;
    loaded.train.windows.AddText(text.first(train + kWindow));
    loaded.test.windows.AddText(
        text.subspan(test_begin, windows - test_begin + kWindow));
    loaded.train.roles.resize(loaded.train.windows.size(),
                              loaded.train.NumberOf(roles[i].name));
  }
  if (loaded.train.windows.size() == 0) {
    return Error{
        ErrorCode::kBadValue,
        fmt::format("has too little text: {} windows, and with data.fraction = "
                    "{} no role that is long enough to train and to test",
                    all_windows, fraction)};
  }
  return loaded;
}

// Sampled and split already.
Result<Loaded> LoadJson(const FoundData& found) {
  Loaded loaded;
  for (size_t i = 0; i < found.paths.size(); ++i) {
    for (const std::string& path : MatchingFiles(found.paths[i])) {
      RoleWindows& part = i == 0 ? loaded.train : loaded.test;
      if (Status read = ReadLeafJson(path, part); !read) return read.error();
    }
  }
  return loaded;
}

Result<std::vector<Role>> ReadRoles(const DataSet& set,
                                    const FoundData& found) {
  const std::string& path = found.paths[0];
  const Result<std::string> text = ReadText(path);
  if (!text) return text.error();
  const std::string_view name = found.form->files[0].name;
  const bool plays = name.find(".txt") != name.npos;
  Result<std::vector<Role>> roles =
      plays ? ParsePlays(*text) : ParseRoles(*text);
  if (roles) return roles;
  return FileError(roles.error().code, path,
                   roles.error().message +
                       (plays ? std::string("; take ") + set.by_hand : ""));
}

Result<Loaded> LoadFound(const DataSet& set, const FoundData& found,
                         const DataSettings& settings) {
  const std::string& path = found.paths[0];
  if (path.ends_with(".json")) return LoadJson(found);
  Result<std::vector<Role>> roles = ReadRoles(set, found);
  if (!roles) return roles.error();
  Result<Loaded> loaded =
      SampleAndSplit(std::move(*roles), settings.fraction, settings.seed);
  if (loaded) return loaded;
  return FileError(loaded.error().code, path, loaded.error().message);
}

void Resize(size_t count, Batch& batch) {
  batch.examples = static_cast<uint32_t>(count);
  batch.shape = {static_cast<int64_t>(count), kWindow};
  batch.tokens.resize(count * kWindow);
  batch.labels.resize(count);
}

void Fill(const Windows& from, size_t window, size_t row, Batch& batch) {
  FEDMRN_CHECK(window < from.size());
  std::ranges::copy(from[window], batch.tokens.begin() +
                                      static_cast<ptrdiff_t>(row * kWindow));
  batch.labels[row] = from.labels()[window];
}

}  // namespace

uint64_t AppendCodes(std::string_view text, std::vector<uint8_t>& codes) {
  uint64_t unknown = 0;
  codes.reserve(codes.size() + text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) == 0x80) continue;  // goes on with a character
    const uint8_t code = kCodes[byte];
    unknown += code == kUnknown;
    codes.push_back(std::min(code, kLastCode));
  }
  return unknown;
}

void Windows::AddText(std::span<const uint8_t> codes) {
  FEDMRN_CHECK(codes.size() > kWindow);
  runs_.push_back({windows_, text_.size()});
  // The last character is only a label.
  text_.insert(text_.end(), codes.begin(), codes.end() - 1);
  labels_.insert(labels_.end(), codes.begin() + kWindow, codes.end());
  windows_ += codes.size() - kWindow;
}

void Windows::AddWindow(std::span<const uint8_t, kWindow> codes) {
  // The last window ends where the text does.
  const auto known = codes.first<kWindow - 1>();
  const bool goes_on =
      windows_ > 0 && std::equal(known.begin(), known.end(),
                                 text_.end() - (kWindow - 1), text_.end());
  if (!goes_on) {
    runs_.push_back({windows_, text_.size()});
    text_.insert(text_.end(), known.begin(), known.end());
  }
  text_.push_back(codes.back());
  ++windows_;
}

std::span<const uint8_t, kWindow> Windows::operator[](size_t window) const {
  const Run& run =
      *std::prev(std::ranges::upper_bound(runs_, window, {}, &Run::first));
  return std::span<const uint8_t, kWindow>(
      text_.data() + run.begin + (window - run.first), kWindow);
}

Result<Data> LoadShakespeare(const DataSet& set, const DataSettings& settings) {
  const Result<FoundData> found = RequireData(set, settings);
  if (!found) return found.error();
  Result<Loaded> loaded = LoadFound(set, *found, settings);
  if (!loaded) return loaded.error();
  const auto shared = std::make_shared<Loaded>(std::move(*loaded));
  RoleWindows& train = shared->train;
  RoleWindows& test = shared->test;
  const auto keep = [&](uint64_t wanted, const char* kind,
                        RoleWindows& part) -> Status {
    const Result<uint64_t> count =
        HowMany(wanted, part.windows.size(), kind, set.name);
    if (!count) return count.error();
    part.windows.KeepFirst(*count);
    return Ok();
  };
  if (Status kept = keep(settings.train_examples, "training", train); !kept) {
    return kept.error();
  }
  if (Status kept = keep(settings.test_examples, "test", test); !kept) {
    return kept.error();
  }

  Data data;
  data.name = set.name;
  data.input = Input::kTokens;
  data.target = Target::kClass;
  data.shape = {kWindow};
  data.classes = data.vocabulary = kCharacters.size();
  data.train_examples = train.windows.size();
  data.test_examples = test.windows.size();
  data.labels.assign(train.windows.labels().begin(),
                     train.windows.labels().end());
  data.clients = std::exchange(train.roles, {});
  data.clients.resize(data.train_examples);
  const uint32_t roles = *std::ranges::max_element(data.clients) + 1;
  data.notes.push_back(data.name + ": " + std::to_string(roles) +
                       (roles == 1 ? " role, " : " roles, ") +
                       std::to_string(data.train_examples) + " training and " +
                       std::to_string(data.test_examples) + " test windows");
  const uint64_t unknown = train.unknown_characters + test.unknown_characters;
  if (unknown > 0) {
    data.notes.push_back(data.name + ": " + std::to_string(unknown) +
                         " characters are not in the vocabulary and count as " +
                         kCharacters.back());
  }
  data.train_batch = [shared](std::span<const uint32_t> examples,
                              const PhiloxStream&, Batch& batch) {
    Resize(examples.size(), batch);
    for (size_t i = 0; i < examples.size(); ++i) {
      Fill(shared->train.windows, examples[i], i, batch);
    }
  };
  data.test_batch = [shared](uint64_t first, uint32_t count, Batch& batch) {
    Resize(count, batch);
    for (uint32_t i = 0; i < count; ++i) {
      Fill(shared->test.windows, first + i, i, batch);
    }
  };
  return data;
}

}  // namespace fedmrn::train
