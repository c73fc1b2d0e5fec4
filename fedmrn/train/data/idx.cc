// IDX, the format of MNIST and its successors: a big-endian magic and counts,
// then bytes. Packed with gzip or not, or in an archive of all four files.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "fedmrn/train/data/rows.h"
#include "fedmrn/train/data/tar_gz.h"

namespace fedmrn::train {
namespace {

uint32_t LoadBe(const uint8_t* from) {
  return uint32_t{from[0]} << 24 | uint32_t{from[1]} << 16 |
         uint32_t{from[2]} << 8 | from[3];
}

class IdxFile {
 public:
  virtual ~IdxFile() = default;

  // The counts after the magic, which tells how many there are.
  template <size_t kCounts>
  Result<std::array<uint32_t, kCounts>> ReadHeader() {
    uint8_t header[4 + 4 * kCounts];
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
    const uint64_t file_bytes = size();
    if (bytes > kMaxExamples * 784 || bytes / kMaxInflation > file_bytes) {
      return Fail(ErrorCode::kTruncated,
                  "claims more bytes than can be in a file of " +
                      std::to_string(file_bytes));
    }
    return counts;
  }

  virtual Status Read(std::span<uint8_t> to) = 0;
  // That nothing follows, and the checksum of what gzip packed.
  virtual Status Finish() = 0;
  const std::string& name() const { return name_; }

 protected:
  explicit IdxFile(std::string name) : name_(std::move(name)) {}

  virtual uint64_t size() const = 0;  // in bytes, as it is packed
  Error Fail(ErrorCode code, const std::string& what) const {
    return FileError(code, name_, what);
  }

 private:
  std::string name_;
};

class GzIdxFile final : public IdxFile {
 public:
  // gzopen reads a file that is not packed as it is.
  explicit GzIdxFile(const std::string& path)
      : IdxFile(path), file_(gzopen(path.c_str(), "rb"), &gzclose) {
    if (file_) gzbuffer(file_.get(), 1 << 16);
  }

  Status Read(std::span<uint8_t> to) override {
    if (!file_) return Fail(ErrorCode::kUnavailable, "cannot be opened");
    errno = 0;
    const int got =
        gzread(file_.get(), to.data(), static_cast<unsigned>(to.size()));
    if (got == static_cast<int>(to.size())) return Ok();
    return got < 0 ? Damaged() : Fail(ErrorCode::kTruncated, "is cut off");
  }

  Status Finish() override {
    uint8_t extra;
    const int got = gzread(file_.get(), &extra, 1);
    int code = Z_OK;
    gzerror(file_.get(), &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) return Damaged();
    if (got > 0) return Fail(ErrorCode::kBadFormat, "has bytes past its end");
    return Ok();
  }

 private:
  uint64_t size() const override {
    std::error_code ignored;
    return std::filesystem::file_size(name(), ignored);
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

  std::unique_ptr<gzFile_s, decltype(&gzclose)> file_;
};

// A member of an archive, in memory.
class IdxMember final : public IdxFile {
 public:
  explicit IdxMember(const FilePart& part)
      : IdxFile(part.name), rest_(part.bytes) {}

  Status Read(std::span<uint8_t> to) override {
    if (to.size() > rest_.size()) {
      return Fail(ErrorCode::kTruncated, "is cut off");
    }
    std::copy_n(rest_.begin(), to.size(), to.begin());
    rest_ = rest_.subspan(to.size());
    return Ok();
  }

  Status Finish() override {
    if (rest_.empty()) return Ok();
    return Fail(ErrorCode::kBadFormat, "has bytes past its end");
  }

 private:
  uint64_t size() const override { return rest_.size(); }

  ByteView rest_;
};

Status LoadPart(IdxFile& images, IdxFile& labels, const ImageData& data,
                Examples& part) {
  const auto shape = images.ReadHeader<3>();
  if (!shape) return shape.error();
  const auto [count, height, width] = *shape;
  if (height != data.height || width != data.width || data.channels != 1) {
    return FileError(ErrorCode::kBadFormat, images.name(),
                     "has images of " + std::to_string(height) + " x " +
                         std::to_string(width) + ", not " +
                         std::to_string(data.height) + " x " +
                         std::to_string(data.width));
  }
  part.pixels.resize(count * PixelsPerExample(data));
  if (Status read = images.Read(part.pixels); !read) return read;
  if (Status end = images.Finish(); !end) return end;

  const auto length = labels.ReadHeader<1>();
  if (!length) return length.error();
  if ((*length)[0] != count) {
    return FileError(ErrorCode::kBadFormat, labels.name(),
                     "has " + std::to_string((*length)[0]) + " labels for " +
                         std::to_string(count) + " images");
  }
  Bytes bytes(count);
  if (Status read = labels.Read(bytes); !read) return read;
  if (Status end = labels.Finish(); !end) return end;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] >= data.classes) {
      return LabelError(labels.name(), i, std::to_string(bytes[i]), data);
    }
  }
  part.labels.assign(bytes.begin(), bytes.end());
  return Ok();
}

}  // namespace

Status LoadIdx(std::span<const std::string> paths, ImageData& data) {
  for (const bool train : {true, false}) {
    GzIdxFile images(paths[train ? 0 : 2]), labels(paths[train ? 1 : 3]);
    FEDMRN_TRY(LoadPart(images, labels, data, train ? data.train : data.test));
  }
  return Ok();
}

Status LoadIdxTar(std::span<const std::string> paths, ImageData& data) {
  static constexpr const char* kNames[] = {
      "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
      "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
  const std::vector<FilePart> parts = FEDMRN_TRY(ReadMembers(paths[0], kNames));
  for (const bool train : {true, false}) {
    IdxMember images(parts[train ? 0 : 2]), labels(parts[train ? 1 : 3]);
    FEDMRN_TRY(LoadPart(images, labels, data, train ? data.train : data.test));
  }
  return Ok();
}

}  // namespace fedmrn::train
