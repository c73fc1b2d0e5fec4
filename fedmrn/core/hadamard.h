// Fast Walsh-Hadamard transform (Sylvester order), in place, not normalised:
// applying it twice multiplies by the length. DRIVE and EDEN rotate with it.
#pragma once

#include <span>

namespace fedmrn {

// The length is a power of two. Stages run in ascending order for every
// element, whatever the blocking, so the result is bit-identical on every CPU.
void Hadamard(std::span<float> values);

namespace ref {
void Hadamard(std::span<float> values);
}  // namespace ref
}  // namespace fedmrn
