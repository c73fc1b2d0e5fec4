// Any bytes at all, given to the parser and, where they parse, to everything
// that a server does with a frame.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/core/aggregate.h"
#include "fedmrn/core/frame.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fedmrn {
namespace {

// A few bytes of topk may stand for 2^32 parameters.
constexpr uint64_t kMaxDecodedParams = uint64_t{1} << 20;

void Aggregate(ByteView bytes, const FrameView& frame) {
  RoundSpec spec;
  spec.round = frame.round;
  spec.fingerprint = frame.fingerprint;
  spec.params = frame.params;
  spec.plain_count = frame.plain_count;
  spec.codec = frame.codec;
  spec.noise = frame.noise.kind;
  spec.magnitude = frame.noise.magnitude;
  spec.max_examples = frame.examples == 0 ? 1 : frame.examples;
  spec.max_abs_value = 0x1p30f;
  Result<Aggregator> server = Aggregator::Create(spec);
  FEDMRN_CHECK(server.ok());
  std::vector<float> weights(spec.params), plain(spec.plain_count);

  const Status added = server->Add(bytes);
  if (!added) {
    FEDMRN_CHECK(
        added.error().code ==
        (frame.broadcast ? ErrorCode::kForeign : ErrorCode::kBadValue));
    FEDMRN_CHECK(server->clients() == 0 && server->total_weight() == 0);
    FEDMRN_CHECK(!server->Finish(weights, plain).ok());
    return;
  }
  FEDMRN_CHECK(server->Add(bytes).error().code == ErrorCode::kDuplicate);
  FEDMRN_CHECK(server->clients() == 1);
  FEDMRN_CHECK(server->Finish(weights, plain).ok());
  for (float value : weights) FEDMRN_CHECK(std::isfinite(value));
  for (float value : plain) FEDMRN_CHECK(std::isfinite(value));
}

void TryFrame(ByteView bytes) {
  const Result<FrameView> frame = ParseFrame(bytes);
  if (!frame) {
    FEDMRN_CHECK(!frame.error().message.empty());
    FEDMRN_CHECK(frame.error().offset <= bytes.size());
    return;
  }
  FEDMRN_CHECK(frame->frame_bytes == bytes.size());
  if (frame->params > kMaxDecodedParams) return;
  std::vector<float> update(frame->params), plain(frame->plain_count);
  DecodeUpdate(*frame, update);
  for (float value : update) FEDMRN_CHECK(std::isfinite(value));
  frame->CopyPlain(plain);
  for (float value : plain) FEDMRN_CHECK(std::isfinite(value));
  Aggregate(bytes, *frame);
}

// Mutations rarely hit a checksum, or the length that goes with it; without
// these repairs nothing behind them would be tried.
void RepairChecksum(Bytes& bytes) {
  const size_t at = bytes.size() - kFrameChecksumBytes;
  StoreLe(uint64_t{XXH64(bytes.data(), at, 0)}, bytes.data() + at);
}

void RepairPayloadLength(Bytes& bytes) {
  const bool plain_half = (bytes[6] & 1) != 0;
  const uint64_t plain_bytes =
      uint64_t{LoadLe<uint32_t>(&bytes[56])} * (plain_half ? 2 : 4);
  const uint64_t room = bytes.size() - kFrameHeaderBytes - kFrameChecksumBytes;
  StoreLe(plain_bytes <= room ? room - plain_bytes : room, &bytes[48]);
}

}  // namespace
}  // namespace fedmrn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fedmrn;
  // A copy of its own size, so that a read beyond it is seen.
  Bytes bytes(data, data + size);
  TryFrame(bytes);
  if (size < kFrameHeaderBytes + kFrameChecksumBytes) return 0;
  RepairChecksum(bytes);
  TryFrame(bytes);
  RepairPayloadLength(bytes);
  RepairChecksum(bytes);
  TryFrame(bytes);
  return 0;
}
