#include "fedmrn/train/kernels/compute_threads.h"

// Debian's oneDNN and LibTorch take their threads from GNU's OpenMP, whichever
// compiler builds us; clang's omp.h would belong to another library.
extern "C" void omp_set_num_threads(int threads);

namespace fedmrn::train {

void ComputeOnThreads(uint32_t threads) {
  omp_set_num_threads(static_cast<int>(threads));
}

}  // namespace fedmrn::train
