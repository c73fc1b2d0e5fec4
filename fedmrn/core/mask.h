// Masks and progressive stochastic masking (paper, Section 3.2, Algorithm 1
// lines 14-20). A client trains an update u beside frozen global weights w; in
// the forward pass u is replaced by masked noise n*m, more and more so as the
// round goes on. Only the final mask leaves the client, one bit a parameter.
//
// The draws of local steps come from Philox streams of `draw_seed`, which stays
// private to the client. The final mask is drawn with a dither of the noise's
// own seed: its law is the same, and a receiver, who knows the dither, can be
// told the mask in fewer bits (bit_context.h). So all of this is a pure
// function of its arguments.
#pragma once

#include <cstdint>
#include <span>

#include "fedmrn/core/noise.h"

namespace fedmrn {

enum class MaskKind : uint8_t {
  kBinary = 0,  // m in {0, 1}: keep the noise or not
  kSigned = 1,  // m in {-1, 1}: keep the noise's sign or flip it
};

struct Masking {
  MaskKind kind = MaskKind::kBinary;
  bool stochastic = true;   // SM (Eqs. 6, 7); false: DM, m = 1 iff u*n > 0
  bool progressive = true;  // PM: mask each parameter with probability step/S
  Noise noise;
  uint64_t draw_seed = 0;  // of local steps
};

// Where a local step stands: the paper's tau (1-based) and S, and eta.
struct LocalStep {
  uint32_t step = 1;
  uint32_t total_steps = 1;
  float learning_rate = 0;
};

// One fused pass (Algorithm 1, lines 15-18):
//
//   u         <- u - learning_rate * gradient        (the step before's)
//   effective <- w + u_hat, u_hat drawn for `at.step` by Eq. 10
//
// An empty gradient leaves u as it is: the pass before the first step. The
// gradient goes straight through to u, clipped or not (Eq. 9). All spans have
// the length of `weights`; `effective` may be `gradient` or apart from all.
// Allocates nothing.
void MaskedStep(const Masking& masking, const LocalStep& at,
                std::span<const float> weights, std::span<const float> gradient,
                std::span<float> update, std::span<float> effective);

// The final mask M(u, G(s)) (line 20), m_i = 1 with probability p_i (Eqs. 6, 7)
// to the nearest 1/65536, straight into packed bits: bit i is 1 where m_i = 1;
// the bits behind the last parameter are zero. `bits` has
// BytesForBits(update.size()) bytes.
void FinalMask(const Masking& masking, std::span<const float> update,
               std::span<uint8_t> bits);

namespace ref {

void MaskedStep(const Masking& masking, const LocalStep& at,
                std::span<const float> weights, std::span<const float> gradient,
                std::span<float> update, std::span<float> effective);
void FinalMask(const Masking& masking, std::span<const float> update,
               std::span<uint8_t> bits);

}  // namespace ref
}  // namespace fedmrn
