#include "compute/product_speed.h"

#include <fmt/format.h>

#include <ctime>
#include <vector>

#include "base/median.h"
#include "compute/gemm.h"
#include "compute/gemm_bfloat16.h"
#include "compute/gemm_kernels.h"

namespace tombolo::compute {
namespace {

double processor_seconds() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Operations per second: the median over calls, because the processor-time clock of a virtual machine is
/// sometimes wrong.
template <typename Call>
double rate(double seconds, const Call& operations_of_a_call) {
  operations_of_a_call();  // warms up pages, caches, and the clock rate for wide vectors
  std::vector<double> rates;
  const double begin = processor_seconds();
  for (double last = begin; rates.empty() || last - begin < seconds;) {
    const double operations = operations_of_a_call();
    const double now = processor_seconds();
    if (now > last) rates.push_back(operations / (now - last));
    last = now;
  }
  return median(std::move(rates));
}

}  // namespace

std::string ProductSpeed::text() const {
  return fmt::format("{} kernels{}, {:.3g} GFLOP/s on one core ({:.0f} % of its units' {:.3g})",
                     instruction_set_name(used), precision == Precision::kBfloat16 ? " for bf16" : "",
                     attained / 1e9, 100 * attained / peak, peak / 1e9);
}

ProductSpeed measure_products(double seconds, Precision precision) {
  check_precision(precision);
  constexpr std::size_t kRows = 256, kColumns = 512, kInner = 128;  // a layer of width 128: 34 MFLOP
  constexpr std::size_t kRounds = 100000;                           // a few tenths of a millisecond
  ProductSpeed speed;
  speed.precision = precision;
  speed.used = instruction_set();
  speed.most = instruction_set_of(read_cpuid());
  const std::vector<float> left(kRows * kInner, 0.5F), right(kColumns * kInner, 0.25F);
  std::vector<float> out(kRows * kColumns);
  const MultiplyThreads alone(1);
  speed.attained = rate(seconds / 2, [&] {
    multiply_of(precision)(out.data(), kColumns, {left.data(), kInner}, {right.data(), kInner, true}, kRows,
                           kColumns, kInner, {});
    return 2.0 * kRows * kColumns * kInner;
  });
  const GemmKernels* best = &gemm_kernels(speed.most);
#if defined(__x86_64__)
  if (precision == Precision::kBfloat16) best = &kGemmBfloat16;
#endif
  volatile float kept = 0;  // keeps the compiler from removing the loop
  speed.peak = rate(seconds / 2, [&] {
    double operations = 0;
    kept = best->registers_only(kRounds, &operations);
    return operations;
  });
  static_cast<void>(kept);
  return speed;
}

}  // namespace tombolo::compute
