// The layout of a model as the wire sees it: which tensors, in which order, are
// compressed ("coded") and which travel as they are ("plain").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fedmrn {

struct TensorLayout {
  std::string name;
  std::vector<uint32_t> shape;
  bool coded = true;

  uint64_t size() const;
};

// Some neighbours in the plain section.
struct PlainRange {
  uint64_t first = 0, count = 0;
};

struct ModelLayout {
  std::vector<TensorLayout> tensors;

  uint64_t coded_params() const;  // a frame's `params`
  uint64_t plain_values() const;  // a frame's `plain_count`
  // Sizes of the coded tensors, for EncodeOptions::segments.
  std::vector<uint32_t> segments() const;
  // Sizes of the plain tensors, for EncodeOptions::plain_segments.
  std::vector<uint32_t> plain_segments() const;
  // The running variances: tensors of this name, as PyTorch has it.
  std::vector<PlainRange> variances() const;
  // Equal for equal names, shapes and kinds in equal order; a frame carries it
  // so that an update of another model cannot be added by accident.
  uint64_t Fingerprint() const;
};

}  // namespace fedmrn
