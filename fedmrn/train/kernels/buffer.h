// Memory of kernels: grows to the largest use so far, and begins where vectors
// may be loaded aligned.
#pragma once

#include <cstddef>
#include <new>

#include "hwy/aligned_allocator.h"

namespace fedmrn::train {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t floats) { Need(floats); }

  // Room for so many; what was there is gone if it had to grow. Throws
  // std::bad_alloc.
  float* Need(size_t floats) {
    if (floats > size_) {
      data_ = hwy::AllocateAligned<float>(floats);
      size_ = data_ == nullptr ? 0 : floats;
      if (data_ == nullptr) throw std::bad_alloc();
    }
    return data_.get();
  }
  float* get() const { return data_.get(); }

 private:
  hwy::AlignedFreeUniquePtr<float[]> data_;
  size_t size_ = 0;
};

}  // namespace fedmrn::train
