#include <cstdio>
#include <vector>

#include "fedmrn/core/aggregate.h"
#include "fedmrn/core/frame.h"

int main() {
  using namespace fedmrn;
  const std::vector<float> update(100'000, 0.002f);  // what training found

  // A client: one bit per parameter and a seed become bytes to send.
  FrameHeader header;
  header.codec = CodecId::kMrnBinary;
  header.client = 7;
  header.examples = 600;
  header.noise = {NoiseKind::kUniform, 0.01f, /*seed=*/42};
  const Bytes frame = EncodeFrame(header, {}, update, {}).value();

  // The server: whatever arrives is checked before it is added.
  RoundSpec spec;
  spec.params = update.size();
  spec.noise = header.noise.kind;
  spec.magnitude = header.noise.magnitude;
  Aggregator round = Aggregator::Create(spec).value();
  if (Status added = round.Add(frame); !added) {
    std::fprintf(stderr, "refused: %s\n", added.error().ToString().c_str());
    return 1;
  }
  std::vector<float> weights(update.size());
  if (!round.Finish(weights, {})) return 1;

  double moved = 0;
  for (float w : weights) moved += w / static_cast<double>(weights.size());
  std::printf("%zu parameters in %zu bytes; weights moved by %.4f on average\n",
              update.size(), frame.size(), moved);
}
