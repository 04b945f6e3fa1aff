#include "probe/measure/core_speed.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "compute/gemm.h"
#include "topology/system/sys_tree.h"

namespace tombolo::probe {
namespace {

/// Seconds per call: the mean over about `seconds`, after one call that warms up.
template <typename Call>
double seconds_per_call(double seconds, const Call& call) {
  call();  // warms up pages and caches
  const TimePoint begin = Clock::steady().now();
  double elapsed = 0;
  int times = 0;
  do {
    call();
    ++times;
    elapsed = to_seconds(Clock::steady().now() - begin);
  } while (elapsed < seconds);
  return elapsed / times;
}

void triad(float* __restrict out, const float* __restrict left, const float* __restrict right, float scale,
           std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = left[i] + scale * right[i];
}

/// The size of the last-level cache; 0 where /sys does not state it.
std::size_t last_level_cache() {
  const topology::SysTree tree("/");
  const std::string folder = "/sys/devices/system/cpu/cpu0/cache";
  std::size_t largest = 0;
  for (const std::string& name : tree.names(folder)) {
    const auto size = tree.text(folder + "/" + name + "/size");
    if (!name.starts_with("index") || !size) continue;
    try {
      largest = std::max<std::size_t>(largest, parse_size(*size, "cache size"));
    } catch (const Error&) {
      // The kernel writes the size in another form, so the cache counts as unknown.
    }
  }
  return largest;
}

}  // namespace

double time_products(int rows, int inner, int columns, double seconds) {
  const auto m = static_cast<std::size_t>(rows), k = static_cast<std::size_t>(inner),
             n = static_cast<std::size_t>(columns);
  std::vector<float> left(m * k, 0.5F), right(k * n, 0.25F), product(m * n, 0.0F);
  const double each = seconds_per_call(seconds, [&] {
    compute::multiply(product.data(), n, {left.data(), k}, {right.data(), n}, m, n, k);
  });
  return 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n) / each;
}

double time_triad(std::size_t bytes, double seconds) {
  const std::size_t count = std::max<std::size_t>(1, bytes / (3 * sizeof(float)));
  std::unique_ptr<float[]> arrays;
  try {
    arrays = std::make_unique<float[]>(3 * count);
  } catch (const std::bad_alloc&) {
    fail(Cause::kSystem, "probe of memory: no {} for the triad's arrays", format_size(bytes));
  }
  float* out = arrays.get();
  std::fill_n(out + count, count, 1.0F);
  std::fill_n(out + 2 * count, count, 2.0F);
  const double each =
      seconds_per_call(seconds, [&] { triad(out, out + count, out + 2 * count, 3.0F, count); });
  TOMBOLO_CHECK(out[count - 1] == 7.0F, "the triad gave {}", out[count - 1]);
  return 3.0 * sizeof(float) * static_cast<double>(count) / each;
}

std::size_t triad_bytes(int ranks) {
  const std::size_t wanted = std::clamp<std::size_t>(4 * last_level_cache(), 96 * kMiB, kGiB);
  const auto free = static_cast<std::size_t>(std::max(0L, ::sysconf(_SC_AVPHYS_PAGES))) *
                    static_cast<std::size_t>(std::max(1L, ::sysconf(_SC_PAGESIZE)));
  return std::max<std::size_t>(kMiB, std::min(wanted, free / 4 / static_cast<std::size_t>(ranks)));
}

}  // namespace tombolo::probe
