// Takes an input of a fuzzer apart, and puts together what mutations rarely
// hit: checksums and lengths.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "fedmrn/base/bytes.h"

namespace fedmrn {

class FuzzInput {
 public:
  // There is one way to use it.
  FuzzInput(const uint8_t* data, size_t size) : kind_(0), rest_(data, size) {}

  // Its first byte says in which of `kinds` ways the rest is to be used.
  FuzzInput(const uint8_t* data, size_t size, unsigned kinds)
      : kind_(size == 0 ? 0 : data[0] % kinds),
        rest_(data + std::min<size_t>(size, 1), size - (size == 0 ? 0 : 1)) {}

  unsigned kind() const { return kind_; }
  ByteView rest() const { return rest_; }

  // The next piece: its length in two bytes, then so many, or all there are.
  ByteView Piece() {
    if (rest_.size() < 2) return std::exchange(rest_, {});
    const size_t wanted = LoadLe<uint16_t>(rest_.data());
    rest_ = rest_.subspan(2);
    const ByteView piece = rest_.first(std::min(wanted, rest_.size()));
    rest_ = rest_.subspan(piece.size());
    return piece;
  }

 private:
  unsigned kind_;
  ByteView rest_;
};

inline uint32_t Crc32(ByteView bytes) {
  return static_cast<uint32_t>(
      crc32(0, bytes.data(), static_cast<unsigned>(bytes.size())));
}

// A zip archive that packs nothing.
class ZipMaker {
 public:
  void Add(std::string_view name, ByteView contents) {
    const auto at = static_cast<uint32_t>(bytes_.size());
    AppendLe(uint32_t{0x04034b50}, bytes_);
    AppendFacts(name, contents, bytes_);
    Append(name, bytes_);
    bytes_.insert(bytes_.end(), contents.begin(), contents.end());

    AppendLe(uint32_t{0x02014b50}, directory_);
    AppendLe(uint16_t{20}, directory_);
    AppendFacts(name, contents, directory_);
    directory_.resize(directory_.size() + 10);  // comment, disk, attributes
    AppendLe(at, directory_);
    Append(name, directory_);
    ++count_;
  }

  Bytes Finish() && {
    const auto at = static_cast<uint32_t>(bytes_.size());
    bytes_.insert(bytes_.end(), directory_.begin(), directory_.end());
    AppendLe(uint32_t{0x06054b50}, bytes_);
    AppendLe(uint32_t{0}, bytes_);  // disks
    AppendLe(count_, bytes_);
    AppendLe(count_, bytes_);
    AppendLe(static_cast<uint32_t>(directory_.size()), bytes_);
    AppendLe(at, bytes_);
    AppendLe(uint16_t{0}, bytes_);  // comment
    return std::move(bytes_);
  }

 private:
  static void Append(std::string_view text, Bytes& to) {
    to.insert(to.end(), text.begin(), text.end());
  }
  // From the version to the length of extra fields.
  static void AppendFacts(std::string_view name, ByteView contents, Bytes& to) {
    AppendLe(uint16_t{20}, to);
    to.resize(to.size() + 8);  // flags, method 0, time and date
    AppendLe(Crc32(contents), to);
    AppendLe(static_cast<uint32_t>(contents.size()), to);
    AppendLe(static_cast<uint32_t>(contents.size()), to);
    AppendLe(static_cast<uint16_t>(name.size()), to);
    AppendLe(uint16_t{0}, to);
  }

  Bytes bytes_, directory_;
  uint16_t count_ = 0;
};

}  // namespace fedmrn
