// Pictures: JPEG and PNG files to pixels, and to other sizes. Files are not
// trusted: sizes are checked before anything is allocated for them, and what
// the libraries would patch up, such as a JPEG that was cut off, is an error.
// Errors name the file. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"

namespace fedmrn::train {

struct Picture {
  uint32_t height = 0;
  uint32_t width = 0;
  uint32_t channels = 0;
  std::vector<uint8_t> pixels;  // row, column, channel

  const uint8_t* at(size_t row, size_t column) const {
    return pixels.data() + (row * width + column) * channels;
  }
};

// A file that claims more pixels is refused.
inline constexpr uint64_t kMaxPixels = uint64_t{1} << 26;

// JPEG or PNG, by its contents, as RGB: grey and CMYK are converted, an alpha
// channel is dropped. `name` is what errors call it.
Result<Picture> DecodePicture(ByteView file, const std::string& name);
// One channel: a PNG's palette indices, or its values if it is grey.
Result<Picture> DecodeMask(ByteView file, const std::string& name);

Result<Picture> ReadPicture(const std::string& path);
Result<Picture> ReadMask(const std::string& path);

// Between the centres of pixels. In shrinking, kBilinear looks at the nearest
// ones only; kAverage at all that a new one covers, so that nothing aliases.
enum class Resampling { kNearest, kBilinear, kAverage };
Picture Resize(const Picture& picture, uint32_t height, uint32_t width,
               Resampling resampling);

// What to do about examples that cannot be read, and what to tell about it.
struct BadExamples {
  std::vector<bool> bad;  // one per example
  std::string note;       // empty if there are none
};
// Calls read(i) for each i below `count`, on all cores. Without `skip_bad` the
// error of the first bad one is returned, with a hint at --skip-bad.
Result<BadExamples> ReadExamples(size_t count, bool skip_bad,
                                 const std::function<Status(size_t)>& read);

}  // namespace fedmrn::train
