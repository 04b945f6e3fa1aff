// The speed of a GPU: matrix products by cuBLAS, and streaming through its memory.
#pragma once

#include <string>

#include "base/clock.h"
#include "probe/measure/cuda_library.h"

namespace tombolo::probe {

struct GpuSpeed {
  double bfloat16_flops_per_second = 0;  ///< bf16 values, summed in fp32: what a GPU is trained with
  double float32_flops_per_second = 0;   ///< without TF32
  double memory_bytes_per_second = 0;    ///< y += a x: two arrays read, one written
};

/// Selects a GPU: by its PCI address ("0000:1b:00.0"), or where that is hidden the `ordinal`-th visible one.
struct GpuChoice {
  std::string pci_address;
  int ordinal = 0;
  std::string text() const;  ///< for messages
};

/// Measures each of the three for about `seconds`. Meanwhile the calling thread's CUDA context is the
/// device's primary one. Throws kSystem naming the GPU, the function and its error code.
GpuSpeed time_gpu(const CudaFunctions& cuda, const GpuChoice& gpu, double seconds,
                  const Clock& clock = Clock::steady());

}  // namespace tombolo::probe
