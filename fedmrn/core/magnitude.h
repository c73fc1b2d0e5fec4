// Magnitudes of the noise, one for each tensor: how large a client's updates
// are differs from tensor to tensor, and noise that suits them all does not
// exist. A server that steers them sends them with the model; clients use these
// and their frames repeat them (docs/wire-format.md, "Magnitudes").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fedmrn/base/bytes.h"

namespace fedmrn {

struct TensorMagnitude {
  uint32_t length;  // of the tensor
  float magnitude;
};

// As they stand in a frame, u32 length | f32 magnitude for each tensor. Points
// into the bytes, whose length is a multiple of kBytesEach.
class MagnitudesView {
 public:
  static constexpr size_t kBytesEach = 8;

  MagnitudesView() = default;
  explicit MagnitudesView(ByteView bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  size_t size() const { return bytes_.size() / kBytesEach; }
  TensorMagnitude operator[](size_t tensor) const {
    const uint8_t* from = bytes_.data() + kBytesEach * tensor;
    return {LoadLe<uint32_t>(from), LoadLe<float>(from + 4)};
  }
  uint64_t params() const;  // the sum of all lengths
  ByteView bytes() const { return bytes_; }

 private:
  ByteView bytes_;
};

bool operator==(const MagnitudesView& a, const MagnitudesView& b);

// The bytes of a view of these.
Bytes MagnitudeBytes(std::span<const TensorMagnitude> magnitudes);
// The same magnitude for tensors of these lengths.
Bytes MagnitudeBytes(std::span<const uint32_t> lengths, float magnitude);

// What steering keeps all magnitudes within.
inline constexpr float kLeastSteered = 0x1p-20f, kMostSteered = 2;

// The next round's magnitudes. `beyond` counts, for each tensor, the updates of
// all `clients` that lie beyond their thresholds (bit_context.h): the ones of a
// binary mask. The larger the magnitude, the smaller their share. For a share
// of `target`,
//
//   a <- a * sqrt(share / target),   at most doubled or halved
//
// is half of the way (in octaves) where the update is small beside the noise.
// The same on every machine.
Bytes SteerMagnitudes(const MagnitudesView& magnitudes,
                      std::span<const uint64_t> beyond, uint64_t clients,
                      double target);

// Their geometric mean over all parameters, for people.
double MeanMagnitude(const MagnitudesView& magnitudes);

}  // namespace fedmrn
