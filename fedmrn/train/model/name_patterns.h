// Which tensors a setting means: patterns of their names, commas between, such
// as conv*.weight,!head*. A name belongs to it that some pattern matches and
// none with a ! does.
#pragma once

#include <fnmatch.h>

#include <sstream>
#include <string>
#include <vector>

namespace fedmrn::train {

class NamePatterns {
 public:
  explicit NamePatterns(const std::string& text) {
    std::istringstream list(text);
    for (std::string item; std::getline(list, item, ',');) {
      const size_t begin = item.find_first_not_of(" \t");
      if (begin == item.npos) continue;
      item = item.substr(begin, item.find_last_not_of(" \t") + 1 - begin);
      const bool excludes = item.starts_with('!');
      if (excludes) item.erase(0, 1);
      any_included_ |= !excludes;
      patterns_.push_back({item, excludes});
    }
  }

  // `usually`: where all patterns have a !, whether they leave something out of
  // a set that has this name.
  bool Match(const std::string& name, bool usually) {
    bool included = !any_included_ && usually;
    bool excluded = false;
    for (Pattern& pattern : patterns_) {
      if (fnmatch(pattern.glob.c_str(), name.c_str(), 0) != 0) continue;
      pattern.used = true;
      (pattern.excludes ? excluded : included) = true;
    }
    return included && !excluded;
  }

  // A pattern that no name has matched so far; empty if all have.
  std::string Unused() const {
    for (const Pattern& pattern : patterns_) {
      if (!pattern.used) return pattern.glob;
    }
    return "";
  }

 private:
  struct Pattern {
    std::string glob;
    bool excludes;
    bool used = false;
  };
  std::vector<Pattern> patterns_;
  bool any_included_ = false;
};

}  // namespace fedmrn::train
