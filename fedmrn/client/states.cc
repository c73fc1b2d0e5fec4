#include "fedmrn/client/states.h"

#include <charconv>
#include <filesystem>
#include <set>

#include "fedmrn/base/bytes.h"
#include "fedmrn/base/files.h"
#include "fedmrn/base/sha256.h"

namespace fedmrn::client {
namespace {

constexpr size_t kHashDigits = 64;

}  // namespace

std::string ClientStates::Path(uint32_t client, uint32_t round) const {
  return folder_ + "/" + std::to_string(client) + "-" + std::to_string(round) +
         ".state";
}

Result<std::vector<float>> ClientStates::Load(uint32_t client) const {
  std::string path;
  {
    const std::lock_guard lock(mutex_);
    const auto found = current_.find(client);
    if (found == current_.end()) return std::vector<float>();
    if (folder_.empty()) return in_memory_.at(client);
    path = Path(client, found->second);
  }
  const Result<Bytes> bytes = ReadFile(path);
  if (!bytes) return bytes.error();
  const size_t size = bytes->size() - std::min(bytes->size(), kHashDigits);
  const ByteView values = ByteView(*bytes).first(size);
  if (size % sizeof(float) != 0 ||
      Sha256Hex(values) != AsText(ByteView(*bytes).subspan(size))) {
    return Error{ErrorCode::kBadFormat,
                 path + " is damaged (its SHA-256 differs)"};
  }
  std::vector<float> state(size / sizeof(float));
  std::memcpy(state.data(), values.data(), size);
  return state;
}

Status ClientStates::Save(uint32_t client, uint32_t round,
                          const std::vector<float>& state) {
  if (state.empty()) return Ok();
  if (!folder_.empty()) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) {
      return Error{ErrorCode::kUnavailable, folder_ + ": " + error.message()};
    }
    Bytes bytes;
    AppendLe(std::span<const float>(state), bytes);
    const std::string hash = Sha256Hex(bytes);
    bytes.insert(bytes.end(), hash.begin(), hash.end());
    const Status written = WriteFileAtomically(Path(client, round), bytes);
    if (!written) return written;
  }
  const std::lock_guard lock(mutex_);
  current_[client] = round;
  if (folder_.empty()) in_memory_[client] = state;
  return Ok();
}

std::string ClientStates::List() const {
  std::string list;
  for (const auto& [client, round] : current_) {
    list += std::to_string(client) + "-" + std::to_string(round) + "\n";
  }
  return list;
}

Status ClientStates::Restore(std::string_view list) {
  current_.clear();
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
    current_[client] = round;
    list.remove_prefix(static_cast<size_t>(second.ptr + 1 - list.data()));
  }
  before_ = current_;
  return Ok();
}

void ClientStates::RemoveOld() {
  if (folder_.empty() || current_.empty()) return;
  std::set<std::string> kept;
  for (const auto* list : {&current_, &before_}) {
    for (const auto& [client, round] : *list) kept.insert(Path(client, round));
  }
  before_ = current_;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_, error)) {
    if (!kept.contains(entry.path().string())) {
      std::filesystem::remove(entry.path(), error);
    }
  }
}

void ClientStates::RemoveAll() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace fedmrn::client
