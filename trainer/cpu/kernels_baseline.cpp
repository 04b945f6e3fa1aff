// The kernels for any machine, and the choice among the sets.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "compute/instruction_set.h"
#include "trainer/cpu/kernels.h"

namespace tombolo::trainer::cpu {

namespace {
constexpr std::size_t kRegisterLanes = 4;
}
#include "trainer/cpu/kernels.inl"

const Kernels kBaselineKernels = table("baseline");

const Kernels& kernels(compute::InstructionSet set) noexcept {
#if defined(__x86_64__)
  if (set == compute::InstructionSet::kAvx512) return kAvx512Kernels;
  if (set == compute::InstructionSet::kAvx2) return kAvx2Kernels;
#endif
  static_cast<void>(set);
  return kBaselineKernels;
}

}  // namespace tombolo::trainer::cpu
