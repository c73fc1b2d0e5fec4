// Roles to windows to batches; LEAF's JSON; damage. What makes roles of plays
// is in data_gutenberg_test.cc.
#include "fedmrn/train/data/shakespeare.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fedmrn/core/random.h"
#include "fedmrn/train/data/test_util.h"

namespace fedmrn::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// --- windows

TEST(Characters, AreLeafs) {
  EXPECT_EQ(kCharacters.size(), 80u);
  std::vector<uint8_t> codes;
  EXPECT_EQ(AppendCodes(kCharacters, codes), 0u);
  for (size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(codes[i], i);
  EXPECT_EQ(kCharacters.find('a'), 53u);
  EXPECT_EQ(kCharacters.find("Z["), 50u);
  codes.clear();
  // e with an accent, a sign of four bytes and a tab are one character each.
  EXPECT_EQ(AppendCodes("a\xC3\xA9\xF0\x9D\x84\x9E\t!", codes), 3u);
  EXPECT_EQ(codes, (std::vector<uint8_t>{53, 79, 79, 79, 2}));
}

// Any characters, but few enough to be equal by chance now and then.
std::string SomeText(size_t length, uint64_t seed) {
  Random random({seed, Purpose::kSynthetic});
  std::string text(length, ' ');
  for (char& c : text) c = "aeiou,. "[random.Below(8)];
  return text;
}

std::string TextOf(std::span<const int32_t> codes) {
  std::string text;
  for (const int32_t code : codes) {
    text += kCharacters[static_cast<size_t>(code)];
  }
  return text;
}

// A window and what follows.
using Window = std::tuple<uint32_t, std::string, char>;  // of a client

std::vector<Window> WindowsOf(const Batch& batch,
                              const std::vector<uint32_t>& clients) {
  EXPECT_EQ(batch.shape, (std::vector<int64_t>{batch.examples, 80}));
  std::vector<Window> windows;
  for (size_t i = 0; i < batch.examples; ++i) {
    windows.emplace_back(clients.empty() ? 0 : clients[i],
                         TextOf(std::span(batch.tokens).subspan(i * 80, 80)),
                         kCharacters[static_cast<size_t>(batch.labels[i])]);
  }
  return windows;
}

std::vector<Window> TrainOf(const Data& data) {
  std::vector<uint32_t> all(data.train_examples);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint32_t>(i);
  Batch batch;
  data.train_batch(all, {}, batch);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(batch.labels[i], data.labels[i]);
  }
  EXPECT_EQ(data.labels.size(), all.size());
  EXPECT_EQ(data.clients.size(), all.size());
  return WindowsOf(batch, data.clients);
}

std::vector<Window> TestOf(const Data& data) {
  Batch batch;
  data.test_batch(0, static_cast<uint32_t>(data.test_examples), batch);
  return WindowsOf(batch, {});
}

// Windows first up to end of a text.
void AddWindows(const std::string& text, size_t first, size_t end,
                uint32_t client, std::vector<Window>& to) {
  for (size_t i = first; i < end; ++i) {
    to.emplace_back(client, text.substr(i, 80), text[i + 80]);
  }
}

TEST(Windows, AreTheSameOneByOne) {
  Windows whole, single;
  // The second text begins as if it went on with the first; the third is a
  // single window, and one of a single character goes on with itself.
  const std::string text = SomeText(200, 1);
  for (const std::string& part :
       {text, text.substr(text.size() - 80) + SomeText(30, 2), SomeText(81, 3),
        std::string(100, 'a'), std::string(90, 'a'), SomeText(100, 4)}) {
    std::vector<uint8_t> codes;
    AppendCodes(part, codes);
    whole.AddText(codes);
    for (size_t i = 0; i + 80 < codes.size(); ++i) {
      single.AddWindow(std::span<const uint8_t, 80>(&codes[i], 80));
      single.AddLabel(codes[i + 80]);
    }
  }
  ASSERT_EQ(whole.size(), 120u + 30 + 1 + 20 + 10 + 20);
  ASSERT_EQ(single.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(whole[i], single[i])) << i;
    EXPECT_EQ(whole.labels()[i], single.labels()[i]) << i;
  }
  EXPECT_EQ(whole[120][0], whole[119][1]);  // as was said above
}

// --- files

class ShakespeareTest : public FolderTest {
 protected:
  void WriteGz(const std::string& name, const std::string& text) {
    const gzFile file = gzopen((dir_ / name).c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
  }
  void Cut(const std::string& name, size_t bytes) {
    fs::resize_file(dir_ / name, fs::file_size(dir_ / name) - bytes);
  }

  DataSettings Settings(double fraction = 1, uint64_t seed = 1) const {
    DataSettings settings;
    settings.name = "shakespeare";
    settings.dir = dir_.string();
    settings.fraction = fraction;
    settings.seed = seed;
    return settings;
  }
  std::string ErrorOf(const DataSettings& settings) const {
    const auto data = LoadData(settings);
    return data ? "" : data.error().message;
  }
};

TEST_F(ShakespeareTest, SplitByHand) {
  // 1000 windows: 900, and from 979 on. 791 windows: 711, and the last. One
  // window less and nothing would be left to test; 80 characters are no window.
  const std::string longer = SomeText(1080, 1), shorter = SomeText(871, 2);
  Write("leaf_roles.tsv", "LONG\t" + longer + "\nNONE\t" + SomeText(870, 3) +
                              "\nTINY\t" + SomeText(80, 4) + "\nSHORT\t" +
                              shorter + "\n");
  const auto data = LoadData(Settings());
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->name, "shakespeare");
  EXPECT_EQ(data->input, Input::kTokens);
  EXPECT_EQ(data->target, Target::kClass);
  EXPECT_EQ(data->shape, std::vector<int64_t>{80});
  EXPECT_EQ(data->classes, 80u);
  EXPECT_EQ(data->vocabulary, 80u);
  EXPECT_EQ(data->notes,
            std::vector<std::string>{
                "shakespeare: 2 roles, 1611 training and 22 test windows"});
  const auto train = TrainOf(*data);
  ASSERT_EQ(train.size(), 1611u);
  // Which of the two comes first is drawn.
  const bool long_first = std::get<1>(train[0]) == longer.substr(0, 80);
  std::vector<Window> expected, expected_test;
  for (const bool is_long : {long_first, !long_first}) {
    const uint32_t client = is_long == long_first ? 0 : 1;
    AddWindows(is_long ? longer : shorter, 0, is_long ? 900 : 711, client,
               expected);
    AddWindows(is_long ? longer : shorter, is_long ? 979 : 790,
               is_long ? 1000 : 791, 0, expected_test);
  }
  EXPECT_EQ(train, expected);
  EXPECT_EQ(TestOf(*data), expected_test);
  // Any examples in any order.
  Batch batch;
  const uint32_t chosen[] = {1610, 3, 3, 900};
  data->train_batch(chosen, {}, batch);
  EXPECT_EQ(WindowsOf(batch, {}).size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(std::get<1>(WindowsOf(batch, {})[i]),
              std::get<1>(expected[chosen[i]]));
  }
}

TEST_F(ShakespeareTest, TheLastRoleIsCutOff) {
  const std::string texts[] = {SomeText(1080, 1), SomeText(1080, 2)};
  WriteGz("leaf_roles.tsv.gz", "A\t" + texts[0] + "\nB\t" + texts[1] + "\n");
  // 1800 windows of 2000: all of one role, 800 of the other; of these 720 are
  // for training, and 799 is the one for testing.
  const auto data = LoadData(Settings(.9));
  ASSERT_TRUE(data) << data.error().message;
  const auto train = TrainOf(*data), test = TestOf(*data);
  const size_t first = std::get<1>(train[0]) == texts[0].substr(0, 80) ? 0 : 1;
  std::vector<Window> expected, expected_test;
  AddWindows(texts[first], 0, 900, 0, expected);
  AddWindows(texts[1 - first], 0, 720, 1, expected);
  AddWindows(texts[first], 979, 1000, 0, expected_test);
  AddWindows(texts[1 - first], 799, 800, 0, expected_test);
  EXPECT_EQ(train, expected);
  EXPECT_EQ(test, expected_test);
  // A role that nothing is left of but for training is left out.
  const auto one = LoadData(Settings(.85));
  ASSERT_TRUE(one);
  EXPECT_EQ(one->train_examples, 900u);
  EXPECT_EQ(
      ErrorOf(Settings(.3)),
      (dir_ / "leaf_roles.tsv.gz").string() +
          ": has too little text: 2000 windows, and with data.fraction = 0.3 "
          "no role that is long enough to train and to test");
}

TEST_F(ShakespeareTest, ASeedAlwaysDrawsTheSameRoles) {
  std::string roles;
  for (uint64_t i = 0; i < 30; ++i) {
    roles += std::to_string(i) + "\t" + SomeText(1000 + 10 * i, i) + "\n";
  }
  Write("leaf_roles.tsv", roles);
  std::vector<std::vector<Window>> drawn;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const auto a = LoadData(Settings(.3, seed));
    const auto b = LoadData(Settings(.3, seed));
    ASSERT_TRUE(a && b);
    drawn.push_back(TrainOf(*a));
    EXPECT_EQ(drawn.back(), TrainOf(*b));
    EXPECT_EQ(TestOf(*a), TestOf(*b));
    for (size_t before = 0; before + 1 < seed; ++before) {
      EXPECT_NE(drawn[before], drawn.back());
    }
  }
}

TEST_F(ShakespeareTest, FirstExamples) {
  Write("leaf_roles.tsv",
        "A\t" + SomeText(1080, 1) + "\nB\t" + SomeText(1080, 2) + "\n");
  const auto all = LoadData(Settings());
  DataSettings settings = Settings();
  settings.train_examples = 901;
  settings.test_examples = 5;
  const auto some = LoadData(settings);
  ASSERT_TRUE(all && some);
  auto train = TrainOf(*all), test = TestOf(*all);
  train.resize(901);
  test.resize(5);
  EXPECT_EQ(TrainOf(*some), train);
  EXPECT_EQ(TestOf(*some), test);
  EXPECT_EQ(some->notes[0],
            "shakespeare: 2 roles, 901 training and 5 test windows");
  settings.train_examples = 1801;
  EXPECT_EQ(ErrorOf(settings),
            "shakespeare has 1800 training examples here, not 1801");
  settings.train_examples = 0;
  settings.test_examples = 43;
  EXPECT_EQ(ErrorOf(settings), "shakespeare has 42 test examples here, not 43");
}

// A play of two roles, whose texts are those of a TSV.
TEST_F(ShakespeareTest, PlaysAsTextAndAsRoles) {
  std::string play = kBeforePlays + Titled("PLAY"), roles;
  for (const char* name : {"ONE", "TWO"}) {
    std::string text;
    for (uint64_t line = 0; line < 40; ++line) {
      const std::string words = "w" + SomeText(30, line) + "w\x92";
      play += (line == 0 ? "  " + std::string(name) + ". " : "    ") + words;
      play += "\r\n";
      text += words + " ";
    }
    while (text.find("  ") != std::string::npos) {
      text.replace(text.find("  "), 2, " ");
    }
    roles += "PLAY_" + std::string(name) + "\t" + text + "\n";
  }
  Write("leaf_roles.tsv", roles);
  const auto from_roles = LoadData(Settings());
  ASSERT_TRUE(from_roles) << from_roles.error().message;
  EXPECT_GT(from_roles->test_examples, 0u);
  for (const char* name : {"pg100.txt.gz", "pg100.txt", "100.txt"}) {
    // The text is the published form, so it comes before the roles.
    std::string(name).ends_with(".gz") ? WriteGz(name, play)
                                       : (void)Write(name, play);
    const auto from_text = LoadData(Settings());
    ASSERT_TRUE(from_text) << from_text.error().message;
    EXPECT_EQ(FindData(*FindDataSet("shakespeare"), dir_.string())->paths[0],
              (dir_ / name).string());
    EXPECT_EQ(TrainOf(*from_text), TrainOf(*from_roles));
    EXPECT_EQ(TestOf(*from_text), TestOf(*from_roles));
  }
}

TEST_F(ShakespeareTest, ForeignCharactersAreCounted) {
  Write("leaf_roles.tsv",
        "A\t" + SomeText(500, 1) + "\xE2\x80\x99_" + SomeText(600, 2) + "\n");
  const auto data = LoadData(Settings());
  ASSERT_TRUE(data);
  EXPECT_EQ(data->train_examples, 919u);  // of 1022: signs of three bytes
  ASSERT_EQ(data->notes.size(), 2u);
  EXPECT_EQ(data->notes[1],
            "shakespeare: 2 characters are not in the vocabulary and count as "
            "}");
  EXPECT_EQ(std::get<1>(TrainOf(*data)[440]).substr(58, 4),
            SomeText(500, 1).substr(498) + "}}");
}

// --- LEAF's JSON

Json Samples(const std::string& text, size_t first, size_t end) {
  Json data = {{"x", Json::array()}, {"y", Json::array()}};
  for (size_t i = first; i < end; ++i) {
    data["x"].push_back(text.substr(i, 80));
    data["y"].push_back(text.substr(i + 80, 1));
  }
  return data;
}

Json LeafFile(const std::vector<std::pair<std::string, Json>>& users) {
  Json file = {{"users", Json::array()},
               {"hierarchies", Json::array()},
               {"num_samples", Json::array()},
               {"user_data", Json::object()}};
  for (const auto& [name, data] : users) {
    file["users"].push_back(name);
    file["hierarchies"].push_back("a play");
    file["num_samples"].push_back(data["x"].size() + 79);  // as in LEAF's own
    file["user_data"][name] = data;
  }
  return file;
}

TEST_F(ShakespeareTest, JsonAsLeafLeavesIt) {
  const std::string a = SomeText(600, 1), b = SomeText(400, 2);
  std::vector<Window> train, test;
  AddWindows(a, 0, 400, 0, train);
  AddWindows(b, 0, 200, 1, train);
  AddWindows(a, 479, 520, 0, test);
  AddWindows(b, 279, 320, 0, test);
  const Json a_train = Samples(a, 0, 400), b_train = Samples(b, 0, 200);
  const Json a_test = Samples(a, 479, 520), b_test = Samples(b, 279, 320);
  const auto check = [&](const char* what) {
    const auto data = LoadData(Settings(.01));  // which is not applied
    ASSERT_TRUE(data) << data.error().message;
    EXPECT_EQ(TrainOf(*data), train) << what;
    EXPECT_EQ(TestOf(*data), test) << what;
    EXPECT_EQ(data->notes,
              std::vector<std::string>{
                  "shakespeare: 2 roles, 600 training and 82 test windows"});
  };
  const std::string label = "all_data_niid_2_keep_0_";
  Write(label + "train_9.json",
        LeafFile({{"A", a_train}, {"B", b_train}}).dump());
  Write(label + "test_9.json",
        LeafFile({{"A", a_test}, {"B", b_test}}).dump(1));
  check("two files");
  fs::remove(dir_ / (label + "train_9.json"));
  EXPECT_EQ(ErrorOf(Settings()),
            "shakespeare: no 100.txt in " + dir_.string() +
                ". To get it: fedmrn data get shakespeare --dir " +
                dir_.string());
  fs::remove(dir_ / (label + "test_9.json"));
  Write("train/1.json", LeafFile({{"A", a_train}}).dump());
  Write("train/2.json", LeafFile({{"B", b_train}}).dump());
  Write("train/2.txt", "not JSON");
  EXPECT_EQ(ErrorOf(Settings()),
            (dir_ / "test/*.json").string() +
                ": is not there. To get it: fedmrn data get shakespeare "
                "--dir " +
                dir_.string());
  Write("test/both.json", LeafFile({{"A", a_test}, {"B", b_test}}).dump());
  check("two folders");
  // A user in two files is the same client; order within a user is free.
  const Json rest = Samples(b, 50, 200);
  Write("train/2.json", LeafFile({{"B", Samples(b, 0, 50)}}).dump());
  Write("train/3.json",
        R"({"user_data": {"C": {"x": [], "y": []}, "B": {"y": )" +
            rest["y"].dump() + R"(, "raw": ["x", {"x": 1}], "x": )" +
            rest["x"].dump() + R"(}}, "users": ["B"]})");
  check("three files");
  Write("train/4.json", LeafFile({{"A", Samples(a, 0, 1)}}).dump());
  const auto again = LoadData(Settings());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->clients.back(), 0u);
  EXPECT_TRUE(again->notes[0].starts_with("shakespeare: 2 roles, 601 "));
  fs::remove(dir_ / "train/4.json");
  // Windows in any order, as of the role that LEAF cuts off.
  Json shuffled = Samples(b, 0, 200);
  train.resize(400);
  for (size_t i = 0; i < 200; ++i) {
    const size_t from = i * 77 % 200;
    shuffled["x"][i] = b.substr(from, 80);
    shuffled["y"][i] = b.substr(from + 80, 1);
    AddWindows(b, from, from + 1, 1, train);
  }
  Write("train/2.json", LeafFile({{"B", shuffled}}).dump());
  fs::remove(dir_ / "train/3.json");
  check("shuffled");
}

TEST_F(ShakespeareTest, JsonThatIsNotLeafs) {
  const std::string text = SomeText(200, 1);
  const Json good = LeafFile({{"A", Samples(text, 0, 100)}});
  Write("all_data_test.json", good.dump());
  const auto error_of = [&](const std::string& file) {
    const std::string path = Write("all_data_train.json", file);
    const std::string error = ErrorOf(Settings());
    EXPECT_TRUE(error.starts_with(path + ": ")) << error;
    return error.substr(std::min(error.size(), path.size() + 2));
  };
  const auto changed = [&](const char* pointer, const Json& value) {
    Json file = good;
    file[Json::json_pointer(pointer)] = value;
    return error_of(file.dump());
  };
  EXPECT_EQ(changed("/user_data/A/x/7", text.substr(0, 79)),
            "user A has a window of 79 characters, not 80");
  EXPECT_EQ(changed("/user_data/A/x/7", text.substr(0, 81)),
            "user A has a window of 81 characters, not 80");
  EXPECT_EQ(changed("/user_data/A/y/7", "ab"),
            "user A has 2 characters in \"y\" instead of the next one");
  EXPECT_EQ(changed("/user_data/A/y/7", ""),
            "user A has 0 characters in \"y\" instead of the next one");
  EXPECT_EQ(changed("/user_data/A/y/100", "a"),
            "user A has 100 windows in \"x\", but 101 characters in \"y\"");
  EXPECT_EQ(changed("/user_data/A/y", Json::array()),
            "user A has 100 windows in \"x\", but 0 characters in \"y\"");
  for (const Json& odd : {Json(7), Json(-7), Json(.5), Json(true), Json(),
                          Json::array(), Json::object()}) {
    EXPECT_EQ(changed("/user_data/A/x/7", odd),
              "user A has something in \"x\" that is no text");
  }
  EXPECT_EQ(changed("/users/1", "B"), "user B has no data");
  EXPECT_EQ(changed("/user_data/A", Samples(text, 0, 0)), "user A has no data");
  EXPECT_EQ(changed("/user_data/A", "x"), "user A has no data");
  EXPECT_EQ(changed("/users", Json::array()),
            "has no \"users\" as LEAF's files have");
  for (const char* file : {"{}", "[]", "7", "[[\"users\"]]"}) {
    EXPECT_EQ(error_of(file), "has no \"users\" as LEAF's files have");
  }
  EXPECT_EQ(error_of(std::string(100000, '[')), "is nested too deep");
  const std::string whole = good.dump();
  for (const size_t cut : {whole.size() - 1, whole.size() / 2, size_t{0}}) {
    EXPECT_EQ(error_of(whole.substr(0, cut)),
              "is not sound JSON: stopped at byte " + std::to_string(cut + 1));
  }
  EXPECT_EQ(error_of(whole + "}"), "is not sound JSON: stopped at byte " +
                                       std::to_string(whole.size() + 1));
  EXPECT_TRUE(
      error_of("{\"users\": [\"\xFF\"]}").starts_with("is not sound JSON"));
  Write("all_data_train.json", whole);
  EXPECT_EQ(ErrorOf(Settings()), "");
}

// --- damage

TEST_F(ShakespeareTest, DamagedTexts) {
  const std::string play = kBeforePlays + Titled("PLAY") +
                           "  ONE. a\n    b\n    " + SomeText(2000, 1) +
                           "\n  TWO. a\n";
  WriteGz("pg100.txt.gz", play);
  ASSERT_EQ(ErrorOf(Settings()), "");
  const std::string path = (dir_ / "pg100.txt.gz").string();
  Cut("pg100.txt.gz", 1);
  EXPECT_EQ(ErrorOf(Settings()), path + ": unexpected end of file");
  Cut("pg100.txt.gz", 300);
  EXPECT_EQ(ErrorOf(Settings()), path + ": unexpected end of file");
  WriteGz("pg100.txt.gz", play);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-6, std::ios::end).put('?').flush();  // of the checksum
  EXPECT_TRUE(ErrorOf(Settings()).starts_with(path + ": incorrect data check"))
      << ErrorOf(Settings());
  WriteGz("pg100.txt.gz", "<html>not found</html>");
  EXPECT_TRUE(ErrorOf(Settings()).starts_with(path + ": has no plays as"))
      << ErrorOf(Settings());
  EXPECT_TRUE(ErrorOf(Settings()).ends_with("/1994-01-100.zip"));
  WriteGz("pg100.txt.gz", std::string(34'000'000, ' '));
  EXPECT_EQ(ErrorOf(Settings()), path + ": is larger than any file of the set");
}

TEST_F(ShakespeareTest, DamagedRoles) {
  const std::string good = "A\t" + SomeText(1080, 1) + "\n";
  for (const std::string& bad : {std::string("A " + SomeText(1000, 2)),
                                 std::string("\ttext"), std::string()}) {
    const std::string path = Write("leaf_roles.tsv", good + bad + "\n" + good);
    EXPECT_EQ(ErrorOf(Settings()),
              path + ": line 2 is not a role, a tab and its text");
  }
  const std::string path = Write("leaf_roles.tsv", "");
  EXPECT_TRUE(ErrorOf(Settings()).starts_with(path + ": has too little text"));
  // A last line without its end is a line.
  Write("leaf_roles.tsv", good.substr(0, good.size() - 1));
  EXPECT_EQ(ErrorOf(Settings()), "");
}

}  // namespace
}  // namespace fedmrn::train
