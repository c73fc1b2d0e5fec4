// Any bytes as a checkpoint, or as the sections of one whose hash is right.
// What can be read is the same again after it was written.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fedmrn/base/check.h"
#include "fedmrn/base/files.h"
#include "fedmrn/base/sha256.h"
#include "fedmrn/client/states.h"
#include "fedmrn/results/checkpoint.h"
#include "fuzz/input.h"

namespace fedmrn {
namespace {

constexpr size_t kHashDigits = 64;

void TryCheckpoint(ByteView bytes) {
  const Result<results::Checkpoint> checkpoint =
      results::DecodeCheckpoint(bytes);
  if (!checkpoint) {
    FEDMRN_CHECK(!checkpoint.error().message.empty());
    return;
  }
  const Bytes written = results::EncodeCheckpoint(*checkpoint);
  const Result<results::Checkpoint> again = results::DecodeCheckpoint(written);
  FEDMRN_CHECK(again.ok());
  FEDMRN_CHECK(results::EncodeCheckpoint(*again) == written);
  client::States states("");
  if (states.Restore(checkpoint->client_states)) {
    client::States same("");
    FEDMRN_CHECK(same.Restore(states.List()).ok());
    FEDMRN_CHECK(same.List() == states.List());
  }
}

void AppendHash(Bytes& bytes) {
  const std::string hash = Sha256Hex(bytes);
  bytes.insert(bytes.end(), hash.begin(), hash.end());
}

}  // namespace
}  // namespace fedmrn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fedmrn;
  FuzzInput input(data, size, 2);
  if (input.kind() == 0) {
    Bytes bytes(input.rest().begin(), input.rest().end());
    TryCheckpoint(bytes);
    if (bytes.size() >= kHashDigits) {
      bytes.resize(bytes.size() - kHashDigits);
      AppendHash(bytes);
      TryCheckpoint(bytes);
    }
    return 0;
  }
  // As checkpoint.cc has them.
  constexpr std::string_view kMagic = "FedMRN checkpoint 4\n";
  Bytes bytes(kMagic.begin(), kMagic.end());
  AppendLe(uint64_t{1}, bytes);
  for (int section = 0; section < 8; ++section) {
    const ByteView piece = input.Piece();
    AppendLe(uint64_t{piece.size()}, bytes);
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  AppendHash(bytes);
  TryCheckpoint(bytes);
  return 0;
}
