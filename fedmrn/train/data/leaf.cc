// The JSON files of LEAF: {"users": [...], "num_samples": [...], "user_data":
// {USER: {"x": [window...], "y": [next character...]}}}. Read as a stream: they
// have 80 times as many characters as the plays.
//
// "num_samples" is not looked at: LEAF's own test files have it wrong, since
// they leave out 79 windows that they count.
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "fedmrn/train/data/rows.h"
#include "fedmrn/train/data/shakespeare.h"

namespace fedmrn::train {
namespace {

using Json = nlohmann::json;

class LeafReader final : public nlohmann::json_sax<Json> {
 public:
  explicit LeafReader(RoleWindows& part) : part_(part) {}

  // What is wrong, once the parser has stopped early.
  const std::string& error() const { return error_; }

  // What only the end of the file can tell.
  bool Finish() {
    if (users_.empty()) return Fail("has no \"users\" as LEAF's files have");
    for (const std::string& user : users_) {
      if (!with_data_.contains(user)) {
        return Fail("user " + user + " has no data");
      }
    }
    return true;
  }

  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool start_object(size_t) override { return Open(); }
  bool start_array(size_t) override { return Open(); }
  bool end_array() override { return Close(); }
  bool end_object() override { return Close(); }

  bool string(string_t& text) override {
    if (path_.size() == 2 && path_[1] == "users") {
      users_.push_back(std::move(text));
      return true;
    }
    if (!InSamples()) return true;
    codes_.clear();
    part_.unknown_characters += AppendCodes(text, codes_);
    const bool window = path_[3] == "x";
    if (codes_.size() != (window ? kWindow : 1)) {
      return Fail("user " + User() + (window ? " has a window of " : " has ") +
                  std::to_string(codes_.size()) + " characters" +
                  (window ? ", not " + std::to_string(kWindow)
                          : " in \"y\" instead of the next one"));
    }
    if (window) {
      part_.windows.AddWindow(std::span<const uint8_t, kWindow>(codes_));
      ++windows_;
    } else {
      part_.windows.AddLabel(codes_[0]);
      ++labels_;
    }
    return true;
  }

  bool null() override { return NoText(); }
  bool boolean(bool) override { return NoText(); }
  bool number_integer(number_integer_t) override { return NoText(); }
  bool number_unsigned(number_unsigned_t) override { return NoText(); }
  bool number_float(number_float_t, const string_t&) override {
    return NoText();
  }
  bool binary(binary_t&) override { return NoText(); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail("is not sound JSON: stopped at byte " +
                std::to_string(position));
  }

 private:
  static constexpr size_t kDeepest = 8;

  // Where we are: the names of the open objects and lists, the outermost has
  // none.
  bool InSamples() const {
    return path_.size() == 4 && path_[1] == "user_data" &&
           (path_[3] == "x" || path_[3] == "y");
  }
  const std::string& User() const { return path_[2]; }

  bool Open() {
    if (InSamples()) return NoText();
    if (path_.size() == kDeepest) return Fail("is nested too deep");
    path_.push_back(std::exchange(key_, ""));
    return true;
  }

  bool Close() {
    if (path_.size() == 3 && path_[1] == "user_data" && !EndUser()) {
      return false;
    }
    path_.pop_back();
    return true;
  }

  bool EndUser() {
    if (windows_ != labels_) {
      return Fail("user " + User() + " has " + std::to_string(windows_) +
                  " windows in \"x\", but " + std::to_string(labels_) +
                  " characters in \"y\"");
    }
    if (windows_ > 0) {
      part_.roles.resize(part_.windows.size(), part_.NumberOf(User()));
      with_data_.insert(User());
    }
    windows_ = labels_ = 0;
    return true;
  }

  bool NoText() {
    return !InSamples() || Fail("user " + User() + " has something in \"" +
                                path_[3] + "\" that is no text");
  }

  bool Fail(std::string what) {
    error_ = std::move(what);
    return false;
  }

  RoleWindows& part_;
  std::string error_;
  std::string key_;
  std::vector<std::string> path_;
  std::vector<std::string> users_;
  std::unordered_set<std::string> with_data_;
  std::vector<uint8_t> codes_;
  uint64_t windows_ = 0, labels_ = 0;  // of the user
};

}  // namespace

Status ReadLeafJson(const std::string& path, RoleWindows& part) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return FileError(ErrorCode::kUnavailable, path,
                     std::string("cannot be read: ") + std::strerror(errno));
  }
  LeafReader reader(part);
  if (!Json::sax_parse(file, &reader) || !reader.Finish()) {
    return FileError(ErrorCode::kBadFormat, path, reader.error());
  }
  return Ok();
}

}  // namespace fedmrn::train
