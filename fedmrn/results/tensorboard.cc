#include "fedmrn/results/tensorboard.h"

#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "fedmrn/base/files.h"

namespace fedmrn::results {
namespace {

constexpr auto kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    }
    table[i] = crc;
  }
  return table;
}();

// Protocol buffers: a field is its number and kind in one byte (all numbers
// here are below 16), then its value.
enum WireKind : uint8_t { kVarint = 0, kFixed64 = 1, kBlock = 2, kFixed32 = 5 };

void PutKey(int field, WireKind kind, Bytes& to) {
  to.push_back(static_cast<uint8_t>(field << 3 | kind));
}

void PutVarint(uint64_t value, Bytes& to) {
  for (; value >= 0x80; value >>= 7) {
    to.push_back(static_cast<uint8_t>(value | 0x80));
  }
  to.push_back(static_cast<uint8_t>(value));
}

void PutBlock(int field, ByteView block, Bytes& to) {
  PutKey(field, kBlock, to);
  PutVarint(block.size(), to);
  to.insert(to.end(), block.begin(), block.end());
}

// tensorflow/core/util/event.proto
Bytes Event(double wall_time) {
  Bytes event;
  PutKey(1, kFixed64, event);
  AppendLe(wall_time, event);
  return event;
}

// tensorflow/core/framework/summary.proto: Summary.Value
void PutScalar(std::string_view tag, double scalar, Bytes& summary) {
  if (std::isnan(scalar)) return;  // not evaluated in this round
  Bytes value;
  PutBlock(1, AsBytes(tag), value);
  PutKey(2, kFixed32, value);
  AppendLe(static_cast<float>(scalar), value);
  PutBlock(1, value, summary);
}

// tensorflow/core/lib/io/record_writer.cc; checksums are masked because a CRC
// over bytes that hold their own CRC is weak.
uint32_t MaskedCrc(ByteView bytes) {
  return std::rotr(Crc32c(bytes), 15) + 0xa282ead8u;
}

void PutRecord(ByteView event, Bytes& to) {
  Bytes length;
  AppendLe<uint64_t>(event.size(), length);
  to.insert(to.end(), length.begin(), length.end());
  AppendLe(MaskedCrc(length), to);
  to.insert(to.end(), event.begin(), event.end());
  AppendLe(MaskedCrc(event), to);
}

Bytes FirstEvent(int64_t start_time) {
  Bytes version = Event(static_cast<double>(start_time)), events;
  PutBlock(3, AsBytes("brain.Event:2"), version);
  PutRecord(version, events);
  return events;
}

// As rounds.csv and checkpoints have them, so that a run that goes on from one
// writes the same events.
double Milliseconds(double seconds) {
  return std::round(1000 * seconds) / 1000;
}

// `wall_time` and `uplink_bytes` are those before the rows, and then after.
void AppendEvents(std::span<const RoundRow> rows, double& wall_time,
                  uint64_t& uplink_bytes, Bytes& events) {
  for (const RoundRow& row : rows) {
    wall_time += Milliseconds(row.wall_s);
    uplink_bytes += row.uplink_bytes;
    Bytes summary;
    PutScalar("accuracy", row.score, summary);
    PutScalar("mean_iou", row.mean_iou, summary);
    PutScalar("loss", row.loss, summary);
    PutScalar("uplink_megabytes", static_cast<double>(uplink_bytes) / 1e6,
              summary);
    PutScalar("uplink_bits_per_param", row.uplink_bits_per_param, summary);
    PutScalar("magnitude", row.magnitude, summary);
    PutScalar("share_of_ones", row.share_of_ones, summary);
    PutScalar("train_seconds", Milliseconds(row.train_s), summary);
    PutScalar("dropped", row.dropped, summary);
    PutScalar("train_loss", row.train_loss, summary);
    PutScalar("train_accuracy", row.train_score, summary);
    PutScalar("client_accuracy", row.client_score, summary);
    PutScalar("client_accuracy_p10", row.client_score_p10, summary);
    PutScalar("client_accuracy_worst", row.client_score_worst, summary);
    PutScalar("personal_accuracy", row.personal_score, summary);
    PutScalar("personal_accuracy_p10", row.personal_score_p10, summary);
    PutScalar("personal_accuracy_worst", row.personal_score_worst, summary);
    Bytes event = Event(wall_time);
    PutKey(2, kVarint, event);
    PutVarint(row.round, event);
    PutBlock(5, summary, event);
    PutRecord(event, events);
  }
}

}  // namespace

uint32_t Crc32c(ByteView bytes) {
  uint32_t crc = ~0u;
  for (uint8_t byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ byte) & 0xff];
  return ~crc;
}

Bytes TensorBoardEvents(std::span<const RoundRow> rows, int64_t start_time) {
  Bytes events = FirstEvent(start_time);
  auto wall_time = static_cast<double>(start_time);
  uint64_t uplink_bytes = 0;
  AppendEvents(rows, wall_time, uplink_bytes, events);
  return events;
}

EventFile::EventFile(std::string folder, int64_t start_time)
    : folder_(std::move(folder)),
      path_(folder_ + "/events.out.tfevents." + std::to_string(start_time) +
            ".fedmrn"),
      start_time_(start_time) {}

Status EventFile::Write(std::span<const RoundRow> rows) {
  bool appended = false;
  if (length_ > 0) {
    Bytes more;
    AppendEvents(rows.subspan(rows_), wall_time_, uplink_bytes_, more);
    appended = FEDMRN_TRY(AppendToFile(path_, length_, more));
    length_ += more.size();
  }
  if (!appended) {  // the first time, or somebody changed it
    FEDMRN_TRY(MakeFolder(folder_));
    Bytes all = FirstEvent(start_time_);
    wall_time_ = static_cast<double>(start_time_);
    uplink_bytes_ = 0;
    AppendEvents(rows, wall_time_, uplink_bytes_, all);
    FEDMRN_TRY(GrowFile(path_, all));
    length_ = all.size();
  }
  rows_ = rows.size();
  return Ok();
}

}  // namespace fedmrn::results
