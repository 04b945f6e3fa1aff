// What is given to the GPU's kernels, which nvcc compiles for the GPU and the library launches.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tombolo::collectives::gpu {

enum class Operation : std::uint32_t {
  kSum,
  kProduct,
  kMin,
  kMax,
  kSumOfMultipliedLeft,   ///< left * factor + right
  kSumOfMultipliedRight,  ///< left + right * factor
  kMultiply,              ///< left * factor
  kDivide,                ///< left / ranks
};

/// The only parameter of every kernel. Addresses are the GPU's, and aligned to the element.
struct ReductionArguments {
  std::byte* target = nullptr;
  const std::byte* left = nullptr;
  const std::byte* right = nullptr;  ///< not read by kMultiply and kDivide
  std::uint64_t count = 0;           ///< of elements
  std::uint64_t operand = 0;         ///< kDivide's ranks; or the factor, an element in the first bytes
  Operation operation = Operation::kSum;
};

/// Of a kernel's name, before that of the type (data_type_name()).
inline constexpr char kReductionKernel[] = "tombolo_reduce_";
inline constexpr unsigned kReductionThreads = 512;  ///< of a block

}  // namespace tombolo::collectives::gpu
