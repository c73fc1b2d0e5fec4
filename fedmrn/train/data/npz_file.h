// NumPy's .npz files: a zip archive, packed or not, of arrays in NumPy's own
// format. Files are not trusted; errors name the file and the array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"

namespace fedmrn::train {

// In C order: the last index runs fastest.
struct NpyArray {
  // Elements are of this kind, as NumPy writes it: b (true or false), i, u or
  // f, of so many bytes, at most 8; or text: U, of four bytes a character, or
  // S, of one.
  char kind = 'f';
  size_t item_bytes = 4;
  std::vector<uint64_t> shape;
  Bytes bytes;

  size_t size() const { return bytes.size() / item_bytes; }
  bool is_text() const { return kind == 'U' || kind == 'S'; }
  bool is_integer() const { return kind != 'f' && !is_text(); }

  // Reads integers; what is larger than an int64_t becomes its largest value.
  int64_t Integer(size_t i) const;
  // Reads floats; what is too large for one becomes infinite.
  float Float(size_t i) const;
  // Reads text, without the zeros that it is filled up with.
  std::u32string Text(size_t i) const;
};

// Those of the named arrays that are there. Others are not looked at.
Result<std::map<std::string, NpyArray>> ReadNpz(
    const std::string& path, std::span<const char* const> names);

// "(60000, 28, 28)".
std::string ShapeText(std::span<const uint64_t> shape);

}  // namespace fedmrn::train
