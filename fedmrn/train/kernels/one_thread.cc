#include "fedmrn/train/kernels/one_thread.h"

// Debian's oneDNN and LibTorch take their threads from GNU's OpenMP, whichever
// compiler builds us; clang's omp.h would belong to another library.
extern "C" void omp_set_num_threads(int threads);

namespace fedmrn::train {

void ComputeOnThisThreadOnly() { omp_set_num_threads(1); }

}  // namespace fedmrn::train
