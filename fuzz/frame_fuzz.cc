// Any bytes at all, given to the parser and, where they parse, to everything
// that a server, or a person who inspects it, does with a frame.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/core/aggregate.h"
#include "fedmrn/core/frame.h"
#include "fedmrn/core/wire.h"

namespace fedmrn {
namespace {

// A few bytes of topk may stand for 2^32 parameters, a few more of a coded mask
// too.
constexpr uint64_t kMaxParsedParams = uint64_t{1} << 18;
constexpr uint64_t kMaxDecodedParams = uint64_t{1} << 16;

void Aggregate(ByteView bytes, const FrameView& frame) {
  RoundSpec spec;
  spec.run = frame.run;
  spec.round = frame.round;
  spec.fingerprint = frame.fingerprint;
  spec.params = frame.params;
  spec.plain_count = frame.plain_count;
  spec.codec = frame.codec;
  spec.noise = frame.noise.kind;
  spec.magnitude = frame.noise.magnitude;
  // A broadcast, which is refused, may have them without noise.
  if (FindCodec(frame.codec)->uses_noise) {
    const ByteView magnitudes = frame.noise.magnitudes.bytes();
    spec.magnitudes.assign(magnitudes.begin(), magnitudes.end());
  }
  spec.max_examples = frame.examples == 0 ? 1 : frame.examples;
  spec.max_abs_value = 0x1p30f;
  spec.plain_reference.resize(frame.plain_count);
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
  FEDMRN_CHECK(server->Add(frame).error().code == ErrorCode::kDuplicate);
  FEDMRN_CHECK(server->clients() == 1);
  FEDMRN_CHECK(server->Finish(weights, plain).ok());
  for (float value : weights) FEDMRN_CHECK(std::isfinite(value));
  for (float value : plain) FEDMRN_CHECK(std::isfinite(value));
}

void Describe(const FrameView& frame) {
  for (const PayloadFact& fact : FindCodec(frame.codec)->facts) {
    const double value = fact.value(frame);
    FEDMRN_CHECK(std::isfinite(value) && value >= 0);
    FEDMRN_CHECK(fact.kind == PayloadFact::Kind::kValue ||
                 value <= static_cast<double>(frame.params));
  }
}

void TryFrame(ByteView bytes) {
  // Few bytes of a coded mask may stand for many parameters.
  Bytes scratch;
  const Result<FrameView> frame =
      ParseFrame(bytes, {.max_params = kMaxParsedParams, .scratch = &scratch});
  if (!frame) {
    FEDMRN_CHECK(!frame.error().message.empty());
    FEDMRN_CHECK(frame.error().offset <= bytes.size());
    return;
  }
  FEDMRN_CHECK(frame->frame_bytes == bytes.size());
  Describe(*frame);
  if (frame->params > kMaxDecodedParams) return;
  if (frame->plain_count > kMaxDecodedParams) return;
  std::vector<float> update(frame->params), plain(frame->plain_count);
  DecodeUpdate(*frame, update);
  for (float value : update) FEDMRN_CHECK(std::isfinite(value));
  frame->CopyPlain(plain);
  for (float value : plain) FEDMRN_CHECK(std::isfinite(value));
  Aggregate(bytes, *frame);
}

// Mutations rarely hit a checksum, or the length that goes with it; without
// these repairs nothing behind them would be tried.
void RepairPayloadLength(Bytes& bytes) {
  const wire::Header header = wire::ReadHeader(bytes);
  const uint64_t others =
      header.payload_at() + header.plain_bytes + kFrameChecksumBytes;
  wire::kPayloadBytes.Store(
      others <= bytes.size() ? bytes.size() - others : bytes.size(),
      bytes.data());
}

}  // namespace
}  // namespace fedmrn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fedmrn;
  // A copy of its own size, so that a read beyond it is seen.
  Bytes bytes(data, data + size);
  TryFrame(bytes);
  if (size < wire::kLeastFrameBytes) return 0;
  wire::StoreChecksum(bytes);
  TryFrame(bytes);
  RepairPayloadLength(bytes);
  wire::StoreChecksum(bytes);
  TryFrame(bytes);
  return 0;
}
