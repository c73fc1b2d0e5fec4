// Roles and their lines in the plain text of Project Gutenberg, by the rules of
// LEAF's preprocess_shakespeare.py, the odd ones included: only the same text
// gives LEAF's clients.
#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <unordered_map>
#include <utility>

#include "fedmrn/train/data/shakespeare.h"

namespace fedmrn::train {
namespace {

// Stands below the title of each work.
constexpr std::string_view kAuthor = "by William Shakespeare";
// The indentation of this play was lost.
constexpr std::string_view kFlatPlay = "THE COMEDY OF ERRORS";
// After this line, the first not counted, the file has no more plays.
constexpr size_t kLastLine = 124195;

using Lines = std::vector<std::string_view>;

Lines LinesOf(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

std::string_view Strip(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

struct Speech {
  std::string role;
  std::string_view words;
};

// "  Ham. To be, or not to be": a role begins to speak. Roles are not always
// written in the same case.
std::optional<Speech> SpeechIn(std::string_view line, bool flat) {
  const std::string_view indent = flat ? "" : "  ";
  if (!line.starts_with(indent)) return {};
  line.remove_prefix(indent.size());
  const size_t stop = line.find(". ");
  if (stop == std::string_view::npos || !IsLetter(line[0])) return {};
  Speech speech{std::string(line.substr(0, stop)), line.substr(stop + 2)};
  for (char& c : speech.role) {
    if (!IsLetter(c) && c != ' ') return {};
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return speech;
}

// A role goes on speaking.
std::optional<std::string_view> MoreWordsIn(std::string_view line, bool flat) {
  const std::string_view indent = flat ? "" : "    ";
  if (!line.starts_with(indent)) return {};
  return line.substr(indent.size());
}

struct Speaker {
  std::string name;
  Lines lines;
};

struct Play {
  std::string_view title;
  std::vector<Speaker> speakers = {};

  Lines& LinesBy(const std::string& name) {
    const auto at = std::ranges::find(speakers, name, &Speaker::name);
    if (at != speakers.end()) return at->lines;
    return speakers.emplace_back(Speaker{name, {}}).lines;
  }
};

// Up to seven lines above the author's name, but never just above it.
std::string_view TitleAbove(const Lines& lines, size_t author) {
  for (size_t up = 2; up <= std::min<size_t>(7, author); ++up) {
    if (const auto title = Strip(lines[author - up]); !title.empty()) {
      return title;
    }
  }
  return "";
}

bool NamesAuthor(std::string_view line) {
  return line.find(kAuthor) != std::string_view::npos;
}

// The contents and the sonnets come first.
size_t FirstPlay(const Lines& lines) {
  const auto sonnets = std::ranges::find_if(lines, NamesAuthor);
  if (sonnets == lines.end()) return 0;
  const auto play = std::find_if(sonnets + 1, lines.end(), NamesAuthor);
  if (play == lines.end()) return 0;
  const auto author = static_cast<size_t>(play - lines.begin());
  return author - std::min<size_t>(5, author);
}

Result<std::vector<Play>> PlaysIn(const Lines& lines) {
  std::vector<Play> plays;
  Lines* spoken = nullptr;  // by the one whose turn it is
  bool flat = false;
  const size_t end = std::min(lines.size(), kLastLine + 1);
  for (size_t i = FirstPlay(lines); i < end; ++i) {
    const std::string_view line = lines[i];
    if (NamesAuthor(line)) {
      const std::string_view title = TitleAbove(lines, i);
      if (title.empty()) {
        return Error{ErrorCode::kBadFormat,
                     "line " + std::to_string(i + 2) + " has \"" +
                         std::string(kAuthor) + "\", but no title above it"};
      }
      plays.push_back({title});
      flat = title == kFlatPlay;
      spoken = nullptr;
      continue;
    }
    if (plays.empty()) continue;
    if (const auto speech = SpeechIn(line, flat)) {
      spoken = nullptr;
      if (flat && speech->role.starts_with("ACT ")) continue;
      spoken = &plays.back().LinesBy(speech->role);
      spoken->push_back(speech->words);
    } else if (spoken != nullptr) {
      const auto words = MoreWordsIn(line, flat);
      if (!words) continue;  // a stage direction, and the role goes on
      if (flat && words->starts_with('<')) {  // Gutenberg's own remarks
        spoken = nullptr;
      } else {
        spoken->push_back(*words);
      }
    }
  }
  return plays;
}

// A file name, for LEAF: blanks and each run of signs become "_".
std::string RoleName(std::string_view play, const std::string& speaker) {
  std::string name;
  bool sign = false;
  for (const char c : std::string(play) + "_" + speaker) {
    const bool word = IsLetter(c) || (c >= '0' && c <= '9') || c == '_' ||
                      c == ' ' || static_cast<unsigned char>(c) >= 0x80;
    if (word || !sign) name += word && c != ' ' ? c : '_';
    sign = !word;
  }
  return name;
}

void AppendWords(std::string_view line, std::string& text) {
  const auto append = [&](char c) {
    if (c != ' ' || !text.ends_with(' ')) text += c;
  };
  std::ranges::for_each(line, append);
  append(' ');  // the end of the line
}

}  // namespace

Result<std::vector<Role>> ParsePlays(std::string_view works) {
  Lines lines = LinesOf(works);
  if (!lines.empty()) lines.erase(lines.begin());  // LEAF counts from the next
  const Result<std::vector<Play>> plays = PlaysIn(lines);
  if (!plays) return plays.error();
  std::vector<Role> roles;
  std::unordered_map<std::string, size_t> numbers;
  for (const Play& play : *plays) {
    if (play.speakers.size() < 2) continue;  // a poem
    for (const Speaker& speaker : play.speakers) {
      if (speaker.lines.size() < 3) continue;
      const std::string name = RoleName(play.title, speaker.name);
      const auto [at, is_new] = numbers.try_emplace(name, roles.size());
      if (is_new) roles.push_back({name, ""});
      for (const std::string_view line : speaker.lines) {
        AppendWords(line, roles[at->second].text);
      }
    }
  }
  if (roles.empty()) {
    return Error{ErrorCode::kBadFormat,
                 "has no plays as Project Gutenberg's older edition of the "
                 "complete works has them: \"" +
                     std::string(kAuthor) +
                     "\" below each title, and roles as in \"  HAMLET. "
                     "Words, words, words.\""};
  }
  return roles;
}

}  // namespace fedmrn::train
