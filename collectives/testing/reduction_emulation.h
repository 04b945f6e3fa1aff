// For tests: the GPU's kernels on the processor, one thread after another.
#pragma once

#include <cstdint>

#include "collectives/data/data_type.h"
#include "collectives/gpu/reduction.cuh"

namespace tombolo::collectives::test {

template <typename T>
void run_threads(const gpu::ReductionArguments& given, std::uint64_t threads) {
  for (std::uint64_t thread = 0; thread < threads; ++thread) gpu::reduce_share<T>(given, thread, threads);
}

/// That type's kernel by so many threads in all.
inline void emulate_reduction(const gpu::ReductionArguments& given, DataType type, std::uint64_t threads) {
  switch (type) {
    case DataType::kInt8:
      return run_threads<std::int8_t>(given, threads);
    case DataType::kUint8:
      return run_threads<std::uint8_t>(given, threads);
    case DataType::kInt16:
      return run_threads<std::int16_t>(given, threads);
    case DataType::kUint16:
      return run_threads<std::uint16_t>(given, threads);
    case DataType::kInt32:
      return run_threads<std::int32_t>(given, threads);
    case DataType::kUint32:
      return run_threads<std::uint32_t>(given, threads);
    case DataType::kInt64:
      return run_threads<std::int64_t>(given, threads);
    case DataType::kUint64:
      return run_threads<std::uint64_t>(given, threads);
    case DataType::kFloat16:
      return run_threads<Float16>(given, threads);
    case DataType::kBfloat16:
      return run_threads<Bfloat16>(given, threads);
    case DataType::kFloat32:
      return run_threads<float>(given, threads);
    case DataType::kFloat64:
      return run_threads<double>(given, threads);
    case DataType::kFloat8E4m3:
      return run_threads<Float8E4m3>(given, threads);
    case DataType::kFloat8E5m2:
      return run_threads<Float8E5m2>(given, threads);
  }
}

}  // namespace tombolo::collectives::test
