// The kernels for AVX-512 machines.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trainer/cpu/kernels.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v4"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#endif

namespace tombolo::trainer::cpu {

namespace {
constexpr std::size_t kRegisterLanes = 16;
}
#include "trainer/cpu/kernels.inl"

}  // namespace tombolo::trainer::cpu
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace tombolo::trainer::cpu {

const Kernels kAvx512Kernels = table("avx512");

}  // namespace tombolo::trainer::cpu
#endif
