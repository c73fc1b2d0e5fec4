// IDX, the format of MNIST and its successors: a big-endian magic and counts,
// then bytes. Packed with gzip or not.
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "fedmrn/train/data/rows.h"

namespace fedmrn::train {
namespace {

uint32_t LoadBe(const uint8_t* from) {
  return uint32_t{from[0]} << 24 | uint32_t{from[1]} << 16 |
         uint32_t{from[2]} << 8 | from[3];
}

class IdxFile {
 public:
  // gzopen reads a file that is not packed as it is.
  explicit IdxFile(const std::string& path)
      : path_(path), file_(gzopen(path.c_str(), "rb"), &gzclose) {}

  // The counts after the magic, which tells how many there are.
  template <size_t kCounts>
  Result<std::array<uint32_t, kCounts>> ReadHeader() {
    errno = 0;
    uint8_t header[4 + 4 * kCounts];
    if (!file_) return Fail(ErrorCode::kUnavailable, "cannot be opened");
    gzbuffer(file_.get(), 1 << 17);
    if (Status read = Read(header); !read) return read.error();
    // 8: unsigned bytes.
    if (LoadBe(header) != (8 << 8 | kCounts)) {
      return Fail(ErrorCode::kBadFormat,
                  "is not an IDX file of " + std::to_string(kCounts) +
                      "-dimensional bytes, packed with gzip or not");
    }
    std::array<uint32_t, kCounts> counts;
    uint64_t bytes = 1;
    for (size_t i = 0; i < kCounts; ++i) {
      counts[i] = LoadBe(header + 4 + 4 * i);
      if (counts[i] == 0 || counts[i] > kMaxExamples) {
        return Fail(ErrorCode::kBadFormat,
                    "claims a length of " + std::to_string(counts[i]));
      }
      bytes *= counts[i];
      if (bytes > kMaxExamples * 784) break;
    }
    std::error_code ignored;
    const uint64_t file_bytes = std::filesystem::file_size(path_, ignored);
    if (bytes > kMaxExamples * 784 || bytes / kMaxInflation > file_bytes) {
      return Fail(ErrorCode::kTruncated,
                  "claims more bytes than can be in a file of " +
                      std::to_string(file_bytes));
    }
    return counts;
  }

  Status Read(std::span<uint8_t> to) {
    const int got =
        gzread(file_.get(), to.data(), static_cast<unsigned>(to.size()));
    if (got == static_cast<int>(to.size())) return Ok();
    return got < 0 ? Damaged() : Fail(ErrorCode::kTruncated, "is cut off");
  }

  // That nothing follows, and the checksum of what gzip packed.
  Status Finish() {
    uint8_t extra;
    const int got = gzread(file_.get(), &extra, 1);
    int code = Z_OK;
    gzerror(file_.get(), &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) return Damaged();
    if (got > 0) return Fail(ErrorCode::kBadFormat, "has bytes past its end");
    return Ok();
  }

 private:
  Error Fail(ErrorCode code, const std::string& what) const {
    return FileError(code, path_, what);
  }
  Error Damaged() {
    int code = Z_OK;
    const char* what = gzerror(file_.get(), &code);
    if (code == Z_ERRNO) {
      return Fail(ErrorCode::kUnavailable,
                  std::string("cannot be read: ") + std::strerror(errno));
    }
    return Fail(
        code == Z_BUF_ERROR ? ErrorCode::kTruncated : ErrorCode::kBadChecksum,
        std::string("gzip finds it damaged: ") + what);
  }

  std::string path_;
  std::unique_ptr<gzFile_s, decltype(&gzclose)> file_;
};

Status LoadPart(const std::string& images_path, const std::string& labels_path,
                const ImageData& data, Examples& part) {
  IdxFile images(images_path);
  const auto shape = images.ReadHeader<3>();
  if (!shape) return shape.error();
  const auto [count, height, width] = *shape;
  if (height != data.height || width != data.width || data.channels != 1) {
    return FileError(ErrorCode::kBadFormat, images_path,
                     "has images of " + std::to_string(height) + " x " +
                         std::to_string(width) + ", not " +
                         std::to_string(data.height) + " x " +
                         std::to_string(data.width));
  }
  part.pixels.resize(count * PixelsPerExample(data));
  if (Status read = images.Read(part.pixels); !read) return read;
  if (Status end = images.Finish(); !end) return end;

  IdxFile labels(labels_path);
  const auto length = labels.ReadHeader<1>();
  if (!length) return length.error();
  if ((*length)[0] != count) {
    return FileError(ErrorCode::kBadFormat, labels_path,
                     "has " + std::to_string((*length)[0]) + " labels for " +
                         std::to_string(count) + " images");
  }
  Bytes bytes(count);
  if (Status read = labels.Read(bytes); !read) return read;
  if (Status end = labels.Finish(); !end) return end;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] >= data.classes) {
      return LabelError(labels_path, i, std::to_string(bytes[i]), data);
    }
  }
  part.labels.assign(bytes.begin(), bytes.end());
  return Ok();
}

}  // namespace

Status LoadIdx(std::span<const std::string> paths, ImageData& data) {
  Status train = LoadPart(paths[0], paths[1], data, data.train);
  return train ? LoadPart(paths[2], paths[3], data, data.test) : train;
}

}  // namespace fedmrn::train
