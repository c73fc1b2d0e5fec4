// The JSON files of LEAF: {"users": [...], "num_samples": [...], "user_data":
// {USER: {"x": [example...], "y": [label...]}}}. Read as a stream, since they
// are many times larger than what they hold.
//
// "num_samples" is not looked at: LEAF's own test files have it wrong, since
// they leave out windows that they count.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <vector>

#include "fedmrn/base/result.h"

namespace fedmrn::train {

// What an example is, the set's own reader knows.
class LeafReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  // Reads a file whole.
  Status Read(const std::string& path);

  bool key(string_t& name) final;
  bool start_object(size_t) final { return Open(false); }
  bool start_array(size_t) final { return Open(true); }
  bool end_array() final { return Close(); }
  bool end_object() final { return Close(); }
  bool string(string_t& text) final;
  bool null() final { return !InSamples() || Strange(); }
  bool boolean(bool) final { return !InSamples() || Strange(); }
  bool number_integer(number_integer_t value) final;
  bool number_unsigned(number_unsigned_t value) final;
  bool number_float(number_float_t value, const string_t&) final;
  bool binary(binary_t&) final { return !InSamples() || Strange(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) final;

 protected:
  // `kind` is what a user's lists hold, for messages: "text".
  explicit LeafReader(const char* kind) : kind_(kind) {}

  // What stands in a user's "x" or "y", and the lists that open and close
  // there. All give whether to read on; Fail and Strange say why not.
  virtual bool Text(std::string&) { return Strange(); }
  virtual bool Number(double) { return Strange(); }
  virtual bool BeginList() { return Strange(); }
  virtual bool EndList() { return true; }
  // With whether the user has any example.
  virtual bool EndUser(bool& has_data) = 0;

  bool InX() const { return path_[3] == "x"; }
  bool InList() const { return path_.size() > 4; }  // of a list in "x" or "y"
  const std::string& User() const { return path_[2]; }
  bool Fail(std::string what);
  // Something that is not of the kind.
  bool Strange();

 private:
  bool InSamples() const {
    return path_.size() >= 4 && path_[1] == "user_data" &&
           (path_[3] == "x" || path_[3] == "y");
  }
  bool Open(bool list);
  bool Close();
  // What only the end of the file can tell.
  bool Finish();

  const char* kind_;
  std::string error_;
  std::string key_;
  // Where we are: the names of the open objects and lists, the outermost has
  // none.
  std::vector<std::string> path_;
  std::vector<std::string> users_;
  std::unordered_set<std::string> with_data_;
};

}  // namespace fedmrn::train
