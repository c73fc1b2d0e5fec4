// Small texts for each rule of LEAF's scripts.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "fedmrn/train/data/shakespeare.h"
#include "fedmrn/train/data/test_util.h"

namespace fedmrn::train {
namespace {

using Names = std::vector<std::pair<std::string, std::string>>;

Names RolesIn(const std::string& works) {
  const auto roles = ParsePlays(works);
  if (!roles) return {{"error", roles.error().message}};
  Names names;
  for (const Role& role : *roles) names.emplace_back(role.name, role.text);
  return names;
}

TEST(Plays, RolesSpeakAndGoOnSpeaking) {
  const std::string play =
      "  Ham. To be,   or not\n"
      "    to be. That\n"
      "      is the question\n"
      "Enter OPHELIA\n"
      "\n"
      "    Whether  \n"
      "  OPHELIA. My lord\n"
      "    I have\n"
      "    remembrances\n"
      "  HAM. No. Not I\n"
      "  THE GHOST. Swear\n"
      "    swear\n";
  const Names roles = {{"PLAY_HAM",
                        "To be, or not to be. That is the question Whether "
                        "No. Not I "},
                       {"PLAY_OPHELIA", "My lord I have remembrances "}};
  EXPECT_EQ(RolesIn(kBeforePlays + Titled("PLAY") + play), roles);
  std::string carriage;
  for (const char c : kBeforePlays + Titled("PLAY") + play) {
    carriage += c == '\n' ? "\r\n" : std::string(1, c);
  }
  EXPECT_EQ(RolesIn(carriage), roles);
}

// A role that is one, and lines after it that begin no speech.
TEST(Plays, WhatBeginsNoSpeech) {
  for (const char* line :
       {" ONE. x", "   ONE. x", "  ONE.x", "  ONE", "  1ST. x", "  O, ONE. x",
        "  A.B. x", "  . x", "  ", ""}) {
    const std::string play =
        "  ROLE. a\n    b\n    c\n  OTHER. a\n    b\n    c\n" +
        std::string(line) + "\n    d\n";
    const Names expected = {{"PLAY_ROLE", "a b c "},
                            {"PLAY_OTHER", "a b c d "}};
    EXPECT_EQ(RolesIn(kBeforePlays + Titled("PLAY") + play), expected) << line;
  }
}

TEST(Plays, FewLinesAndPoemsDoNotCount) {
  const std::string speech = ". a\n    b\n    c\n";
  const Names expected = {{"PLAY_ONE", "a b c "}, {"LAST_ONE", "a b c "}};
  EXPECT_EQ(RolesIn(kBeforePlays + Titled("PLAY") + "  ONE" + speech +
                    "  TWO. a\n    b\n" +  // too few
                    Titled("POEM") + "  POET" + speech + Titled("LAST") +
                    "  ONE" + speech + "  TWO. a\n"),
            expected);
}

TEST(Plays, TitlesAndNames) {
  const std::string speeches =
      "  ONE. a\n    b\n    c\n  SIR TOBY. d\n    e\n    f\n";
  const auto first_name = [&](const std::string& head) {
    return RolesIn(kBeforePlays + head + speeches)[0].first;
  };
  // Two to seven lines above, whatever stands between.
  for (int up = 2; up <= 7; ++up) {
    const std::string empty(static_cast<size_t>(up) - 1, '\n');
    // LEAF starts five lines above the first play's author, so not that one.
    EXPECT_EQ(first_name(Titled("FIRST") + "  X. y\n\nTITLE\n" + empty +
                         "by William Shakespeare\n"),
              "TITLE_ONE")
        << up;
  }
  EXPECT_EQ(first_name("TITLE\nSUBTITLE\nby William Shakespeare\n"),
            "TITLE_ONE");
  EXPECT_EQ(
      RolesIn(kBeforePlays + Titled("  LOVE'S, LOST; OR ...2  ") + speeches)[1]
          .first,
      "LOVE_S__LOST__OR__2_SIR_TOBY");
  // The same play again: the same roles.
  const Names expected = {{"A_ONE", "a b c a b c "},
                          {"A_SIR_TOBY", "d e f d e f "}};
  EXPECT_EQ(
      RolesIn(kBeforePlays + Titled("A") + speeches + Titled("A") + speeches),
      expected);
}

TEST(Plays, TheComedyOfErrorsHasLostItsIndentation) {
  const std::string play =
      "ONE. a\n"
      "b\n"
      "\n"
      "Two. c\n"
      "ACT II. SCENE 1\n"
      "nobody's\n"
      "TWO. d\n"
      "  e\n"
      "<<THIS ELECTRONIC VERSION>>\n"
      "nobody's\n"
      "ONE. f\n";
  const Names flat = {{"THE_COMEDY_OF_ERRORS_ONE", "a b f "},
                      {"THE_COMEDY_OF_ERRORS_TWO", "c d e "}};
  EXPECT_EQ(RolesIn(kBeforePlays + Titled("THE COMEDY OF ERRORS") + play),
            flat);
  EXPECT_EQ(RolesIn(kBeforePlays + Titled("ANOTHER COMEDY") + play).at(0).first,
            "error");
}

// Line 124195, counted from 0 without the first, is the last.
TEST(Plays, EndWhereTheFileOfLeafHasNone) {
  std::string works = kBeforePlays + Titled("PLAY") +
                      "  ONE. a\n    b\n    c\n  TWO. d\n    e\n";
  const auto lines =
      static_cast<size_t>(std::count(works.begin(), works.end(), '\n'));
  works += std::string(124196 - lines, '\n') + "    last\n    beyond\n";
  const Names expected = {{"PLAY_ONE", "a b c "}, {"PLAY_TWO", "d e last "}};
  EXPECT_EQ(RolesIn(works), expected);
}

TEST(Plays, WhatHasNone) {
  for (const std::string& works :
       {std::string(), std::string("\n"), std::string("no plays"),
        std::string(1000, '\n'), std::string(1000, '\0'),
        "\n  A. a\n    b\n    c\n  B. a\n    b\n    c\n" + Titled("PLAY")}) {
    const auto roles = ParsePlays(works);
    ASSERT_FALSE(roles);
    EXPECT_TRUE(roles.error().message.starts_with("has no plays")) << works;
  }
  const auto untitled = ParsePlays(
      kBeforePlays + "\n\n\n\n\n\n\nby William Shakespeare\n  A. b\n");
  ASSERT_FALSE(untitled);
  EXPECT_EQ(untitled.error().message,
            "line 25 has \"by William Shakespeare\", but no title above it");
}

}  // namespace
}  // namespace fedmrn::train
