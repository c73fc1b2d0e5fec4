// Shakespeare as LEAF's scripts leave it: "x" has windows of text, "y" the
// character that follows each.
#include <string>
#include <vector>

#include "fedmrn/train/data/leaf_reader.h"
#include "fedmrn/train/data/shakespeare.h"

namespace fedmrn::train {
namespace {

class WindowReader final : public LeafReader {
 public:
  explicit WindowReader(RoleWindows& part) : LeafReader("text"), part_(part) {}

 private:
  bool Text(std::string& text) override {
    codes_.clear();
    part_.unknown_characters += AppendCodes(text, codes_);
    const bool window = InX();
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

  bool EndUser(bool& has_data) override {
    if (windows_ != labels_) {
      return Fail("user " + User() + " has " + std::to_string(windows_) +
                  " windows in \"x\", but " + std::to_string(labels_) +
                  " characters in \"y\"");
    }
    has_data = windows_ > 0;
    if (has_data) {
      part_.roles.resize(part_.windows.size(), part_.NumberOf(User()));
    }
    windows_ = labels_ = 0;
    return true;
  }

  RoleWindows& part_;
  std::vector<uint8_t> codes_;
  uint64_t windows_ = 0, labels_ = 0;  // of the user
};

}  // namespace

Status ReadLeafJson(const std::string& path, RoleWindows& part) {
  return WindowReader(part).Read(path);
}

}  // namespace fedmrn::train
