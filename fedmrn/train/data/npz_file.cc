#include "fedmrn/train/data/npz_file.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include "fedmrn/base/check.h"
#include "fedmrn/core/float16.h"
#include "fedmrn/train/data/rows.h"

namespace fedmrn::train {
namespace {

// The text before the numbers is no longer; NumPy's own limit is 10,000.
constexpr size_t kMaxHeader = 65536;

// Reads the next bytes of an array's file; the error has no name in it yet.
class Member {
 public:
  explicit Member(archive* zip) : zip_(zip) {}

  Status Read(std::span<uint8_t> to) {
    while (!to.empty()) {
      const la_ssize_t got = archive_read_data(zip_, to.data(), to.size());
      if (got < 0) return Damaged();
      if (got == 0) return Error{ErrorCode::kTruncated, "is cut off"};
      to = to.subspan(static_cast<size_t>(got));
    }
    return Ok();
  }

  // That nothing follows, and the checksum.
  Status Finish() {
    uint8_t extra;
    const la_ssize_t got = archive_read_data(zip_, &extra, 1);
    if (got < 0) return Damaged();
    if (got > 0) {
      return Error{ErrorCode::kBadFormat, "has bytes past its end"};
    }
    return Ok();
  }

 private:
  Error Damaged() const {
    const char* what = archive_error_string(zip_);
    return {ErrorCode::kBadChecksum,
            std::string("is damaged: ") + (what == nullptr ? "?" : what)};
  }
  archive* zip_;
};

// The header is a Python dictionary of three known keys, such as
// {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  struct Header {
    std::string descr;
    bool fortran_order = false;
    std::vector<uint64_t> shape;
  };

  std::optional<Header> Parse() {
    Header header;
    bool descr = false, order = false, shape = false;
    if (!Take('{')) return std::nullopt;
    while (!Take('}')) {
      const std::optional<std::string> key = String();
      if (!key || !Take(':')) return std::nullopt;
      bool read = false;
      if (*key == "descr") {
        const std::optional<std::string> text = String();
        // A list is one of fields, of which no element is a number.
        header.descr = text ? *text : "a list of fields";
        if (!text) return Peek() == '[' ? std::optional(header) : std::nullopt;
        read = descr = true;
      } else if (*key == "fortran_order") {
        header.fortran_order = Word("True");
        read = order = header.fortran_order || Word("False");
      } else if (*key == "shape") {
        read = shape = Tuple(header.shape);
      }
      if (!read) return std::nullopt;
      if (!Take(',') && Peek() != '}') return std::nullopt;
    }
    Peek();
    return descr && order && shape && rest_.empty() ? std::optional(header)
                                                    : std::nullopt;
  }

 private:
  char Peek() {
    const size_t at = rest_.find_first_not_of(" \t\n\r");
    rest_.remove_prefix(std::min(at, rest_.size()));
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool Take(char wanted) {
    if (Peek() != wanted || rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool Word(std::string_view wanted) {
    Peek();
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }
  std::optional<std::string> String() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const size_t end = rest_.find(quote, 1);
    if (end == rest_.npos) return std::nullopt;
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool Tuple(std::vector<uint64_t>& values) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      Peek();
      uint64_t value = 0;
      const auto [end, error] =
          std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (error != std::errc() || values.size() == 32) return false;
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      values.push_back(value);
      if (!Take(',') && Peek() != ')') return false;
    }
    return true;
  }

  std::string_view rest_;
};

// More than any name has.
constexpr size_t kMaxText = 4096;

Error Refused(const std::string& what) { return {ErrorCode::kBadFormat, what}; }

// An element type such as "<f4" has order of bytes, kind, number of bytes.
Status ParseType(std::string_view descr, NpyArray& array) {
  const auto refused = [&](const std::string& what) {
    return Refused("has elements of type " + std::string(descr) + ": " + what);
  };
  static constexpr std::string_view kTypes[] = {
      "b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"};
  if (descr.find('O') != descr.npos) {
    return refused("Python objects are not read");
  }
  const std::string_view type = descr.substr(std::min<size_t>(descr.size(), 1));
  if (type.starts_with('U') || type.starts_with('S')) {
    size_t length = 0;
    const auto [end, failure] =
        std::from_chars(type.data() + 1, type.data() + type.size(), length);
    if (failure != std::errc() || end != type.data() + type.size() ||
        length == 0 || length > kMaxText || descr[0] == '>') {
      return refused("text must be of 1 to " + std::to_string(kMaxText) +
                     " characters, in little-endian order");
    }
    array.kind = type[0];
    array.item_bytes = (type[0] == 'U' ? 4 : 1) * length;
    return Ok();
  }
  if (std::ranges::find(kTypes, type) == std::end(kTypes)) {
    return refused(
        "only integers, floats of 2 to 8 bytes, bool and text are read");
  }
  array.kind = type[0];
  array.item_bytes = static_cast<size_t>(type[1] - '0');
  if (descr[0] == '<' || (array.item_bytes == 1 && descr[0] == '|')) {
    return Ok();
  }
  return refused("save it in little-endian order, with astype('<" +
                 std::string(type) + "')");
}

// `max_bytes`: what the archive can hold.
Result<NpyArray> ReadArray(Member member, uint64_t max_bytes) {
  uint8_t start[12];
  if (Status read = member.Read(std::span(start).first(8)); !read) {
    return read.error();
  }
  if (std::string_view(reinterpret_cast<const char*>(start), 6) !=
      "\x93NUMPY") {
    return Refused("is not a NumPy array");
  }
  const unsigned version = start[6];
  if (version < 1 || version > 3) {
    return Refused("is of NumPy's format " + std::to_string(version) +
                   "; 1 to 3 are known");
  }
  const size_t length_bytes = version == 1 ? 2 : 4;
  const auto length_at = std::span(start).subspan(8, length_bytes);
  if (Status read = member.Read(length_at); !read) return read.error();
  const uint32_t length = version == 1 ? LoadLe<uint16_t>(length_at.data())
                                       : LoadLe<uint32_t>(length_at.data());
  if (length > kMaxHeader) return Refused("has a header that is too long");
  std::string text(length, ' ');
  if (Status read =
          member.Read({reinterpret_cast<uint8_t*>(text.data()), text.size()});
      !read) {
    return read.error();
  }
  const auto header = HeaderParser(text).Parse();
  if (!header) return Refused("has a header that cannot be understood");
  NpyArray array;
  if (Status type = ParseType(header->descr, array); !type) {
    return type.error();
  }
  array.shape = header->shape;
  uint64_t bytes = array.item_bytes;
  for (const uint64_t extent : array.shape) {
    if (extent != 0 && bytes > max_bytes / extent) {
      return Refused("claims the shape " + ShapeText(array.shape) +
                     ", more than can be in a file of this size");
    }
    bytes *= extent;
  }
  if (header->fortran_order && array.shape.size() > 1) {
    return Refused("is in Fortran's order: save numpy.ascontiguousarray of it");
  }
  array.bytes.resize(bytes);
  if (Status read = member.Read(array.bytes); !read) return read.error();
  if (Status end = member.Finish(); !end) return end.error();
  return array;
}

template <typename T>
T ElementAt(const NpyArray& array, size_t i) {
  return LoadLe<T>(array.bytes.data() + i * sizeof(T));
}

}  // namespace

int64_t NpyArray::Integer(size_t i) const {
  FEDMRN_CHECK(is_integer() && i < size());
  const bool has_sign = kind == 'i';
  switch (item_bytes) {
    case 1:
      return has_sign ? ElementAt<int8_t>(*this, i) : bytes[i];
    case 2:
      return has_sign ? ElementAt<int16_t>(*this, i)
                      : ElementAt<uint16_t>(*this, i);
    case 4:
      return has_sign ? int64_t{ElementAt<int32_t>(*this, i)}
                      : int64_t{ElementAt<uint32_t>(*this, i)};
    default: {
      const auto value = ElementAt<uint64_t>(*this, i);
      constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
      return has_sign || value <= uint64_t{kLargest}
                 ? static_cast<int64_t>(value)
                 : kLargest;
    }
  }
}

float NpyArray::Float(size_t i) const {
  FEDMRN_CHECK(!is_integer() && i < size());
  switch (item_bytes) {
    case 2:
      return FloatFromFloat16(ElementAt<uint16_t>(*this, i));
    case 4:
      return ElementAt<float>(*this, i);
    default: {
      const auto value = ElementAt<double>(*this, i);
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      constexpr double kLargest = std::numeric_limits<float>::max();
      if (value > kLargest) return kInfinity;
      return value < -kLargest ? -kInfinity : static_cast<float>(value);
    }
  }
}

std::u32string NpyArray::Text(size_t i) const {
  FEDMRN_CHECK(is_text() && i < size());
  const size_t width = kind == 'U' ? 4 : 1;
  std::u32string text;
  for (size_t at = i * item_bytes; at < (i + 1) * item_bytes; at += width) {
    text.push_back(width == 4 ? LoadLe<uint32_t>(bytes.data() + at)
                              : char32_t{bytes[at]});
  }
  text.resize(text.find_last_not_of(U'\0') + 1);  // npos + 1 is 0
  return text;
}

Result<std::map<std::string, NpyArray>> ReadNpz(
    const std::string& path, std::span<const char* const> names) {
  std::error_code error;
  const uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error) {
    return FileError(ErrorCode::kUnavailable, path,
                     "cannot be read: " + error.message());
  }
  const std::unique_ptr<archive, decltype(&archive_read_free)> zip(
      archive_read_new(), &archive_read_free);
  const auto failed = [&] {
    const char* what = archive_error_string(zip.get());
    return FileError(ErrorCode::kBadFormat, path,
                     std::string("is not a sound .npz file: ") +
                         (what == nullptr ? "unknown error" : what));
  };
  // With its directory at the end, so that a file cut off is seen at once.
  archive_read_support_format_zip_seekable(zip.get());
  if (archive_read_open_filename(zip.get(), path.c_str(), 1 << 17) !=
      ARCHIVE_OK) {
    return failed();
  }
  std::map<std::string, NpyArray> arrays;
  archive_entry* entry;
  int code;
  while ((code = archive_read_next_header(zip.get(), &entry)) == ARCHIVE_OK) {
    const char* full = archive_entry_pathname(entry);
    const std::string_view file = full == nullptr ? "" : full;
    const auto name = std::ranges::find_if(names, [&](std::string_view wanted) {
      return file.ends_with(".npy") &&
             file.substr(0, file.size() - 4) == wanted;
    });
    if (name == names.end()) continue;
    Result<NpyArray> array =
        ReadArray(Member(zip.get()), file_bytes * kMaxInflation);
    if (!array) {
      return FileError(
          array.error().code, path,
          std::string("array ") + *name + " " + array.error().message);
    }
    arrays[*name] = std::move(*array);
  }
  if (code != ARCHIVE_EOF) return failed();
  return arrays;
}

std::string ShapeText(std::span<const uint64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace fedmrn::train
