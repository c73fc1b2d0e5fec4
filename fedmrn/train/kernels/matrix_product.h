#pragma once

#include <cstddef>

namespace fedmrn::train {

// c = a b by oneDNN, row-major, all on the calling thread. With 'T' the operand
// is stored transposed, with 'N' it is not.
void MatrixProduct(char transpose_a, char transpose_b, size_t rows,
                   size_t columns, size_t inner, const float* a, const float* b,
                   float* c);

}  // namespace fedmrn::train
