// PascalVOC 2012, segmentation: a class of 20, or none, for each pixel, in the
// folders of its archive. Transforms are those of the authors' code.
//
// Their training images were prepared by FedSeg, whose data is not public: an
// image belongs to one class's clients. Here that is the class of most pixels,
// and with data.erase the labels of the others are erased, as the name of
// FedSeg's option ("use_erase_data") has it.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/core/random.h"
#include "fedmrn/train/data/image_file.h"
#include "fedmrn/train/data/rows.h"

namespace fedmrn::train {
namespace {

constexpr uint32_t kVocClasses = 20;
constexpr uint8_t kVoid = 255;  // of a mask; 0 is the background
constexpr uint32_t kTestMultiple = 32;
constexpr std::array<float, 3> kMean = {.3257f, .3690f, .3223f};
constexpr std::array<float, 3> kStd = {.2112f, .2148f, .2115f};

// An image with its mask, of the same size.
struct Pair {
  Picture image, mask;
};

struct Files {
  std::string image, mask;
  uint16_t label = 0;  // the class of most pixels
};

int32_t ClassOf(uint8_t raw) {
  return raw == 0 || raw == kVoid ? kNoClass : raw - 1;
}

// (pixel / 255 - mean) / std.
float Normalised(uint8_t pixel, size_t channel) {
  static const auto table = [] {
    std::array<std::array<float, 256>, 3> values;
    for (size_t c = 0; c < 3; ++c) {
      for (size_t i = 0; i < 256; ++i) {
        values[c][i] = (static_cast<float>(i) / 255.0f - kMean[c]) / kStd[c];
      }
    }
    return values;
  }();
  return table[channel][pixel];
}

// The names of a part's images, a line each.
Result<std::vector<Files>> ReadList(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return FileError(ErrorCode::kUnavailable, path, "cannot be opened");
  }
  // .../ImageSets/Segmentation/train.txt
  const auto root =
      std::filesystem::path(path).parent_path().parent_path().parent_path();
  std::vector<Files> files;
  std::string name;
  while (file >> name) {
    const bool plain = std::ranges::all_of(name, [](unsigned char c) {
      return std::isalnum(c) || c == '_' || c == '-';
    });
    if (!plain || files.size() == kMaxExamples) {
      return FileError(ErrorCode::kBadFormat, path,
                       "is not a list of names of images");
    }
    files.push_back({(root / "JPEGImages" / (name + ".jpg")).string(),
                     (root / "SegmentationClass" / (name + ".png")).string()});
  }
  if (files.empty()) {
    return FileError(ErrorCode::kTruncated, path, "names no image");
  }
  return files;
}

Result<Pair> ReadPair(const Files& files) {
  Result<Picture> image = ReadPicture(files.image);
  if (!image) return image.error();
  Result<Picture> mask = ReadMask(files.mask);
  if (!mask) return mask.error();
  if (mask->height != image->height || mask->width != image->width) {
    const auto size = [](const Picture& picture) {
      return std::to_string(picture.width) + " x " +
             std::to_string(picture.height);
    };
    return FileError(ErrorCode::kBadValue, files.mask,
                     "has " + size(*mask) + " pixels, but its image " +
                         files.image + " has " + size(*image));
  }
  for (const uint8_t raw : mask->pixels) {
    if (raw > kVocClasses && raw != kVoid) {
      return FileError(ErrorCode::kBadValue, files.mask,
                       "has a pixel of class " + std::to_string(raw) +
                           "; there are 0 to " + std::to_string(kVocClasses) +
                           " and 255");
    }
  }
  return Pair{std::move(*image), std::move(*mask)};
}

// Nothing if no pixel has a class.
std::optional<uint16_t> CommonestClass(const Picture& mask) {
  std::array<uint64_t, kVocClasses> counts{};
  for (const uint8_t raw : mask.pixels) {
    if (ClassOf(raw) != kNoClass) ++counts[static_cast<size_t>(ClassOf(raw))];
  }
  const auto most = std::ranges::max_element(counts);
  if (*most == 0) return std::nullopt;
  return static_cast<uint16_t>(most - counts.begin());
}

void Scale(uint32_t height, uint32_t width, Resampling resampling, Pair& pair) {
  if (height == pair.image.height && width == pair.image.width) return;
  pair.image = Resize(pair.image, height, width, resampling);
  pair.mask = Resize(pair.mask, height, width, Resampling::kNearest);
}

// One of training or test. Thread-safe once loaded.
class Part {
 public:
  // `longest`: of the images' sides; 0: as they are.
  explicit Part(uint32_t longest) : longest_(longest) {}

  // Reads everything once, to know that it can be read. Appends notes.
  Status Load(const std::string& list, uint64_t wanted, const char* kind,
              bool skip_bad, std::vector<std::string>& notes) {
    Result<std::vector<Files>> files = ReadList(list);
    if (!files) return files.error();
    const Result<uint64_t> count = HowMany(wanted, files->size(), kind, list);
    if (!count) return count.error();
    files->resize(*count);
    std::vector<Pair> pairs(KeepsPixels() ? *count : 0);
    std::vector<std::optional<uint16_t>> labels(*count);
    const Result<BadExamples> found =
        ReadExamples(*count, skip_bad, [&](size_t i) -> Status {
          Result<Pair> pair = ReadPair((*files)[i]);
          if (!pair) return pair.error();
          labels[i] = CommonestClass(pair->mask);
          Shrink(*pair);
          if (KeepsPixels()) pairs[i] = std::move(*pair);
          return Ok();
        });
    if (!found) return found.error();
    size_t without = 0;
    for (size_t i = 0; i < *count; ++i) {
      if (found->bad[i]) continue;
      if (!labels[i]) {
        ++without;
        continue;
      }
      files_.push_back(std::move((*files)[i]));
      files_.back().label = *labels[i];
      if (KeepsPixels()) pairs_.push_back(std::move(pairs[i]));
    }
    if (!found->note.empty()) notes.push_back(found->note);
    if (without > 0) {
      notes.push_back(std::to_string(without) + " of " +
                      std::to_string(*count) + " images of " + list +
                      " have no pixel of a class and are left out");
    }
    if (!files_.empty()) return Ok();
    return FileError(ErrorCode::kBadValue, list,
                     "none of its images can be used: " + notes.back());
  }

  size_t size() const { return files_.size(); }
  uint16_t label(size_t example) const { return files_[example].label; }

  // Throws if the files have vanished since.
  Pair Get(size_t example) const {
    FEDMRN_CHECK(example < size());
    if (KeepsPixels()) return pairs_[example];
    Result<Pair> pair = ReadPair(files_[example]);
    if (!pair) throw std::runtime_error(pair.error().message);
    Shrink(*pair);
    return std::move(*pair);
  }

 private:
  // Small ones take no more memory than their files would. Beside training on
  // large ones, the 3 ms to read them again are nothing.
  bool KeepsPixels() const { return longest_ > 0 && longest_ <= 192; }

  void Shrink(Pair& pair) const {
    const uint32_t height = pair.image.height, width = pair.image.width;
    const uint32_t longer = std::max(height, width);
    if (longest_ == 0 || longer <= longest_) return;
    const auto shrunk = [&](uint64_t side) {
      const uint64_t rounded = (2 * side * longest_ + longer) / (2 * longer);
      return std::max(static_cast<uint32_t>(rounded), 1u);
    };
    Scale(shrunk(height), shrunk(width), Resampling::kAverage, pair);
  }

  uint32_t longest_;
  std::vector<Files> files_;
  std::vector<Pair> pairs_;  // where they are kept
};

// A random part of the image at a random scale, perhaps mirrored. Beyond its
// edge is black, without a class. `only`: the class whose labels are kept.
void FillCrop(Pair pair, uint32_t crop, std::optional<int32_t> only,
              Random& random, float* values, int32_t* labels) {
  const double scale = 0.5 + random.Uniform();
  const auto scaled = [scale](uint32_t side) {
    return static_cast<uint32_t>(std::ceil(side * scale));
  };
  Scale(scaled(pair.image.height), scaled(pair.image.width),
        Resampling::kBilinear, pair);
  const int64_t height = pair.image.height, width = pair.image.width;
  const int64_t side = crop;
  // Where the crop begins, relative to the image. One that is too small is
  // padded on both sides to a little more than the crop.
  const auto draw_begin = [&](int64_t length) {
    const int64_t padding = length < side ? (side - length) / 2 + 1 : 0;
    const int64_t places = length + 2 * padding - side + 1;
    return static_cast<int64_t>(random.Below(static_cast<uint64_t>(places))) -
           padding;
  };
  const int64_t top = draw_begin(height), left = draw_begin(width);
  const bool flip = random.Below(2) == 1;
  for (int64_t y = 0; y < side; ++y) {
    for (int64_t x = 0; x < side; ++x) {
      const int64_t row = top + y, column = left + (flip ? side - 1 - x : x);
      const bool inside =
          row >= 0 && row < height && column >= 0 && column < width;
      const size_t at = inside ? static_cast<size_t>(row * width + column) : 0;
      for (size_t c = 0; c < 3; ++c) {
        *values++ = Normalised(inside ? pair.image.pixels[3 * at + c] : 0, c);
      }
      const int32_t label = inside ? ClassOf(pair.mask.pixels[at]) : kNoClass;
      *labels++ = only && label != *only ? kNoClass : label;
    }
  }
}

// The whole image. What is mirrored at its right and bottom, to a size that
// networks can halve, has no class and so counts nowhere.
void FillWhole(const Pair& pair, Batch& batch) {
  const auto padded = [](uint32_t side) {
    return (side + kTestMultiple - 1) / kTestMultiple * kTestMultiple;
  };
  // The edge itself is not repeated.
  const auto mirrored = [](size_t i, size_t length) {
    if (length == 1) return size_t{0};
    i %= 2 * (length - 1);
    return i < length ? i : 2 * (length - 1) - i;
  };
  const uint32_t height = padded(pair.image.height);
  const uint32_t width = padded(pair.image.width);
  batch.examples = 1;
  batch.shape = {1, height, width, 3};
  batch.x.resize(size_t{height} * width * 3);
  batch.labels.resize(size_t{height} * width);
  float* values = batch.x.data();
  int32_t* labels = batch.labels.data();
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < width; ++x) {
      const uint8_t* pixel = pair.image.at(mirrored(y, pair.image.height),
                                           mirrored(x, pair.image.width));
      for (size_t c = 0; c < 3; ++c) *values++ = Normalised(pixel[c], c);
      const bool inside = y < pair.mask.height && x < pair.mask.width;
      *labels++ = inside ? ClassOf(*pair.mask.at(y, x)) : kNoClass;
    }
  }
}

}  // namespace

Result<Data> LoadVoc(const DataSet& set, const DataSettings& settings) {
  const Result<FoundData> found = RequireData(set, settings);
  if (!found) return found.error();
  const auto train = std::make_shared<Part>(settings.image_size);
  const auto test = std::make_shared<Part>(settings.image_size);
  Data data;
  Status loaded = train->Load(found->paths[0], settings.train_examples,
                              "training", settings.skip_bad, data.notes);
  if (loaded) {
    loaded = test->Load(found->paths[1], settings.test_examples, "test",
                        settings.skip_bad, data.notes);
  }
  if (!loaded) return loaded.error();
  data.name = set.name;
  data.input = Input::kImages;
  data.target = Target::kPixelClasses;
  data.shape = {settings.crop, settings.crop, 3};
  data.classes = kVocClasses;
  data.mean.assign(kMean.begin(), kMean.end());
  data.std.assign(kStd.begin(), kStd.end());
  data.train_examples = train->size();
  data.test_examples = test->size();
  for (size_t i = 0; i < train->size(); ++i) {
    data.labels.push_back(train->label(i));
  }
  data.train_batch = [train, crop = settings.crop, erase = settings.erase](
                         std::span<const uint32_t> examples,
                         const PhiloxStream& draws, Batch& batch) {
    const size_t pixels = size_t{crop} * crop;
    batch.examples = static_cast<uint32_t>(examples.size());
    batch.shape = {batch.examples, crop, crop, 3};
    batch.x.resize(examples.size() * pixels * 3);
    batch.labels.resize(examples.size() * pixels);
    Random random(draws);
    for (size_t i = 0; i < examples.size(); ++i) {
      const int32_t label = train->label(examples[i]);
      FillCrop(train->Get(examples[i]), crop,
               erase ? std::optional(label) : std::nullopt, random,
               batch.x.data() + i * pixels * 3,
               batch.labels.data() + i * pixels);
    }
  };
  data.train_as_test = [train](std::span<const uint32_t> examples,
                               Batch& batch) {
    FEDMRN_CHECK(examples.size() == 1);
    FillWhole(train->Get(examples[0]), batch);
  };
  data.test_batch = [test](uint64_t first, uint32_t count, Batch& batch) {
    FEDMRN_CHECK(count == 1);
    FillWhole(test->Get(first), batch);
  };
  data.largest_test_batch = 1;
  data.prepare_ahead = true;
  return data;
}

}  // namespace fedmrn::train
