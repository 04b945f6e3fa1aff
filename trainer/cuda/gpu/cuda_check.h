// CUDA's and cuBLASLt's refusals as errors.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "base/error.h"

namespace tombolo::trainer::cuda::gpu {

/// Throws kSystem: "<what>: <CUDA's words> (<CUDA's name>)".
inline void check(cudaError_t status, std::string_view what) {
  if (status != cudaSuccess)
    fail(Cause::kSystem, "{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace tombolo::trainer::cuda::gpu
