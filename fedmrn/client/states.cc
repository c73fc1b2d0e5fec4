#include "fedmrn/client/states.h"

#include <charconv>
#include <filesystem>
#include <optional>
#include <set>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/files.h"
#include "fedmrn/base/sha256.h"

namespace fedmrn::client {
namespace {

constexpr size_t kHashDigits = 64;

}  // namespace

std::string States::Path(uint32_t client, uint32_t round) const {
  return folder_ + "/" + std::to_string(client) + "-" + std::to_string(round) +
         ".state";
}

Result<std::vector<float>> States::Load(uint32_t client) const {
  uint32_t round = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = valid_.find(client);
    if (found == valid_.end()) return std::vector<float>();
    if (folder_.empty()) return valid_states_.at(client);
    round = found->second;
  }
  return Read(client, round);
}

Result<std::vector<float>> States::LoadKept(uint32_t client) const {
  std::optional<uint32_t> round;
  {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(client);
    if (found != kept_.end()) {
      if (folder_.empty()) return kept_states_.at(client);
      round = found->second;
    }
  }
  return round ? Read(client, *round) : Load(client);
}

Result<std::vector<float>> States::Read(uint32_t client, uint32_t round) const {
  const std::string path = Path(client, round);
  const Result<Bytes> bytes = ReadFile(path);
  if (!bytes) return Error{ErrorCode::kFailed, bytes.error().message};
  const size_t size = bytes->size() - std::min(bytes->size(), kHashDigits);
  const ByteView values = ByteView(*bytes).first(size);
  if (size % sizeof(float) != 0 ||
      Sha256Hex(values) != AsText(ByteView(*bytes).subspan(size))) {
    return Error{ErrorCode::kFailed,
                 path + " is damaged (its SHA-256 differs)"};
  }
  std::vector<float> state(size / sizeof(float));
  std::memcpy(state.data(), values.data(), size);
  return state;
}

Status States::Write(uint32_t client, uint32_t round,
                     std::span<const float> state) const {
  Bytes bytes;
  AppendLe(state, bytes);
  const std::string hash = Sha256Hex(bytes);
  bytes.insert(bytes.end(), hash.begin(), hash.end());
  // Not its parents: if they are gone, the run's results are.
  std::error_code error;
  std::filesystem::create_directory(folder_, error);
  if (error) {
    return Error{ErrorCode::kFailed,
                 folder_ + ": cannot create it: " + error.message()};
  }
  const Status written = WriteFileAtomically(Path(client, round), bytes);
  if (!written) return Error{ErrorCode::kFailed, written.error().message};
  return Ok();
}

Status States::Keep(uint32_t client, uint32_t round, std::vector<float> state) {
  if (state.empty()) return Ok();
  if (!folder_.empty()) FEDMRN_TRY(Write(client, round, state));
  const std::lock_guard lock(mutex_);
  kept_[client] = round;
  if (folder_.empty()) kept_states_[client] = std::move(state);
  return Ok();
}

void States::Commit(uint32_t round, std::span<const uint32_t> clients) {
  const std::lock_guard lock(mutex_);
  for (const uint32_t client : clients) {
    const auto found = kept_.find(client);
    if (found == kept_.end() || found->second != round) continue;
    valid_[client] = round;
    if (folder_.empty()) {
      valid_states_[client] = std::move(kept_states_[client]);
    }
  }
  kept_.clear();
  kept_states_.clear();
}

std::string States::List() const {
  std::string list;
  for (const auto& [client, round] : valid_) {
    list += std::to_string(client) + "-" + std::to_string(round) + "\n";
  }
  return list;
}

Status States::Restore(std::string_view list) {
  valid_.clear();
  kept_.clear();
  while (!list.empty()) {
    uint32_t client = 0, round = 0;
    const char* const end = list.data() + list.size();
    const auto first = std::from_chars(list.data(), end, client);
    const bool dash = first.ptr != end && *first.ptr == '-';
    const auto second = std::from_chars(dash ? first.ptr + 1 : end, end, round);
    if (first.ec != std::errc() || second.ec != std::errc() ||
        second.ptr == end || *second.ptr != '\n') {
      return Error{ErrorCode::kBadFormat, "the list of client states is bad"};
    }
    valid_[client] = round;
    list.remove_prefix(static_cast<size_t>(second.ptr + 1 - list.data()));
  }
  before_ = valid_;
  return Ok();
}

void States::RemoveOld() {
  if (folder_.empty() || valid_.empty()) return;
  std::set<std::string> kept;
  for (const auto* list : {&valid_, &before_}) {
    for (const auto& [client, round] : *list) kept.insert(Path(client, round));
  }
  before_ = valid_;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_, error)) {
    if (!kept.contains(entry.path().string())) {
      std::filesystem::remove(entry.path(), error);
    }
  }
}

void States::RemoveAll() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace fedmrn::client
