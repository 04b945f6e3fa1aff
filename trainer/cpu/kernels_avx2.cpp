// The kernels for AVX2 machines.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trainer/cpu/kernels.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v3"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#endif

namespace tombolo::trainer::cpu {

namespace {
constexpr std::size_t kRegisterLanes = 8;
}
#include "trainer/cpu/kernels.inl"

}  // namespace tombolo::trainer::cpu
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace tombolo::trainer::cpu {

const Kernels kAvx2Kernels = table("avx2");

}  // namespace tombolo::trainer::cpu
#endif
