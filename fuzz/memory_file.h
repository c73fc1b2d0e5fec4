// A file that never reaches a disk, for readers that take a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/check.h"

namespace fedmrn {

class MemoryFile {
 public:
  MemoryFile()
      : file_(memfd_create("fuzz", MFD_CLOEXEC)),
        path_("/proc/self/fd/" + std::to_string(file_)) {
    FEDMRN_CHECK(file_ >= 0);
  }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Gives the path of a file with these contents, until the next call.
  const std::string& With(ByteView contents) {
    FEDMRN_CHECK(ftruncate(file_, 0) == 0);
    FEDMRN_CHECK(pwrite(file_, contents.data(), contents.size(), 0) ==
                 static_cast<ssize_t>(contents.size()));
    return path_;
  }

 private:
  int file_;
  std::string path_;
};

}  // namespace fedmrn
