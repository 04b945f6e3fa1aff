// The GPU's kernels (reduction.cu) as nvcc has compiled them, which the library carries as bytes: no tool and
// no library of CUDA is needed where it runs but the driver.
#pragma once

#include <cstddef>
#include <span>

namespace tombolo::collectives::gpu {

/// For cuModuleLoadData. Empty in a library that was built where no nvcc was.
std::span<const std::byte> kernel_image() noexcept;

}  // namespace tombolo::collectives::gpu
