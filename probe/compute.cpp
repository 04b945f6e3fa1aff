#include <cblas.h>

#include <vector>

#include "base/error.h"
#include "probe/probe.h"

namespace tombolo::probe {
namespace {

// FLOPs per second of sgemm over `seconds`, on the calling thread alone.
double time_products(const ComputeProbeOptions& options) {
  auto rows = static_cast<std::size_t>(options.rows);
  auto inner = static_cast<std::size_t>(options.inner);
  auto columns = static_cast<std::size_t>(options.columns);
  std::vector<float> left(rows * inner, 0.5F), right(inner * columns, 0.25F), product(rows * columns, 0.0F);
  auto once = [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, options.rows, options.columns, options.inner, 1.0F,
                left.data(), options.inner, right.data(), options.columns, 0.0F, product.data(),
                options.columns);
  };
  once();  // pages and caches
  TimePoint begin = Clock::steady().now();
  double elapsed = 0;
  int times = 0;
  do {
    once();
    ++times;
    elapsed = to_seconds(Clock::steady().now() - begin);
  } while (elapsed < options.seconds);
  return 2.0 * static_cast<double>(rows) * static_cast<double>(inner) * static_cast<double>(columns) * times /
         elapsed;
}

}  // namespace

ComputeResult probe_compute(collectives::Communicator& communicator, const ComputeProbeOptions& options) {
  if (options.rows < 1 || options.inner < 1 || options.columns < 1 || !(options.seconds > 0)) {
    fail(Cause::kInvalidUsage, "probe of compute: {} x {} x {} for {} s; all must be positive", options.rows,
         options.inner, options.columns, options.seconds);
  }
  int threads_before = openblas_get_num_threads();
  openblas_set_num_threads(1);  // a rank is one core's worth, as in the trainer
  ComputeResult result;
  for (int turn = 0; turn < communicator.size(); ++turn) {
    communicator.barrier();
    if (turn == communicator.rank()) result.alone_flops_per_second = time_products(options);
  }
  communicator.barrier();
  result.together_flops_per_second = time_products(options);
  communicator.barrier();
  openblas_set_num_threads(threads_before);
  return result;
}

}  // namespace tombolo::probe
