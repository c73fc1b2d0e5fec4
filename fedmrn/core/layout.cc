#include "fedmrn/core/layout.h"

#include "fedmrn/base/bytes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fedmrn {

uint64_t TensorLayout::size() const {
  uint64_t size = 1;
  for (uint32_t extent : shape) size *= extent;
  return size;
}

uint64_t ModelLayout::coded_params() const {
  uint64_t sum = 0;
  for (const TensorLayout& t : tensors) sum += t.coded ? t.size() : 0;
  return sum;
}

uint64_t ModelLayout::plain_values() const {
  uint64_t sum = 0;
  for (const TensorLayout& t : tensors) sum += t.coded ? 0 : t.size();
  return sum;
}

std::vector<uint32_t> ModelLayout::segments() const {
  std::vector<uint32_t> sizes;
  for (const TensorLayout& t : tensors) {
    if (t.coded) sizes.push_back(static_cast<uint32_t>(t.size()));
  }
  return sizes;
}

std::vector<uint32_t> ModelLayout::plain_segments() const {
  std::vector<uint32_t> sizes;
  for (const TensorLayout& t : tensors) {
    if (!t.coded) sizes.push_back(static_cast<uint32_t>(t.size()));
  }
  return sizes;
}

std::vector<PlainRange> ModelLayout::variances() const {
  std::vector<PlainRange> ranges;
  uint64_t first = 0;
  for (const TensorLayout& t : tensors) {
    if (t.coded) continue;
    if (t.name.ends_with("running_var")) ranges.push_back({first, t.size()});
    first += t.size();
  }
  return ranges;
}

uint64_t ModelLayout::Fingerprint() const {
  Bytes text;
  for (const TensorLayout& t : tensors) {
    AppendLe(static_cast<uint32_t>(t.name.size()), text);
    text.insert(text.end(), t.name.begin(), t.name.end());
    AppendLe(static_cast<uint8_t>(t.coded ? 1 : 0), text);
    AppendLe(static_cast<uint32_t>(t.shape.size()), text);
    for (uint32_t extent : t.shape) AppendLe(extent, text);
  }
  return XXH64(text.data(), text.size(), 0);
}

}  // namespace fedmrn
