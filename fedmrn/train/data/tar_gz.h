// Data sets that come in a tar.gz, read without unpacking it to disk.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"

namespace fedmrn::train {

// No file of the sets here is larger, even where it holds a part's every
// example.
inline constexpr size_t kMaxFileBytes = size_t{1} << 29;

// A file's bytes and what errors call it.
struct FilePart {
  std::string name;
  Bytes bytes;
};

// The members of a tar.gz that have these names in whatever folder and order.
Result<std::vector<FilePart>> ReadMembers(const std::string& path,
                                          std::span<const char* const> names);

}  // namespace fedmrn::train
