// For tests: a disk that fails.
#pragma once

#include <functional>
#include <string>

namespace fedmrn {

// What writing a file is made of; see files.h.
enum class FileStep { kOpen, kWrite, kSync, kClose, kRename, kSyncFolder };

// Asked before each step, by any thread: the errno that it fails with, or 0. A
// write that fails leaves half of its bytes behind.
using FileFault = std::function<int(FileStep step, const std::string& path)>;

// Files fail so while it lives. One at a time.
class FileFaults {
 public:
  explicit FileFaults(FileFault fault);
  ~FileFaults();
  FileFaults(const FileFaults&) = delete;
  FileFaults& operator=(const FileFaults&) = delete;

 private:
  const FileFault fault_;
};

}  // namespace fedmrn
