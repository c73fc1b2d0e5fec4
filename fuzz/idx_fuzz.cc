// Any bytes as MNIST's files, images and labels, packed or not, or as the
// archive of all four.
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/train/data/rows.h"
#include "fuzz/input.h"
#include "fuzz/memory_file.h"

namespace fedmrn {
namespace {

// A few kilobytes may stand for megabytes, which are allowed, but only show how
// fast zlib is.
constexpr size_t kMaxInputBytes = 16 << 10;
constexpr size_t kMaxPlainBytes = 64 << 10;
constexpr size_t kMaxPieceBytes = 1 << 10;

bool IsPacked(ByteView bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

bool InflatesALot(ByteView bytes) {
  if (!IsPacked(bytes)) return false;
  static Bytes plain(kMaxPlainBytes);
  z_stream stream = {};
  stream.next_in = const_cast<uint8_t*>(bytes.data());
  stream.avail_in = static_cast<unsigned>(bytes.size());
  stream.next_out = plain.data();
  stream.avail_out = static_cast<unsigned>(plain.size());
  FEDMRN_CHECK(inflateInit2(&stream, 15 + 16) == Z_OK);
  inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  return stream.avail_out == 0;
}

// libarchive looks at nothing in a header whose checksum is wrong.
void RepairTar(Bytes& tar) {
  constexpr size_t kBlock = 512, kSizeAt = 124, kSumAt = 148, kDigits = 6;
  for (size_t at = 0; at + kBlock <= tar.size(); at += kBlock) {
    uint8_t* const header = tar.data() + at;
    if (std::all_of(header, header + kBlock,
                    [](uint8_t b) { return b == 0; })) {
      continue;
    }
    std::fill_n(header + kSumAt, 8, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += header[i];
    for (size_t i = 0; i < kDigits; ++i) {
      header[kSumAt + i] =
          static_cast<uint8_t>('0' + (sum >> 3 * (kDigits - 1 - i) & 7));
    }
    header[kSumAt + kDigits] = 0;
    size_t size = 0;
    for (size_t i = kSizeAt; i < kSizeAt + 12; ++i) {
      if (header[i] < '0' || header[i] > '7') break;
      size = size * 8 + (header[i] - '0');
    }
    at += std::min((size + kBlock - 1) / kBlock * kBlock, tar.size() - at);
  }
}

}  // namespace
}  // namespace fedmrn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fedmrn;
  static MemoryFile images, labels;
  FuzzInput input(data, size, 2);
  train::ImageData set;
  set.name = "set";
  set.height = 2;
  set.width = 3;
  set.channels = 1;
  set.classes = 10;
  Status read = Ok();
  if (input.kind() == 0) {
    const ByteView pieces[] = {input.Piece(), input.rest()};
    for (const ByteView piece : pieces) {
      if (piece.size() > kMaxPieceBytes) return 0;
    }
    const std::string first = images.With(pieces[0]);
    const std::string second = labels.With(pieces[1]);
    read = train::LoadIdx(std::vector{first, second, first, second}, set);
  } else {
    Bytes archive(input.rest().begin(), input.rest().end());
    if (archive.size() > kMaxInputBytes || InflatesALot(archive)) return 0;
    if (!IsPacked(archive)) RepairTar(archive);
    read = train::LoadIdxTar(std::vector{images.With(archive)}, set);
  }
  if (!read) {
    FEDMRN_CHECK(!read.error().message.empty());
    return 0;
  }
  for (const train::Examples* part : {&set.train, &set.test}) {
    FEDMRN_CHECK(part->size() > 0);
    FEDMRN_CHECK(part->pixels.size() == 6 * part->size());
    for (const uint16_t label : part->labels) FEDMRN_CHECK(label < 10);
  }
  return 0;
}
