// SVHN's cropped digits: MATLAB 5 files with X, 32 x 32 x 3 x N bytes, and y,
// N labels of which 10 means the digit 0. MATLAB stores columns first.
#include <matio.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "fedmrn/train/data/rows.h"

namespace fedmrn::train {
namespace {

constexpr size_t kSide = 32, kPlane = kSide * kSide, kImage = 3 * kPlane;

// The checksum of a packed element, which matio does not look at.
bool IsSoundZlib(std::FILE* file, uint64_t bytes) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return false;
  std::vector<uint8_t> in(1 << 17), out(1 << 17);
  int code = Z_OK;
  while (code == Z_OK && bytes > 0) {
    const size_t want = std::min<uint64_t>(bytes, in.size());
    if (std::fread(in.data(), 1, want, file) != want) break;
    bytes -= want;
    stream.next_in = in.data();
    stream.avail_in = static_cast<uInt>(want);
    do {
      stream.next_out = out.data();
      stream.avail_out = static_cast<uInt>(out.size());
      code = inflate(&stream, Z_NO_FLUSH);
    } while (code == Z_OK && stream.avail_in > 0);
  }
  inflateEnd(&stream);
  return code == Z_STREAM_END && bytes == 0 && stream.avail_in == 0;
}

// matio fills up what is cut off or damaged, so this follows the elements to
// the file's end first.
Status CheckElements(const std::string& path) {
  const auto failed = [&](ErrorCode code, const std::string& what) {
    return FileError(code, path, what);
  };
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(
      std::fopen(path.c_str(), "rb"), &std::fclose);
  std::error_code no_size;
  const uint64_t size = std::filesystem::file_size(path, no_size);
  if (!file || no_size) {
    return failed(ErrorCode::kUnavailable,
                  std::string("cannot be read: ") + std::strerror(errno));
  }
  constexpr size_t kHeaderBytes = 128, kTagBytes = 8;
  constexpr uint32_t kCompressed = 15;
  uint8_t header[kHeaderBytes];
  if (std::fread(header, 1, kHeaderBytes, file.get()) != kHeaderBytes ||
      std::memcmp(header + 124, "\0\1IM", 4) != 0) {
    return failed(ErrorCode::kBadFormat, "is not a MATLAB 5 file");
  }
  for (uint64_t at = kHeaderBytes; at != size;) {
    uint8_t tag[kTagBytes];
    if (std::fread(tag, 1, kTagBytes, file.get()) != kTagBytes ||
        LoadLe<uint32_t>(tag + 4) > size - at - kTagBytes) {
      return failed(ErrorCode::kTruncated, "is cut off");
    }
    const uint32_t bytes = LoadLe<uint32_t>(tag + 4);
    if (LoadLe<uint32_t>(tag) == kCompressed &&
        !IsSoundZlib(file.get(), bytes)) {
      return failed(ErrorCode::kBadChecksum, "is damaged");
    }
    at += kTagBytes + bytes;
    if (std::fseek(file.get(), static_cast<long>(at), SEEK_SET) != 0) {
      return failed(ErrorCode::kUnavailable, "cannot be read");
    }
  }
  return Ok();
}

using MatFile = std::unique_ptr<mat_t, decltype(&Mat_Close)>;
using MatVariable = std::unique_ptr<matvar_t, decltype(&Mat_VarFree)>;

Status LoadPart(const std::string& path, const ImageData& data,
                Examples& part) {
  const auto failed = [&](const std::string& what) {
    return FileError(ErrorCode::kBadFormat, path, what);
  };
  if (Status sound = CheckElements(path); !sound) return sound;
  const MatFile file(Mat_Open(path.c_str(), MAT_ACC_RDONLY), &Mat_Close);
  if (!file) return failed("is not a MATLAB file");

  const MatVariable x(Mat_VarReadInfo(file.get(), "X"), &Mat_VarFree);
  if (!x || x->class_type != MAT_C_UINT8 || x->isComplex != 0 || x->rank != 4 ||
      x->dims[0] != kSide || x->dims[1] != kSide || x->dims[2] != 3) {
    return failed("has no X of 32 x 32 x 3 x N bytes");
  }
  const uint64_t count = x->dims[3];
  std::error_code ignored;
  if (count == 0 || count > kMaxExamples ||
      count * kImage / kMaxInflation >
          std::filesystem::file_size(path, ignored)) {
    return failed("claims " + std::to_string(count) + " images");
  }
  const MatVariable y(Mat_VarReadInfo(file.get(), "y"), &Mat_VarFree);
  if (!y || y->rank != 2 || y->dims[0] != count || y->dims[1] != 1 ||
      y->isComplex != 0 ||
      (y->class_type != MAT_C_UINT8 && y->class_type != MAT_C_DOUBLE)) {
    return failed("has no y with a number for each of X's " +
                  std::to_string(count) + " images");
  }
  if (Mat_VarReadDataAll(file.get(), x.get()) != 0 || x->data == nullptr ||
      x->nbytes != count * kImage ||
      Mat_VarReadDataAll(file.get(), y.get()) != 0 || y->data == nullptr ||
      y->nbytes != count * static_cast<size_t>(y->data_size)) {
    return failed("its X or y cannot be read: damaged");
  }

  part.labels.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const double label = y->class_type == MAT_C_UINT8
                             ? static_cast<const uint8_t*>(y->data)[i]
                             : static_cast<const double*>(y->data)[i];
    if (!(label >= 1 && label <= 10) || label != static_cast<int>(label)) {
      return failed("example " + std::to_string(i) + " has label " +
                    std::to_string(label) + "; SVHN has labels 1 to 10");
    }
    part.labels[i] =
        static_cast<uint16_t>(static_cast<uint32_t>(label) % data.classes);
  }
  part.pixels.resize(count * kImage);
  uint8_t* pixel = part.pixels.data();
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* image = static_cast<const uint8_t*>(x->data) + i * kImage;
    for (size_t row = 0; row < kSide; ++row) {
      for (size_t column = 0; column < kSide; ++column) {
        for (size_t plane = 0; plane < 3; ++plane) {
          *pixel++ = image[plane * kPlane + column * kSide + row];
        }
      }
    }
  }
  return Ok();
}

}  // namespace

Status LoadSvhn(std::span<const std::string> paths, ImageData& data) {
  Status train = LoadPart(paths[0], data, data.train);
  return train ? LoadPart(paths[1], data, data.test) : train;
}

}  // namespace fedmrn::train
