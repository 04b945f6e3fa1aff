// The kernels for AVX2 machines.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trainer/cpu/kernels.h"

#if defined(__x86_64__)
#include "compute/begin_avx2.inl"

namespace tombolo::trainer::cpu {

namespace {
constexpr std::size_t kRegisterLanes = 8;
}
#include "trainer/cpu/kernels.inl"

}  // namespace tombolo::trainer::cpu
#include "compute/end_set.inl"

namespace tombolo::trainer::cpu {

const Kernels kAvx2Kernels = table("avx2");

}  // namespace tombolo::trainer::cpu
#endif
