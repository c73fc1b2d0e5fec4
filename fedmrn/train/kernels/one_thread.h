#pragma once

namespace fedmrn::train {

// From now on oneDNN and LibTorch compute on the calling thread alone. Every
// worker calls this: clients side by side are faster than threads within one,
// and sums come out the same for any number of workers.
void ComputeOnThisThreadOnly();

}  // namespace fedmrn::train
