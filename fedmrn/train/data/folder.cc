// The user's own images: a folder with one folder per class, whose names in
// their order give the classes' numbers, and JPEG or PNG files in these. All
// become RGB squares of one size.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "fedmrn/train/data/image_file.h"
#include "fedmrn/train/data/rows.h"

namespace fedmrn::train {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kUsualSize = 32, kMaxSize = 4096;
constexpr size_t kMaxClasses = 65535;

struct ImageFile {
  std::string path;
  uint16_t label;
  uint32_t rank;  // in its class
};

struct Listing {
  std::vector<std::string> classes;  // names, in order
  std::vector<ImageFile> files;      // by class, then name
};

// The names in a folder, in order; those that begin with a point are hidden.
template <typename Wanted>
Result<std::vector<std::string>> NamesIn(const std::string& folder,
                                         const Wanted& wanted) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with('.') && wanted(*it)) names.push_back(name);
  }
  if (error) {
    return FileError(ErrorCode::kUnavailable, folder,
                     "cannot be read: " + error.message());
  }
  std::ranges::sort(names);
  return names;
}

bool IsFolder(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.is_directory(ignored);
}

bool IsImageFile(const fs::directory_entry& entry) {
  std::string ending = entry.path().extension().string();
  for (char& c : ending) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return (ending == ".jpg" || ending == ".jpeg" || ending == ".png") &&
         !IsFolder(entry);
}

Result<Listing> List(const std::string& root) {
  Listing listing;
  Result<std::vector<std::string>> classes = NamesIn(root, IsFolder);
  if (!classes) return classes.error();
  listing.classes = std::move(*classes);
  if (listing.classes.empty() || listing.classes.size() > kMaxClasses) {
    return FileError(ErrorCode::kBadFormat, root,
                     "has " + std::to_string(listing.classes.size()) +
                         " folders; each class's images must be in a folder "
                         "of their own in it");
  }
  for (size_t label = 0; label < listing.classes.size(); ++label) {
    const std::string folder =
        (fs::path(root) / listing.classes[label]).string();
    const Result<std::vector<std::string>> names = NamesIn(folder, IsImageFile);
    if (!names) return names.error();
    if (names->empty()) {
      return FileError(ErrorCode::kBadFormat, folder,
                       "has no .jpg, .jpeg or .png file in it");
    }
    uint32_t rank = 0;
    for (const std::string& name : *names) {
      listing.files.push_back({(fs::path(folder) / name).string(),
                               static_cast<uint16_t>(label), rank++});
    }
  }
  if (listing.files.size() > kMaxExamples) {
    return FileError(
        ErrorCode::kBadValue, root,
        "has more than " + std::to_string(kMaxExamples) + " images");
  }
  return listing;
}

Status CheckSameClasses(const Listing& train, const std::string& train_path,
                        const Listing& test, const std::string& test_path) {
  std::vector<std::string> only;
  std::ranges::set_symmetric_difference(train.classes, test.classes,
                                        std::back_inserter(only));
  if (only.empty()) return Ok();
  const bool in_train = std::ranges::binary_search(train.classes, only[0]);
  return FileError(ErrorCode::kBadFormat, test_path,
                   "must have the same class folders as " + train_path +
                       ", but " + only[0] + " is only in the " +
                       (in_train ? "latter" : "former"));
}

// One image of each class, then the next of each: the first ones of the whole,
// if the user wants no more, are of all classes.
Status KeepFirst(uint64_t wanted, const char* kind,
                 std::vector<ImageFile>& files) {
  std::ranges::stable_sort(files, {}, &ImageFile::rank);
  const Result<uint64_t> count = HowMany(wanted, files.size(), kind, "folder");
  if (!count) return count.error();
  files.resize(*count);
  return Ok();
}

// Returns a note, or nothing.
Result<std::string> LoadPart(const std::vector<ImageFile>& files, bool skip_bad,
                             const ImageData& data, Examples& part) {
  const size_t image = PixelsPerExample(data);
  part.pixels.resize(files.size() * image);
  const Result<BadExamples> found =
      ReadExamples(files.size(), skip_bad, [&](size_t i) -> Status {
        const Result<Picture> picture = ReadPicture(files[i].path);
        if (!picture) return picture.error();
        const Picture scaled =
            Resize(*picture, data.height, data.width, Resampling::kAverage);
        std::ranges::copy(scaled.pixels, part.pixels.begin() +
                                             static_cast<ptrdiff_t>(i * image));
        return Ok();
      });
  if (!found) return found.error();
  for (size_t i = 0; i < files.size(); ++i) {
    if (found->bad[i]) continue;
    if (const size_t to = part.labels.size(); to < i) {
      std::memcpy(part.pixels.data() + to * image,
                  part.pixels.data() + i * image, image);
    }
    part.labels.push_back(files[i].label);
  }
  part.pixels.resize(part.labels.size() * image);
  return found->note;
}

// Finds mean and deviation of the pixels as shares of 255. A channel that never
// changes is only shifted.
void Normalise(Examples& part) {
  for (size_t channel = 0; channel < 3; ++channel) {
    uint64_t sum = 0, squares = 0, count = 0;
    for (size_t i = channel; i < part.pixels.size(); i += 3) {
      sum += part.pixels[i];
      squares += uint64_t{part.pixels[i]} * part.pixels[i];
      ++count;
    }
    const double mean = static_cast<double>(sum) / static_cast<double>(count);
    const double variance =
        static_cast<double>(squares) / static_cast<double>(count) - mean * mean;
    part.mean[channel] = static_cast<float>(mean / 255);
    part.std[channel] =
        variance > 1e-6 ? static_cast<float>(std::sqrt(variance) / 255) : 1;
  }
}

}  // namespace

Result<Data> LoadFolder(const DataSet& set, const DataSettings& settings) {
  if (settings.path.empty()) {
    return Error{ErrorCode::kBadValue,
                 "data.path: must name a folder with a folder of images per "
                 "class"};
  }
  ImageData data;
  data.name = set.name;
  data.height = data.width =
      settings.image_size == 0 ? kUsualSize : settings.image_size;
  data.channels = 3;
  if (data.height > kMaxSize) {
    return Error{ErrorCode::kBadValue, "data.image_size: must be at most " +
                                           std::to_string(kMaxSize) + ", not " +
                                           std::to_string(data.height)};
  }
  Result<Listing> listing = List(settings.path);
  if (!listing) return listing.error();
  data.classes = static_cast<uint32_t>(listing->classes.size());
  std::vector<ImageFile> train, test;
  if (settings.test_path.empty()) {
    for (size_t i = 0; i < listing->files.size(); ++i) {
      (IsHeldOut(i) ? test : train).push_back(std::move(listing->files[i]));
    }
    if (test.empty()) {
      return FileError(ErrorCode::kBadFormat, settings.path,
                       "has too few images to hold out every tenth for the "
                       "test: set data.test_path");
    }
  } else {
    Result<Listing> other = List(settings.test_path);
    if (!other) return other.error();
    const Status same =
        CheckSameClasses(*listing, settings.path, *other, settings.test_path);
    if (!same) return same.error();
    train = std::move(listing->files);
    test = std::move(other->files);
  }
  Status kept = KeepFirst(settings.train_examples, "training", train);
  if (kept) kept = KeepFirst(settings.test_examples, "test", test);
  if (!kept) return kept.error();

  std::vector<std::string> notes;
  for (const bool training : {true, false}) {
    Examples& part = training ? data.train : data.test;
    const Result<std::string> note =
        LoadPart(training ? train : test, settings.skip_bad, data, part);
    if (!note) return note.error();
    if (part.size() == 0) {
      return FileError(ErrorCode::kBadFormat, settings.path,
                       std::string("no ") + (training ? "training" : "test") +
                           " example can be read: " + *note);
    }
    if (!note->empty()) notes.push_back(*note);
  }
  Normalise(data.train);
  data.test.mean = data.train.mean;
  data.test.std = data.train.std;
  Data loaded = DataOf(std::move(data));
  loaded.notes = std::move(notes);
  return loaded;
}

}  // namespace fedmrn::train
