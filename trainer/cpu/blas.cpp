#include "trainer/cpu/blas.h"

#include <cblas.h>

namespace tombolo::trainer::cpu {

void multiply(float* out, std::size_t out_stride, Operand left, Operand right, std::size_t rows,
              std::size_t columns, std::size_t inner, float scale, float keep) noexcept {
  cblas_sgemm(CblasRowMajor, left.transposed ? CblasTrans : CblasNoTrans,
              right.transposed ? CblasTrans : CblasNoTrans, static_cast<blasint>(rows),
              static_cast<blasint>(columns), static_cast<blasint>(inner), scale, left.data,
              static_cast<blasint>(left.stride), right.data, static_cast<blasint>(right.stride), keep, out,
              static_cast<blasint>(out_stride));
}

void set_multiply_threads(int threads) noexcept {
  openblas_set_num_threads(threads);
}

}  // namespace tombolo::trainer::cpu
