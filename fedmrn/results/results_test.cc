#include "fedmrn/results/results.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "gtest/gtest.h"

namespace fedmrn::results {
namespace {

using Json = nlohmann::json;

constexpr char kHeader[] =
    "round,accuracy,loss,uplink_bytes,payload_bytes,dense_bytes,downlink_bytes,"
    "uplink_bits_per_param,"
    "clients,dropped,train_s,encode_s,aggregate_s,eval_s,wall_s\n";

std::vector<RoundRow> Rows() {
  std::vector<RoundRow> rows(4);
  for (uint32_t i = 0; i < rows.size(); ++i) {
    rows[i] = {.round = i + 1,
               .uplink_bytes = 1'000'000'000'000u + i,
               .payload_bytes = 700 + i,
               .plain_bytes = 200,
               .downlink_bytes = 2,
               .uplink_bits_per_param = 1.0768,
               .clients = 9,
               .dropped = 1,
               .train_s = 1.25,
               .encode_s = 0.0004,
               .aggregate_s = 0.125,
               .eval_s = 2,
               .wall_s = 3.5};
  }
  rows[1].score = 0.1;
  rows[1].loss = 2.302585092994046;
  rows[2].score = 0.8861;
  rows[2].loss = 1.0 / 3;
  return rows;
}

TEST(RoundsCsv, Format) {
  const std::vector<RoundRow> rows = Rows();
  EXPECT_EQ(RoundsCsv({}), kHeader);
  EXPECT_EQ(
      RoundsCsv(std::span(rows).first(2)),
      kHeader + std::string("1,,,1000000000000,700,200,2,1.0768,"
                            "9,1,"
                            "1.250,0.000,0.125,2.000,3.500\n"
                            "2,0.1,2.302585092994046,1000000000001,701,200,2,"
                            "1.0768,9,1,"
                            "1.250,0.000,0.125,2.000,3.500\n"));
}

TEST(RoundsCsv, ReadsBack) {
  std::vector<RoundRow> rows = Rows();
  rows[3].score = 0.1;
  rows[3].loss = std::numeric_limits<double>::infinity();
  const Result<std::vector<RoundRow>> read = ParseRoundsCsv(RoundsCsv(rows));
  ASSERT_TRUE(read) << read.error().ToString();
  ASSERT_EQ(read->size(), rows.size());
  EXPECT_TRUE(std::isnan((*read)[0].score));
  EXPECT_TRUE(std::isnan((*read)[0].loss));
  EXPECT_EQ((*read)[2].score, rows[2].score);
  EXPECT_EQ((*read)[2].loss, rows[2].loss);
  EXPECT_EQ((*read)[2].uplink_bytes, rows[2].uplink_bytes);
  EXPECT_EQ((*read)[2].dropped, 1u);
  EXPECT_EQ((*read)[2].wall_s, 3.5);
  EXPECT_EQ((*read)[3].loss, rows[3].loss);
  EXPECT_EQ(RoundsCsv(*read), RoundsCsv(rows));
}

// Others keep the columns they always had.
TEST(RoundsCsv, SegmentationsHaveAColumnMore) {
  std::vector<RoundRow> rows = Rows();
  rows[2].mean_iou = 0.125;
  const std::string csv = RoundsCsv(rows);
  EXPECT_TRUE(csv.starts_with(std::string(kHeader, sizeof(kHeader) - 2) +
                              ",mean_iou\n1,,,"));
  EXPECT_NE(csv.find("3.500,\n3,0.8861,"), csv.npos);
  EXPECT_NE(csv.find("3.500,0.125\n4,"), csv.npos);
  const Result<std::vector<RoundRow>> read = ParseRoundsCsv(csv);
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ((*read)[2].mean_iou, 0.125);
  EXPECT_TRUE(std::isnan((*read)[1].mean_iou));
  const Json run = Json::parse(RunJson({}, {.metric = "pixel accuracy"}, rows));
  EXPECT_EQ(run["metric"], "pixel accuracy");
  EXPECT_EQ(run["best"]["mean_iou"], 0.125);
}

TEST(RoundsCsv, ColumnsOfWhatWasMeasured) {
  std::vector<RoundRow> rows = Rows();
  rows[0].train_loss = 2.25;
  rows[0].train_score = 0.125;
  rows[2].mean_iou = 0.5;
  const std::string header(kHeader, sizeof(kHeader) - 2);
  const std::string csv = RoundsCsv(rows);
  EXPECT_TRUE(
      csv.starts_with(header + ",mean_iou,train_loss,train_accuracy\n1,,,"));
  EXPECT_NE(csv.find("3.500,,2.25,0.125\n2,"), csv.npos);
  EXPECT_NE(csv.find("3.500,0.5,,\n4,"), csv.npos);
  const Result<std::vector<RoundRow>> read = ParseRoundsCsv(csv);
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ((*read)[0].train_loss, 2.25);
  EXPECT_EQ((*read)[0].train_score, 0.125);
  EXPECT_TRUE(std::isnan((*read)[1].train_loss));
  EXPECT_EQ(RoundsCsv(*read), csv);
  rows[2].mean_iou = std::nan("");
  EXPECT_TRUE(
      RoundsCsv(rows).starts_with(header + ",train_loss,train_accuracy\n1,,,"));
  EXPECT_FALSE(ParseRoundsCsv(header + ",train_accuracy,train_loss\n"));
  EXPECT_FALSE(ParseRoundsCsv(header + ",train_speed\n"));
}

TEST(RoundsCsv, SteeredMagnitudesHaveTwoColumnsMore) {
  std::vector<RoundRow> rows = Rows();
  for (RoundRow& row : rows) {
    row.magnitude = 0.0625 * row.round;
    row.share_of_ones = 0.125;
  }
  const std::string csv = RoundsCsv(rows);
  EXPECT_TRUE(csv.starts_with(std::string(kHeader, sizeof(kHeader) - 2) +
                              ",magnitude,share_of_ones\n1,,,"));
  const Result<std::vector<RoundRow>> read = ParseRoundsCsv(csv);
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ((*read)[1].magnitude, 0.125);
  EXPECT_EQ((*read)[1].share_of_ones, 0.125);
  EXPECT_TRUE(std::isnan((*read)[1].mean_iou));
}

// Whatever the calls before: rows, a column that is new, or none.
TEST(RoundsCsv, GrowsToTheSameText) {
  std::vector<RoundRow> rows = Rows();
  rows[2].mean_iou = 0.5;
  GrowingCsv growing;
  for (const size_t count : {0u, 1u, 1u, 2u, 3u, 4u, 4u, 2u, 4u, 0u}) {
    ASSERT_LE(count, rows.size());
    const auto some = std::span(rows).first(count);
    EXPECT_EQ(growing.Of(some), RoundsCsv(some)) << count;
  }
}

// A file that was cut anywhere but between two lines is refused, by its line.
TEST(RoundsCsv, RefusesEveryHalfWrittenFile) {
  const std::string whole = RoundsCsv(Rows());
  size_t line = 1;
  for (size_t size = 0; size < whole.size(); ++size) {
    const Result<std::vector<RoundRow>> read =
        ParseRoundsCsv(std::string_view(whole).substr(0, size));
    if (size > 0 && whole[size - 1] == '\n') {
      EXPECT_TRUE(read) << read.error().ToString();
      ++line;
      continue;
    }
    ASSERT_FALSE(read) << size;
    EXPECT_EQ(read.error().code, ErrorCode::kTruncated);
    EXPECT_EQ(read.error().ToString(), "line " + std::to_string(line) +
                                           ": is cut off: the file ends in it");
  }
}

TEST(RoundsCsv, ErrorsNameTheLine) {
  const auto message = [](const std::string& rows) {
    const Result<std::vector<RoundRow>> read = ParseRoundsCsv(rows);
    return read ? "none" : read.error().ToString();
  };
  const std::string header = kHeader;
  const std::string good = "1,,,1,1,0,2,1.0,9,1,0.1,0.1,0.1,0.1,0.1\n";
  EXPECT_EQ(message(header + good), "none");
  EXPECT_EQ(message("round,accuracy\n" + good),
            "line 1: should be " + header.substr(0, header.size() - 1));
  EXPECT_EQ(message(header + good + "2,,,1\n"),
            "line 3: has fewer than 15 fields");
  EXPECT_EQ(message(header + "\n"), "line 2: has fewer than 15 fields");
  EXPECT_EQ(message(header + "1,,,1,1,0,2,1.0,9,1,0.1,0.1,0.1,0.1,0.1,7\n"),
            "line 2: has more than 15 fields");
  EXPECT_EQ(message(header + "1,,x,1,1,0,2,1.0,9,1,0.1,0.1,0.1,0.1,0.1\n"),
            "line 2: loss is 'x', not a number of its kind");
  EXPECT_EQ(message(header + "1,,,-1,1,0,2,1.0,9,1,0.1,0.1,0.1,0.1,0.1\n"),
            "line 2: uplink_bytes is '-1', not a number of its kind");
  EXPECT_EQ(message(header + ",,,1,1,0,2,1.0,9,1,0.1,0.1,0.1,0.1,0.1\n"),
            "line 2: round is '', not a number of its kind");
  EXPECT_EQ(message(header + good + good), "line 3: round 1 after round 1");
}

TEST(RunJson, TellsTheRun) {
  const std::vector<std::pair<std::string, std::string>> config = {
      {"seed", "18446744073709551615"},
      {"data.dir", R"("a \"quoted\" \\ folder")"},
      {"partition.clients", "100"},
      {"method.stochastic", "true"},
      {"train.lr", "0.1"},
      {"train.momentum", "1e-05"}};
  RunInfo info{.version = "1.2.3",
               .simd_target = "AVX2",
               .mixed = true,
               .started = 1'700'000'000,
               .coded_params = 389'920,
               .plain_values = 1'920,
               .model_sha256 = "abc"};
  Json run = Json::parse(RunJson(config, info, Rows()));
  EXPECT_EQ(run["fedmrn_version"], "1.2.3");
  EXPECT_EQ(run["started"], "2023-11-14T22:13:20Z");
  EXPECT_TRUE(run["ended"].is_null());
  EXPECT_EQ(run["finished"], false);
  EXPECT_TRUE(run["ended_by"].is_null());
  EXPECT_EQ(run["rounds_done"], 4);
  EXPECT_EQ(run["best"], Json({{"round", 3}, {"accuracy", 0.8861}}));
  EXPECT_EQ(run["last"],
            Json({{"round", 3}, {"accuracy", 0.8861}, {"loss", 1.0 / 3}}));
  EXPECT_EQ(run["totals"], Json({{"uplink_bytes", 4'000'000'000'006},
                                 {"payload_bytes", 2'806},
                                 {"dense_bytes", 800},
                                 {"downlink_bytes", 8},
                                 {"clients", 36},
                                 {"dropped", 4},
                                 {"train_s", 5.0},
                                 {"encode_s", 0.0016},
                                 {"aggregate_s", 0.5},
                                 {"eval_s", 8.0},
                                 {"wall_s", 14.0}}));
  EXPECT_EQ(run["masked_params"], 389'920);
  EXPECT_EQ(run["dense_values"], 1'920);
  EXPECT_EQ(run["model_sha256"], "abc");
  EXPECT_EQ(run["config"]["seed"], 18446744073709551615u);
  EXPECT_EQ(run["config"]["data"]["dir"], R"(a "quoted" \ folder)");
  EXPECT_EQ(run["config"]["train"]["lr"], 0.1);
  EXPECT_EQ(run["config"]["train"]["momentum"], 1e-5);
  EXPECT_EQ(run["config"]["method"]["stochastic"], true);
  EXPECT_EQ(run["config"]["partition"]["clients"], 100);
  EXPECT_EQ(run["machine"]["simd"], "AVX2");
  EXPECT_EQ(run["machine"]["mixed"], true);
  EXPECT_GT(run["machine"]["cores"], 0);
  EXPECT_GT(run["machine"]["memory_bytes"], 1 << 20);

  info.ended = 1'700'000'060;
  info.ended_by = "rounds.patience";
  run = Json::parse(RunJson(config, info, Rows()));
  EXPECT_EQ(run["ended"], "2023-11-14T22:14:20Z");
  EXPECT_EQ(run["finished"], true);
  EXPECT_EQ(run["ended_by"], "rounds.patience");
}

TEST(RunJson, TellsTheClasses) {
  std::vector<RoundRow> rows = Rows();
  rows[3].score = 0.5;
  RunInfo info;
  info.confusions = {{3, {4, 1, 0, 0}}, {4, {2, 2, 0, 4}}};
  const std::string text = RunJson({}, info, rows);
  const Json run = Json::parse(text);
  EXPECT_EQ(run["best"]["confusion"], Json({{4, 1}, {0, 0}}));
  EXPECT_EQ(run["best"]["class_accuracy"], Json({0.8, nullptr}));
  EXPECT_EQ(run["last"]["class_accuracy"], Json({0.5, 1.0}));
  EXPECT_EQ(run["last"]["macro_f1"], (2.0 * 2 / 6 + 2.0 * 4 / 10) / 2);
  EXPECT_NE(text.find("\"class_accuracy\": [0.5, 1.0]"), text.npos);
  // Those of other rounds than the rows tell of are left out.
  info.confusions.best.round = 2;
  EXPECT_FALSE(
      Json::parse(RunJson({}, info, rows))["best"].contains("confusion"));
}

TEST(RunJson, WhatIsNoNumberIsNull) {
  const Json empty = Json::parse(RunJson({}, {}, {}));
  EXPECT_EQ(empty["rounds_done"], 0);
  EXPECT_TRUE(empty["best"].is_null());
  EXPECT_TRUE(empty["last"].is_null());

  // Diverged, and then not evaluated.
  std::vector<RoundRow> rows(2);
  rows[0].score = 0.1;
  rows[0].train_s = std::numeric_limits<double>::infinity();
  rows[1].wall_s = std::nan("");
  const std::string text = RunJson({}, {}, rows);
  EXPECT_EQ(text.find("nan"), text.npos);
  const Json run = Json::parse(text);
  EXPECT_EQ(run["last"]["accuracy"], 0.1);
  EXPECT_TRUE(run["last"]["loss"].is_null());
  EXPECT_TRUE(run["totals"]["train_s"].is_null());
  EXPECT_TRUE(run["totals"]["wall_s"].is_null());
}

TEST(RunJson, TellsItsFacts) {
  RunInfo info;
  info.metric = "R2";
  const std::string running = RunJson({}, info, {});
  info.ended = 1;
  const std::string finished = RunJson({}, info, {});
  info.mixed = true;
  EXPECT_TRUE(ParseRunJson(RunJson({}, info, {}))->mixed);
  ASSERT_TRUE(ParseRunJson(running).ok());
  EXPECT_FALSE(ParseRunJson(running)->mixed);
  EXPECT_FALSE(ParseRunJson(running)->finished);
  ASSERT_TRUE(ParseRunJson(finished).ok());
  EXPECT_TRUE(ParseRunJson(finished)->finished);
  EXPECT_EQ(ParseRunJson(finished)->metric, "R2");
  // Runs of earlier versions knew no other.
  EXPECT_EQ(ParseRunJson("{\"finished\": true}")->metric, "accuracy");
  for (size_t size = 0; size + 2 < finished.size(); ++size) {
    EXPECT_FALSE(ParseRunJson(finished.substr(0, size)).ok()) << size;
  }
  for (const char* other : {"[]", "{}", "{\"finished\": 1}", "null"}) {
    EXPECT_FALSE(ParseRunJson(other).ok()) << other;
  }
}

}  // namespace
}  // namespace fedmrn::results
