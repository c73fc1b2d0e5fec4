// Files of a run: read whole, written so that a crash at any moment leaves
// either the old file or the new one, never half of it. Errors name the path
// and the system's reason; they are kUnavailable if the path is wrong, such as
// one of a folder that is not there, and kFailed otherwise: a full disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/result.h"

namespace fedmrn {

inline ByteView AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string_view AsText(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The error is kBadFormat if there are more than `most` bytes.
Result<Bytes> ReadFile(const std::string& path, size_t most = SIZE_MAX);

// On return the new contents are on the disk, under their name. Passes through
// PATH.tmp, so writers of one path must take turns; what a crash leaves there
// is overwritten by the next write.
Status WriteFileAtomically(const std::string& path, ByteView bytes);

// A folder with all its parents; it may be there already.
Status MakeFolder(const std::string& path);

// For files that others watch while they grow, and whose readers can stand a
// cut-off end: makes the file equal `bytes`, by appending what is missing if
// it holds a beginning of them, else atomically.
Status GrowFile(const std::string& path, ByteView bytes);

// The same for who knows how long such a file is and keeps none of it. False,
// and nothing happens, if it has another length or is not there.
Result<bool> AppendToFile(const std::string& path, uint64_t length,
                          ByteView more);

// Held by one process at a time, until it ends in whatever way.
class FolderLock {
 public:
  // Creates the folder if it is missing. Fails if another process holds it.
  static Result<FolderLock> Take(const std::string& folder);

  // Whether the folder is still the one that was taken: somebody may have
  // removed it, and somebody else made another of its name.
  Status Check() const;

  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();

 private:
  FolderLock(int file, std::string folder)
      : file_(file), folder_(std::move(folder)) {}
  int file_ = -1;
  std::string folder_;
};

}  // namespace fedmrn
