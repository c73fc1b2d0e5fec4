#include "fedmrn/train/kernels/matrix_product.h"

#include <oneapi/dnnl/dnnl.h>

#include "fedmrn/base/check.h"

namespace fedmrn::train {

void MatrixProduct(char transpose_a, char transpose_b, size_t rows,
                   size_t columns, size_t inner, const float* a, const float* b,
                   float* c) {
  const auto m = static_cast<dnnl_dim_t>(rows);
  const auto n = static_cast<dnnl_dim_t>(columns);
  const auto k = static_cast<dnnl_dim_t>(inner);
  const dnnl_status_t status = dnnl_sgemm(transpose_a, transpose_b, m, n, k, 1,
                                          a, transpose_a == 'N' ? k : m, b,
                                          transpose_b == 'N' ? n : k, 0, c, n);
  FEDMRN_CHECK(status == dnnl_success);
}

}  // namespace fedmrn::train
