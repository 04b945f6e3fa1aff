// What a kernel is written in: the few words of CUDA that the kernels use, under names of their own, so that
// the same source also runs on the CPU (testing/simt_emulation.h), thread by thread, where no GPU is.
//
// trainer/cuda/gpu/ owns what needs CUDA: the kernels (*.cuh), the libraries' products and attention, and the
// device that carries out operations with them. It becomes libtombolo_cuda.so.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tombolo::trainer::cuda::gpu {

/// bfloat16 as it lies in memory: the upper half of a float.
struct Bfloat16 {
  std::uint16_t bits;
};

/// How many blocks a kernel is launched with.
struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

inline constexpr int kWarp = 32;

}  // namespace tombolo::trainer::cuda::gpu

#if defined(__CUDACC__)
#include "trainer/cuda/gpu/simt_cuda.h"
#else
#include "trainer/cuda/testing/simt_emulation.h"
#endif
