#include "fedmrn/base/json.h"

#include <gtest/gtest.h>

namespace fedmrn {
namespace {

TEST(JsonTest, KeepsTheOrderOfKeys) {
  const std::string text = R"({"z":1,"a":[true,null,0.5],"m":{"b":"c"}})";
  EXPECT_EQ(JsonText(ParseJson(text)), text);
  EXPECT_EQ(JsonText(ParseJson(R"({"z":1,"a":[]})"), 2),
            "{\n  \"z\": 1,\n  \"a\": []\n}");
}

TEST(JsonTest, ListsOfNumbersStandInOneLine) {
  const Json value = ParseJson(
      R"({"m":[[1,2],[3,null]],"t":["a, [1,\\","]"],"l":[{"x":[]}]})");
  const std::string text = JsonText(value, 2);
  EXPECT_NE(text.find("[\n    [1, 2],\n    [3, null]\n  ]"), text.npos) << text;
  EXPECT_NE(text.find("\n    \"]\"\n"), text.npos) << text;
  EXPECT_EQ(ParseJson(text), value);
}

TEST(JsonTest, NoJsonIsDiscarded) {
  for (const char* text : {"", "{", "[1,]", "{} x", "nul"}) {
    EXPECT_TRUE(ParseJson(text).is_discarded()) << text;
  }
}

TEST(JsonTest, WritesWhatIsNoUtf8) {
  EXPECT_EQ(JsonText(Json("a\xff")), "\"a\uFFFD\"");
}

}  // namespace
}  // namespace fedmrn
