// The kernels for any machine, and the choice among the sets.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trainer/cpu/kernels.h"

namespace tombolo::trainer::cpu {

#include "trainer/cpu/kernels.inl"

const Kernels* baseline_kernels() noexcept {
  static constexpr Kernels kTable = table("baseline");
  return &kTable;
}

const Kernels& kernels() noexcept {
  if (const Kernels* set = avx512_kernels()) return *set;
  if (const Kernels* set = avx2_kernels()) return *set;
  return *baseline_kernels();
}

}  // namespace tombolo::trainer::cpu
