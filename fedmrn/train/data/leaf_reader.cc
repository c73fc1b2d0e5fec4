#include "fedmrn/train/data/leaf_reader.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "fedmrn/train/data/rows.h"

namespace fedmrn::train {
namespace {

constexpr size_t kDeepest = 8;

}  // namespace

Status LeafReader::Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return FileError(ErrorCode::kUnavailable, path,
                     std::string("cannot be read: ") + std::strerror(errno));
  }
  path_.clear();
  users_.clear();
  with_data_.clear();
  if (!nlohmann::json::sax_parse(file, this) || !Finish()) {
    return FileError(ErrorCode::kBadFormat, path, error_);
  }
  return Ok();
}

bool LeafReader::key(string_t& name) {
  key_ = std::move(name);
  return true;
}

bool LeafReader::string(string_t& text) {
  if (path_.size() == 2 && path_[1] == "users") {
    users_.push_back(std::move(text));
    return true;
  }
  return !InSamples() || Text(text);
}

bool LeafReader::number_integer(number_integer_t value) {
  return !InSamples() || Number(static_cast<double>(value));
}
bool LeafReader::number_unsigned(number_unsigned_t value) {
  return !InSamples() || Number(static_cast<double>(value));
}
bool LeafReader::number_float(number_float_t value, const string_t&) {
  return !InSamples() || Number(value);
}

bool LeafReader::parse_error(size_t position, const std::string&,
                             const nlohmann::detail::exception&) {
  return Fail("is not sound JSON: stopped at byte " + std::to_string(position));
}

bool LeafReader::Open(bool list) {
  if (InSamples() && !(list ? BeginList() : Strange())) return false;
  if (path_.size() == kDeepest) return Fail("is nested too deep");
  path_.push_back(std::exchange(key_, ""));
  return true;
}

bool LeafReader::Close() {
  if (InSamples() && InList() && !EndList()) return false;
  if (path_.size() == 3 && path_[1] == "user_data") {
    bool has_data = false;
    if (!EndUser(has_data)) return false;
    if (has_data) with_data_.insert(User());
  }
  path_.pop_back();
  return true;
}

bool LeafReader::Finish() {
  if (users_.empty()) return Fail("has no \"users\" as LEAF's files have");
  for (const std::string& user : users_) {
    if (!with_data_.contains(user)) {
      return Fail("user " + user + " has no data");
    }
  }
  return true;
}

bool LeafReader::Strange() {
  return Fail("user " + User() + " has something in \"" + path_[3] +
              "\" that is no " + kind_);
}

bool LeafReader::Fail(std::string what) {
  error_ = std::move(what);
  return false;
}

}  // namespace fedmrn::train
