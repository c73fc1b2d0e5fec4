// LEAF's Shakespeare: what each role of the plays says, in windows of 80
// characters; the label is the character that comes next. A role is a client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fedmrn/base/result.h"
#include "fedmrn/train/data/dataset.h"

namespace fedmrn::train {

inline constexpr size_t kWindow = 80;

// LEAF's vocabulary: a character's code is its place in here.
inline constexpr std::string_view kCharacters =
    "\n !\"&'(),-.0123456789:;>?"
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}";

// Appends the codes of UTF-8 text. A character that is not in the vocabulary
// becomes the last one, as for LEAF: its lookup gives -1, which is a place from
// the end. Returns how many of them there were.
uint64_t AppendCodes(std::string_view text, std::vector<uint8_t>& codes);

struct Role {
  std::string name;  // PLAY_ROLE
  std::string text;  // without line breaks; a single space between words
};

// The roles in Project Gutenberg's older edition of the complete works (number
// 100), in their order, by LEAF's rules. The error names no file.
Result<std::vector<Role>> ParsePlays(std::string_view works);

// Windows of 80 codes and their labels. A window that is one character on from
// the last costs that character, not 80.
class Windows {
 public:
  size_t size() const { return labels_.size(); }
  std::span<const uint8_t> labels() const { return labels_; }

  // Every window of a text that has a character after it.
  void AddText(std::span<const uint8_t> codes);

  // One by one; at the end there must be as many labels as windows.
  void AddWindow(std::span<const uint8_t, kWindow> codes);
  void AddLabel(uint8_t label) { labels_.push_back(label); }

  void KeepFirst(size_t count) { labels_.resize(count); }

  std::span<const uint8_t, kWindow> operator[](size_t window) const;

 private:
  // Windows `first`, first + 1, ... begin at text_[begin], text_[begin + 1]...
  struct Run {
    size_t first, begin;
  };
  std::vector<uint8_t> text_;
  std::vector<Run> runs_;
  std::vector<uint8_t> labels_;
  size_t windows_ = 0;
};

// A part of the data, training or test.
struct RoleWindows {
  Windows windows;
  std::vector<uint32_t> roles;  // one per window
  // By name, numbered in the order of their coming.
  std::unordered_map<std::string, uint32_t> role_numbers;
  uint64_t unknown_characters = 0;

  // Its number, which is new if the name is.
  uint32_t NumberOf(const std::string& role) {
    return role_numbers
        .try_emplace(role, static_cast<uint32_t>(role_numbers.size()))
        .first->second;
  }
};

// Adds what is in a JSON file that LEAF's scripts wrote.
Status ReadLeafJson(const std::string& path, RoleWindows& part);

Result<Data> LoadShakespeare(const DataSet& set, const DataSettings& settings);

}  // namespace fedmrn::train
