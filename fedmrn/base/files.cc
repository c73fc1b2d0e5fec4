#include "fedmrn/base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "fedmrn/base/file_faults.h"

namespace fedmrn {
namespace {

std::atomic<const FileFault*> injected = nullptr;

// Whether a test has this step fail, for the reason in errno.
bool Fails(FileStep step, const std::string& path) {
  const FileFault* const fault = injected;
  const int why = fault != nullptr ? (*fault)(step, path) : 0;
  if (why != 0) errno = why;
  return why != 0;
}

// Some reasons say that the path is wrong, all others that the work failed.
Error Failed(const std::string& path, const char* what, int why = errno) {
  constexpr int kWrongPath[] = {EACCES,  EEXIST,       EISDIR, ELOOP, ENOENT,
                                ENOTDIR, ENAMETOOLONG, EPERM,  EROFS};
  const bool wrong = std::ranges::find(kWrongPath, why) != std::end(kWrongPath);
  return {wrong ? ErrorCode::kUnavailable : ErrorCode::kFailed,
          path + ": cannot " + what + " it: " + std::strerror(why)};
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  // Some file systems tell of a full disk only here.
  bool Close() { return close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

// `name` is the file's for people, who have not heard of temporary ones.
Status WriteAndSync(const std::string& path, const std::string& name, int flags,
                    ByteView bytes) {
  if (Fails(FileStep::kOpen, name)) return Failed(name, "write");
  Descriptor file(path, O_WRONLY | O_CREAT | flags);
  if (file.get() < 0) return Failed(name, "write");
  const bool cut = Fails(FileStep::kWrite, name);
  const int why_cut = errno;
  if (cut) bytes = bytes.first(bytes.size() / 2);
  while (!bytes.empty()) {
    const ssize_t wrote = write(file.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return Failed(name, "write");
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
  if (cut) return Failed(name, "write", why_cut);
  if (Fails(FileStep::kSync, name) || fsync(file.get()) != 0 ||
      Fails(FileStep::kClose, name) || !file.Close()) {
    return Failed(name, "write");
  }
  return Ok();
}

// The rename itself is on the disk only when its folder is.
Status SyncFolderOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent;
  const Descriptor descriptor(folder, O_RDONLY | O_DIRECTORY);
  if (descriptor.get() < 0) return Failed(folder, "open");
  // EINVAL: this file system has no such thing, and nothing can be done.
  if ((Fails(FileStep::kSyncFolder, folder) || fsync(descriptor.get()) != 0) &&
      errno != EINVAL) {
    return Failed(folder, "sync");
  }
  return Ok();
}

}  // namespace

FileFaults::FileFaults(FileFault fault) : fault_(std::move(fault)) {
  injected = &fault_;
}

FileFaults::~FileFaults() { injected = nullptr; }

Result<Bytes> ReadFile(const std::string& path, size_t most) {
  const Descriptor file(path, O_RDONLY);
  if (file.get() < 0) return Failed(path, "read");
  struct stat info;
  if (fstat(file.get(), &info) != 0) return Failed(path, "read");
  // The size is a hint: files of /proc have none, others may be growing.
  const auto hint = static_cast<size_t>(std::max<off_t>(info.st_size, 0));
  Bytes bytes(std::min(hint, most) + 1);
  for (size_t size = 0;;) {
    const ssize_t got =
        read(file.get(), bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed(path, "read");
    size += static_cast<size_t>(got);
    if (size > most) {
      return Error{ErrorCode::kBadFormat, path + ": is larger than " +
                                              std::to_string(most) + " bytes"};
    }
    if (got == 0) {
      bytes.resize(size);
      return bytes;
    }
    if (size == bytes.size()) bytes.resize(2 * size + 4096);
  }
}

Status WriteFileAtomically(const std::string& path, ByteView bytes) {
  const std::string temporary = path + ".tmp";
  if (Status wrote = WriteAndSync(temporary, path, O_TRUNC, bytes); !wrote) {
    unlink(temporary.c_str());
    return wrote;
  }
  if (Fails(FileStep::kRename, path) ||
      std::rename(temporary.c_str(), path.c_str()) != 0) {
    const Error error = Failed(path, "replace");
    unlink(temporary.c_str());
    return error;
  }
  return SyncFolderOf(path);
}

Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return Failed(path, "create", error.value());
  return Ok();
}

Status GrowFile(const std::string& path, ByteView bytes) {
  const Result<Bytes> old = ReadFile(path);
  if (!old || old->size() > bytes.size() ||
      !std::equal(old->begin(), old->end(), bytes.begin())) {
    return WriteFileAtomically(path, bytes);
  }
  return WriteAndSync(path, path, O_APPEND, bytes.subspan(old->size()));
}

Result<bool> AppendToFile(const std::string& path, uint64_t length,
                          ByteView more) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
      static_cast<uint64_t>(info.st_size) != length) {
    return false;
  }
  if (!more.empty()) FEDMRN_TRY(WriteAndSync(path, path, O_APPEND, more));
  return true;
}

Result<FolderLock> FolderLock::Take(const std::string& folder) {
  FEDMRN_TRY(MakeFolder(folder));
  const std::string path = folder + "/lock";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return Failed(path, "open");
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    close(file);
    if (why != EWOULDBLOCK) return Failed(path, "lock", why);
    return Error{ErrorCode::kFailed,
                 folder + ": another fedmrn is at work there"};
  }
  return FolderLock(file, folder);
}

Status FolderLock::Check() const {
  struct stat held, there;
  if (fstat(file_, &held) == 0 &&
      stat((folder_ + "/lock").c_str(), &there) == 0 &&
      held.st_dev == there.st_dev && held.st_ino == there.st_ino) {
    return Ok();
  }
  return Error{
      ErrorCode::kFailed,
      folder_ + ": was removed or replaced while fedmrn was at work there"};
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      folder_(std::move(other.folder_)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(folder_, other.folder_);
  return *this;
}

FolderLock::~FolderLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace fedmrn
