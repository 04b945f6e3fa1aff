// The kernels for AVX-512 machines.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trainer/cpu/kernels.h"

#if defined(__x86_64__)
#include "compute/begin_avx512.inl"

namespace tombolo::trainer::cpu {

namespace {
constexpr std::size_t kRegisterLanes = 16;
}
#include "trainer/cpu/kernels.inl"

}  // namespace tombolo::trainer::cpu
#include "compute/end_set.inl"

namespace tombolo::trainer::cpu {

const Kernels kAvx512Kernels = table("avx512");

}  // namespace tombolo::trainer::cpu
#endif
