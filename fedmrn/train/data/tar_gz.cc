#include "fedmrn/train/data/tar_gz.h"

#include <archive.h>
#include <archive_entry.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "fedmrn/train/data/rows.h"

namespace fedmrn::train {
namespace {

constexpr size_t kBlockBytes = 1 << 16;

// What libarchive reads a tar.gz through: zlib checks gzip's checksum, which
// libarchive does not.
struct GzSource {
  std::unique_ptr<gzFile_s, decltype(&gzclose)> file;
  // Not cleared, as that would take longer than to read a small archive.
  std::unique_ptr<uint8_t[]> block =
      std::make_unique_for_overwrite<uint8_t[]>(kBlockBytes);

  static la_ssize_t Read(archive* tar, void* self, const void** data) {
    GzSource& source = *static_cast<GzSource*>(self);
    *data = source.block.get();
    const int got =
        gzread(source.file.get(), source.block.get(), unsigned{kBlockBytes});
    int code = Z_OK;
    const char* what = gzerror(source.file.get(), &code);
    if (got >= 0 && (code == Z_OK || code == Z_STREAM_END)) return got;
    archive_set_error(tar, EINVAL, "%s", what);
    return -1;
  }
};

}  // namespace

Result<std::vector<FilePart>> ReadMembers(const std::string& path,
                                          std::span<const char* const> names) {
  std::vector<FilePart> parts(names.size());
  std::vector<bool> found(names.size());
  const std::unique_ptr<archive, decltype(&archive_read_free)> tar(
      archive_read_new(), &archive_read_free);
  const auto failed = [&] {
    const char* what = archive_error_string(tar.get());
    return FileError(ErrorCode::kTruncated, path,
                     std::string("is not a sound tar.gz: ") +
                         (what == nullptr ? "unknown error" : what));
  };
  GzSource source{{gzopen(path.c_str(), "rb"), &gzclose}};
  if (!source.file) {
    return FileError(ErrorCode::kUnavailable, path, "cannot be opened");
  }
  archive_read_support_format_tar(tar.get());
  if (archive_read_open(tar.get(), &source, nullptr, &GzSource::Read,
                        nullptr) != ARCHIVE_OK) {
    return failed();
  }
  const auto block = std::make_unique_for_overwrite<uint8_t[]>(kBlockBytes);
  archive_entry* entry;
  int code;
  while ((code = archive_read_next_header(tar.get(), &entry)) == ARCHIVE_OK ||
         code == ARCHIVE_WARN) {
    const char* full = archive_entry_pathname(entry);
    std::string_view name = full == nullptr ? "" : full;
    name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) continue;
    const size_t i = static_cast<size_t>(at - names.begin());
    found[i] = true;
    parts[i] = {path + ": " + std::string(name), {}};
    la_ssize_t got;
    while ((got = archive_read_data(tar.get(), block.get(), kBlockBytes)) > 0) {
      Bytes& bytes = parts[i].bytes;
      bytes.insert(bytes.end(), block.get(), block.get() + got);
      if (bytes.size() > kMaxFileBytes) {
        return FileError(ErrorCode::kBadFormat, parts[i].name,
                         "is larger than any file of the set");
      }
    }
    if (got < 0) return failed();
  }
  if (code != ARCHIVE_EOF) return failed();
  // The checksum stands behind the end of the tar.
  const void* ignored;
  la_ssize_t got;
  while ((got = GzSource::Read(tar.get(), &source, &ignored)) > 0) {
  }
  if (got < 0) return failed();
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) {
      return FileError(ErrorCode::kBadFormat, path,
                       std::string("has no ") + names[i] + " in it");
    }
  }
  return parts;
}

}  // namespace fedmrn::train
