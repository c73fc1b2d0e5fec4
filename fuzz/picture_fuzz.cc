// Any bytes as a PNG or a JPEG, as a picture and as a mask.
#include <cstddef>
#include <cstdint>

#include "fedmrn/base/check.h"
#include "fedmrn/train/data/image_file.h"
#include "fuzz/input.h"

namespace fedmrn {
namespace {

constexpr size_t kMaxResized = size_t{1} << 16;

uint32_t LoadBe(const uint8_t* from) {
  return uint32_t{from[0]} << 24 | uint32_t{from[1]} << 16 |
         uint32_t{from[2]} << 8 | from[3];
}

// libpng looks at nothing in a chunk whose checksum is wrong.
void RepairPng(Bytes& file) {
  for (size_t at = 8; at + 12 <= file.size();) {
    const size_t length = LoadBe(file.data() + at);
    if (length > file.size() - at - 12) return;
    const size_t sum_at = at + 8 + length;
    const uint32_t sum = Crc32(ByteView(file).subspan(at + 4, 4 + length));
    for (size_t i = 0; i < 4; ++i) {
      file[sum_at + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    }
    at = sum_at + 4;
  }
}

void TryPicture(const Result<train::Picture>& picture, uint32_t channels) {
  if (!picture) {
    FEDMRN_CHECK(!picture.error().message.empty());
    return;
  }
  const size_t pixels = size_t{picture->height} * picture->width;
  FEDMRN_CHECK(pixels > 0 && pixels <= train::kMaxPixels);
  FEDMRN_CHECK(picture->channels == channels);
  FEDMRN_CHECK(picture->pixels.size() == pixels * channels);
  if (pixels > kMaxResized) return;
  using enum train::Resampling;
  for (const auto resampling : {kNearest, kBilinear, kAverage}) {
    train::Resize(*picture, 5, 7, resampling);
  }
}

}  // namespace
}  // namespace fedmrn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fedmrn;
  Bytes file(data, data + size);
  RepairPng(file);
  TryPicture(train::DecodePicture(file, "file"), 3);
  TryPicture(train::DecodeMask(file, "file"), 1);
  return 0;
}
