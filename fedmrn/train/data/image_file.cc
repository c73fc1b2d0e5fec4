#include "fedmrn/train/data/image_file.h"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "fedmrn/base/files.h"
#include "fedmrn/base/parallel.h"
#include "fedmrn/train/data/rows.h"

namespace fedmrn::train {
namespace {

// As large as a picture of kMaxPixels that compresses badly.
constexpr size_t kMaxFileBytes = size_t{1} << 29;

Status CheckSize(uint64_t height, uint64_t width, const std::string& name) {
  if (height == 0 || width == 0) {
    return FileError(ErrorCode::kBadFormat, name, "has no picture in it");
  }
  if (height * width <= kMaxPixels) return Ok();
  return FileError(ErrorCode::kBadValue, name,
                   "claims " + std::to_string(width) + " x " +
                       std::to_string(height) + " pixels; at most " +
                       std::to_string(kMaxPixels) + " are taken");
}

// Memory is not taken on the word of a few bytes.
Error TooFewBytes(ByteView file, const std::string& name) {
  return FileError(ErrorCode::kTruncated, name,
                   "claims more pixels than can be in a file of " +
                       std::to_string(file.size()) + " bytes");
}

bool IsPng(ByteView file) {
  return file.size() >= 8 && png_sig_cmp(file.data(), 0, 8) == 0;
}
bool IsJpeg(ByteView file) {
  return file.size() >= 3 && file[0] == 0xFF && file[1] == 0xD8 &&
         file[2] == 0xFF;
}

// --- JPEG

// A Huffman code has at least a bit for the 64 pixels of a block; arithmetic
// coding, which hardly anybody uses, may have less.
constexpr size_t kMaxPixelsPerByte = 2 * 512;

Result<Picture> DecodeJpeg(ByteView file, const std::string& name) {
  const std::unique_ptr<void, decltype(&tjDestroy)> jpeg(tjInitDecompress(),
                                                         &tjDestroy);
  // A warning is an error: what comes after it would be made up.
  const auto damaged = [&] {
    return FileError(
        ErrorCode::kBadFormat, name,
        std::string("is not a sound JPEG: ") + tjGetErrorStr2(jpeg.get()));
  };
  if (!jpeg) return damaged();
  int width = 0, height = 0, subsampling = 0, colours = 0;
  const auto size = static_cast<unsigned long>(file.size());
  if (tjDecompressHeader3(jpeg.get(), file.data(), size, &width, &height,
                          &subsampling, &colours) != 0) {
    return damaged();
  }
  Picture picture{
      static_cast<uint32_t>(height), static_cast<uint32_t>(width), 3, {}};
  if (Status fits = CheckSize(picture.height, picture.width, name); !fits) {
    return fits.error();
  }
  if (size_t{picture.height} * picture.width / kMaxPixelsPerByte >
      file.size()) {
    return TooFewBytes(file, name);
  }
  const bool inks = colours == TJCS_CMYK || colours == TJCS_YCCK;
  const size_t pixels = size_t{picture.height} * picture.width;
  picture.pixels.resize(pixels * (inks ? 4 : 3));
  if (tjDecompress2(jpeg.get(), file.data(), size, picture.pixels.data(), width,
                    0, height, inks ? TJPF_CMYK : TJPF_RGB,
                    TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) != 0) {
    return damaged();
  }
  if (inks) {
    // Adobe, whose programs write nearly all of these, stores them inverted.
    for (size_t i = 0; i < pixels; ++i) {
      const uint8_t* from = picture.pixels.data() + 4 * i;
      const unsigned black = from[3];
      uint8_t* to = picture.pixels.data() + 3 * i;
      for (size_t c = 0; c < 3; ++c) {
        to[c] = static_cast<uint8_t>((from[c] * black + 127) / 255);
      }
    }
    picture.pixels.resize(pixels * 3);
  }
  return picture;
}

// --- PNG

// libpng leaves through longjmp, which runs no destructors; so everything that
// has one stands here, and the function that is left has only plain pointers.
struct PngReader {
  PngReader(ByteView from, const std::string& called)
      : file(from), name(called) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &Fail, &Ignore);
    info = png == nullptr ? nullptr : png_create_info_struct(png);
  }
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  [[noreturn]] static void Fail(png_structp png, png_const_charp what) {
    auto& self = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(self.what, sizeof self.what, "%s", what);
    png_longjmp(png, 1);
  }
  // About chunks that hold no pixels.
  static void Ignore(png_structp, png_const_charp) {}

  static void Read(png_structp png, png_bytep to, size_t size) {
    auto& self = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > self.file.size() - self.next) png_error(png, "it is cut off");
    std::memcpy(to, self.file.data() + self.next, size);
    self.next += size;
  }

  ByteView file;
  const std::string& name;
  png_structp png = nullptr;
  png_infop info = nullptr;
  size_t next = 0;  // byte of the file
  char what[160] = "no memory for it";
  Picture picture;
  std::vector<png_bytep> rows;
  std::optional<Error> refused;

  // False: see `refused`.
  bool Prepare(bool mask) {
    const uint32_t height = png_get_image_height(png, info);
    const uint32_t width = png_get_image_width(png, info);
    if (Status fits = CheckSize(height, width, name); !fits) {
      refused = fits.error();
      return false;
    }
    if (height * png_get_rowbytes(png, info) / kMaxInflation > file.size()) {
      refused = TooFewBytes(file, name);
      return false;
    }
    const int kind = png_get_color_type(png, info);
    if (mask) {
      if ((kind != PNG_COLOR_TYPE_PALETTE && kind != PNG_COLOR_TYPE_GRAY) ||
          png_get_bit_depth(png, info) > 8) {
        refused = FileError(ErrorCode::kBadFormat, name,
                            "is no mask: its pixels are colours, not numbers "
                            "of a palette");
        return false;
      }
      png_set_packing(png);
    } else {
      png_set_expand(png);
      png_set_scale_16(png);
      png_set_gray_to_rgb(png);
      png_set_strip_alpha(png);
    }
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    picture = {height, width, png_get_channels(png, info), {}};
    const uint64_t row_bytes = uint64_t{width} * picture.channels;
    if (png_get_rowbytes(png, info) != row_bytes) png_error(png, "odd rows");
    picture.pixels.resize(height * row_bytes);
    for (uint32_t row = 0; row < height; ++row) {
      rows.push_back(picture.pixels.data() + row * row_bytes);
    }
    return true;
  }
};

bool Decode(PngReader& reader, bool mask) {
  if (reader.info == nullptr) return false;
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_read_fn(reader.png, &reader, &PngReader::Read);
  png_read_info(reader.png, reader.info);
  if (!reader.Prepare(mask)) return false;
  png_read_image(reader.png, reader.rows.data());
  png_read_end(reader.png, nullptr);  // checksums
  return true;
}

Result<Picture> DecodePng(ByteView file, const std::string& name, bool mask) {
  PngReader reader(file, name);
  if (Decode(reader, mask)) return std::move(reader.picture);
  if (reader.refused) return *reader.refused;
  return FileError(ErrorCode::kBadFormat, name,
                   std::string("is not a sound PNG: ") + reader.what);
}

// --- Sizes

// The new rows or columns: each is a weighted sum of `taps` old ones.
struct Axis {
  size_t taps;
  std::vector<uint32_t> first;  // of each
  std::vector<float> weights;   // `taps` of each; their sum is 1
};

Axis MakeAxis(uint32_t from, uint32_t to, bool average) {
  const double scale = static_cast<double>(from) / to;
  const double reach = average ? std::max(scale, 1.0) : 1.0;
  const auto covered = static_cast<size_t>(std::ceil(2 * reach));
  Axis axis{std::min<size_t>(from, covered), {}, {}};
  for (uint32_t i = 0; i < to; ++i) {
    // A triangle about the centre; beyond the edge there is nothing.
    const double centre = (i + 0.5) * scale;
    const double last = static_cast<double>(from - axis.taps);
    const double first = std::clamp(std::ceil(centre - reach - 0.5), 0.0, last);
    axis.first.push_back(static_cast<uint32_t>(first));
    double sum = 0;
    const auto weight = [&](size_t tap) {
      const double at = first + static_cast<double>(tap) + 0.5;
      return std::max(1 - std::abs(at - centre) / reach, 0.0);
    };
    for (size_t tap = 0; tap < axis.taps; ++tap) sum += weight(tap);
    for (size_t tap = 0; tap < axis.taps; ++tap) {
      axis.weights.push_back(static_cast<float>(weight(tap) / sum));
    }
  }
  return axis;
}

Picture Nearest(const Picture& picture, uint32_t height, uint32_t width) {
  const auto nearest = [](uint64_t i, uint64_t from, uint64_t to) {
    return (2 * i + 1) * from / (2 * to);
  };
  std::vector<uint64_t> columns(width);
  for (uint32_t x = 0; x < width; ++x) {
    columns[x] = nearest(x, picture.width, width);
  }
  Picture out{height, width, picture.channels, {}};
  out.pixels.resize(size_t{height} * width * picture.channels);
  uint8_t* to = out.pixels.data();
  for (uint32_t y = 0; y < height; ++y) {
    const uint64_t row = nearest(y, picture.height, height);
    for (const uint64_t column : columns) {
      to = std::copy_n(picture.at(row, column), picture.channels, to);
    }
  }
  return out;
}

}  // namespace

Result<Picture> DecodePicture(ByteView file, const std::string& name) {
  if (IsPng(file)) return DecodePng(file, name, false);
  if (IsJpeg(file)) return DecodeJpeg(file, name);
  return FileError(ErrorCode::kBadFormat, name, "is neither JPEG nor PNG");
}

Result<Picture> DecodeMask(ByteView file, const std::string& name) {
  if (IsPng(file)) return DecodePng(file, name, true);
  return FileError(ErrorCode::kBadFormat, name, "is not a PNG");
}

Result<Picture> ReadPicture(const std::string& path) {
  const Result<Bytes> file = ReadFile(path, kMaxFileBytes);
  return file ? DecodePicture(*file, path) : file.error();
}

Result<Picture> ReadMask(const std::string& path) {
  const Result<Bytes> file = ReadFile(path, kMaxFileBytes);
  return file ? DecodeMask(*file, path) : file.error();
}

Picture Resize(const Picture& picture, uint32_t height, uint32_t width,
               Resampling resampling) {
  FEDMRN_CHECK(height > 0 && width > 0 && !picture.pixels.empty());
  if (resampling == Resampling::kNearest) {
    return Nearest(picture, height, width);
  }
  const bool average = resampling == Resampling::kAverage;
  const size_t channels = picture.channels;
  const size_t old_row = picture.width * channels, new_row = width * channels;
  const Axis across = MakeAxis(picture.width, width, average);
  const Axis down = MakeAxis(picture.height, height, average);
  Picture out{height, width, picture.channels, {}};
  out.pixels.resize(height * new_row);
  uint8_t* to = out.pixels.data();
  std::vector<float> sums(old_row);
  for (size_t row = 0; row < height; ++row) {
    std::ranges::fill(sums, 0.0f);
    for (size_t tap = 0; tap < down.taps; ++tap) {
      const float weight = down.weights[row * down.taps + tap];
      const uint8_t* from = picture.at(down.first[row] + tap, 0);
      for (size_t i = 0; i < old_row; ++i) sums[i] += weight * from[i];
    }
    const float* weights = across.weights.data();
    for (size_t column = 0; column < width; ++column, weights += across.taps) {
      for (size_t c = 0; c < channels; ++c) {
        const float* from = sums.data() + across.first[column] * channels + c;
        float sum = 0.5f;  // to round
        for (size_t tap = 0; tap < across.taps; ++tap, from += channels) {
          sum += weights[tap] * *from;
        }
        *to++ = static_cast<uint8_t>(std::min(sum, 255.0f));
      }
    }
  }
  return out;
}

Result<BadExamples> ReadExamples(size_t count, bool skip_bad,
                                 const std::function<Status(size_t)>& read) {
  std::vector<std::optional<Error>> errors(count);
  std::atomic<bool> stop = false;
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  // Started in order, so that all before a bad one are read as well: which one
  // is the first does not depend on the threads.
  ParallelFor(count, cores, [&](size_t, size_t i) {
    if (stop) return;
    if (Status status = read(i); !status) {
      errors[i] = status.error();
      if (!skip_bad) stop = true;
    }
  });
  constexpr size_t kNamed = 3;
  BadExamples found;
  found.bad.resize(count);
  size_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!errors[i]) continue;
    if (!skip_bad) {
      Error error = *errors[i];
      error.message += ". To leave out what cannot be read: --skip-bad";
      return error;
    }
    found.bad[i] = true;
    if (++total > kNamed) continue;
    found.note += (total == 1 ? "" : "; ") + errors[i]->message;
  }
  if (total > kNamed) found.note += "; ...";
  if (total > 0) {
    found.note = std::to_string(total) + " of " + std::to_string(count) +
                 " examples cannot be read and are left out: " + found.note;
  }
  return found;
}

}  // namespace fedmrn::train
