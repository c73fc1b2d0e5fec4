#include "fedmrn/results/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>
#include <vector>

#include "fedmrn/base/files.h"
#include "gtest/gtest.h"

namespace fedmrn::results {
namespace {

// RFC 3720, appendix B.4, and the usual check value.
TEST(TensorBoard, Crc32cKnownValues) {
  EXPECT_EQ(Crc32c({}), 0u);
  EXPECT_EQ(Crc32c(AsBytes("123456789")), 0xe3069283u);
  EXPECT_EQ(Crc32c(Bytes(32, 0)), 0x8a9136aau);
  EXPECT_EQ(Crc32c(Bytes(32, 0xff)), 0x62a8ab43u);
}

struct Event {
  double wall_time = 0;
  uint64_t step = 0;
  std::string file_version;
  std::map<std::string, float> scalars;
};

// Enough of a protocol-buffer reader to read the events back.
class Message {
 public:
  explicit Message(ByteView bytes) : rest_(bytes) {}

  bool Next() {
    if (rest_.empty()) return false;
    const uint64_t key = Varint();
    field = static_cast<int>(key >> 3);
    switch (key & 7) {
      case 0:
        number = Varint();
        break;
      case 1:
        block = Take(8);
        break;
      case 2:
        block = Take(Varint());
        break;
      case 5:
        block = Take(4);
        break;
      default:
        ADD_FAILURE() << "wire kind " << (key & 7);
        return false;
    }
    return true;
  }

  int field = 0;
  uint64_t number = 0;
  ByteView block;

 private:
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t byte = Take(1)[0];
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  ByteView Take(size_t size) {
    FEDMRN_CHECK(size <= rest_.size());
    const ByteView taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  ByteView rest_;
};

Event ParseEvent(ByteView bytes) {
  Event event;
  for (Message message(bytes); message.Next();) {
    switch (message.field) {
      case 1:
        event.wall_time = LoadLe<double>(message.block.data());
        break;
      case 2:
        event.step = message.number;
        break;
      case 3:
        event.file_version = AsText(message.block);
        break;
      case 5:
        for (Message summary(message.block); summary.Next();) {
          EXPECT_EQ(summary.field, 1);
          std::string tag;
          for (Message value(summary.block); value.Next();) {
            if (value.field == 1) tag = AsText(value.block);
            if (value.field == 2) {
              event.scalars[tag] = LoadLe<float>(value.block.data());
            }
          }
        }
        break;
      default:
        ADD_FAILURE() << "field " << message.field;
    }
  }
  return event;
}

std::vector<Event> ParseRecords(ByteView bytes) {
  const auto unmasked = [](const uint8_t* at) {
    return std::rotl(LoadLe<uint32_t>(at) - 0xa282ead8u, 15);
  };
  std::vector<Event> events;
  while (!bytes.empty()) {
    FEDMRN_CHECK(bytes.size() >= 16);
    const uint64_t size = LoadLe<uint64_t>(bytes.data());
    EXPECT_EQ(unmasked(bytes.data() + 8), Crc32c(bytes.first(8)));
    FEDMRN_CHECK(size <= bytes.size() - 16);
    const ByteView event = bytes.subspan(12, size);
    EXPECT_EQ(unmasked(bytes.data() + 12 + size), Crc32c(event));
    events.push_back(ParseEvent(event));
    bytes = bytes.subspan(16 + size);
  }
  return events;
}

std::vector<RoundRow> EventRows() {
  std::vector<RoundRow> rows(2);
  rows[0] = {.round = 1,
             .uplink_bytes = 500'000,
             .uplink_bits_per_param = 1.0625,
             .dropped = 2,
             .train_s = 1.5,
             .wall_s = 2.25};
  rows[1] = {.round = 300,
             .score = 0.75,
             .loss = 0.5,
             .uplink_bytes = 250'000,
             .uplink_bits_per_param = 1.0625,
             .train_s = 1.25,
             .wall_s = 2,
             .train_loss = 0.25,
             .train_score = 0.875,
             .client_score_worst = 0.5};
  return rows;
}

TEST(TensorBoard, EventsReadBack) {
  const std::vector<Event> events =
      ParseRecords(TensorBoardEvents(EventRows(), 1'700'000'000));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1'700'000'000);
  EXPECT_EQ(events[1].step, 1u);
  EXPECT_EQ(events[1].wall_time, 1'700'000'002.25);
  // What was not evaluated is not there.
  EXPECT_EQ(events[1].scalars,
            (std::map<std::string, float>{{"uplink_megabytes", 0.5f},
                                          {"uplink_bits_per_param", 1.0625f},
                                          {"train_seconds", 1.5f},
                                          {"dropped", 2}}));
  EXPECT_EQ(events[2].step, 300u);
  EXPECT_EQ(events[2].wall_time, 1'700'000'004.25);
  EXPECT_EQ(events[2].scalars,
            (std::map<std::string, float>{{"accuracy", 0.75f},
                                          {"loss", 0.5f},
                                          {"uplink_megabytes", 0.75f},
                                          {"uplink_bits_per_param", 1.0625f},
                                          {"train_seconds", 1.25f},
                                          {"dropped", 0},
                                          {"train_loss", 0.25f},
                                          {"train_accuracy", 0.875f},
                                          {"client_accuracy_worst", 0.5f}}));
}

TEST(TensorBoard, MoreRowsOnlyAppend) {
  const std::vector<RoundRow> rows = EventRows();
  const Bytes less = TensorBoardEvents(std::span(rows).first(1), 7);
  const Bytes more = TensorBoardEvents(rows, 7);
  ASSERT_LT(less.size(), more.size());
  EXPECT_TRUE(std::equal(less.begin(), less.end(), more.begin()));
}

// A run that goes on has its rows from a checkpoint, in milliseconds.
TEST(TensorBoard, ResumedRunsHaveTheSameEvents) {
  std::vector<RoundRow> rows = EventRows();
  for (RoundRow& row : rows) {
    row.wall_s += 0.1234567;
    row.train_s += 0.0076543;
  }
  const Result<std::vector<RoundRow>> saved = ParseRoundsCsv(RoundsCsv(rows));
  ASSERT_TRUE(saved);
  ASSERT_NE(saved->front().wall_s, rows.front().wall_s);
  EXPECT_EQ(TensorBoardEvents(*saved, 7), TensorBoardEvents(rows, 7));
}

TEST(TensorBoard, OneFileForAWholeRun) {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::path(testing::TempDir()) / ("tb" + std::to_string(getpid()));
  const std::vector<RoundRow> rows = EventRows();
  const std::string tb = folder / "new" / "tb";
  const std::string path = tb + "/events.out.tfevents.7.fedmrn";
  const auto is_of = [&](std::span<const RoundRow> some) {
    return *ReadFile(path) == TensorBoardEvents(some, 7);
  };
  EventFile file(tb, 7);
  for (size_t count = 0; count <= rows.size(); ++count) {
    const auto some = std::span(rows).first(count);
    for (int twice = 0; twice < 2; ++twice) {
      ASSERT_TRUE(file.Write(some));
      EXPECT_TRUE(is_of(some)) << count;
    }
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(tb), {}), 1);
  // The next process, and a file that somebody cut or removed.
  ASSERT_TRUE(EventFile(tb, 7).Write(rows));
  EXPECT_TRUE(is_of(rows));
  fs::resize_file(path, 20);
  ASSERT_TRUE(file.Write(rows));
  EXPECT_TRUE(is_of(rows));
  fs::remove_all(tb);
  ASSERT_TRUE(file.Write(rows));
  EXPECT_TRUE(is_of(rows));

  const Status failed = EventFile(path, 7).Write(rows);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("tfevents.7.fedmrn: cannot create it"),
            std::string::npos);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace fedmrn::results
