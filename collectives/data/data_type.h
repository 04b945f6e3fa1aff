// Element types and reduction operators, and the kernels that combine two buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tombolo::collectives {

enum class DataType {
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kFloat8E4m3,
  kFloat8E5m2
};
enum class ReduceOp { kSum, kProduct, kMin, kMax, kAverage };

std::size_t size_of(DataType type) noexcept;
/// nccl-tests' names: "int8", "half", "bfloat16", "float", "double", "f8e4m3", ...
std::string_view data_type_name(DataType type) noexcept;
std::optional<DataType> data_type_from_name(std::string_view name) noexcept;
std::string_view reduce_op_name(ReduceOp op) noexcept;
std::optional<ReduceOp> reduce_op_from_name(std::string_view name) noexcept;

/// destination[i] = destination[i] op source[i]. kAverage adds; the division comes once, at the end
/// (divide()). 16-bit and 8-bit floats are combined in float and rounded to nearest even; 8-bit ones saturate
/// (float8.h). Buffers must not overlap.
void combine(void* destination, const void* source, std::size_t count, DataType type, ReduceOp op) noexcept;
/// destination[i] = left[i] op right[i]; destination may be either of them.
void combine(void* destination, const void* left, const void* right, std::size_t count, DataType type,
             ReduceOp op) noexcept;
/// Divides by `ranks`, for kAverage (integers truncate toward zero).
void divide(void* data, std::size_t count, DataType type, std::size_t ranks) noexcept;

}  // namespace tombolo::collectives
