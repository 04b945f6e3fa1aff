// Which buffers are GPU memory. This folder owns how calls on GPU memory come by host memory: copies of what
// they read and write, made by transport/gpu/. It knows buffers and ranges, and nothing of collectives.
#pragma once

#include <memory>
#include <optional>

#include "topology/system/cuda_library.h"

namespace tombolo::collectives::gpu {

/// The CUDA driver that the program has loaded for itself; null while it has none. It takes some tens of
/// nanoseconds until then, and nothing afterwards. The engine never loads it, nor initialises it: a program
/// that has GPU memory has done both. Threads: any.
const std::shared_ptr<const topology::CudaFunctions>& program_driver() noexcept;

/// The GPU in whose memory the address lies; nothing for host memory, page-locked or not. Asks
/// program_driver(), where there is one. Threads: any.
std::optional<int> gpu_of(const void* address) noexcept;

}  // namespace tombolo::collectives::gpu
