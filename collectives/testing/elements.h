// Buffers of elements whose type is known at run time only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "collectives/data/data_type.h"
#include "collectives/data/small_float.h"

namespace tombolo::collectives::test {

using Bytes = std::vector<std::byte>;

/// Writes one element; the type must hold the value, or it is rounded.
inline void put(std::byte* at, DataType type, double value) {
  const auto write = [&](auto typed) { std::memcpy(at, &typed, sizeof(typed)); };
  switch (type) {
    case DataType::kInt8:
      return write(static_cast<std::int8_t>(value));
    case DataType::kUint8:
      return write(static_cast<std::uint8_t>(value));
    case DataType::kInt16:
      return write(static_cast<std::int16_t>(value));
    case DataType::kUint16:
      return write(static_cast<std::uint16_t>(value));
    case DataType::kInt32:
      return write(static_cast<std::int32_t>(value));
    case DataType::kUint32:
      return write(static_cast<std::uint32_t>(value));
    case DataType::kInt64:
      return write(static_cast<std::int64_t>(value));
    case DataType::kUint64:
      return write(static_cast<std::uint64_t>(value));
    case DataType::kFloat16:
      return write(to_float16(static_cast<float>(value)));
    case DataType::kBfloat16:
      return write(to_bfloat16(static_cast<float>(value)));
    case DataType::kFloat32:
      return write(static_cast<float>(value));
    case DataType::kFloat64:
      return write(value);
    case DataType::kFloat8E4m3:
      return write(to_float8_e4m3(static_cast<float>(value)));
    case DataType::kFloat8E5m2:
      return write(to_float8_e5m2(static_cast<float>(value)));
  }
}

}  // namespace tombolo::collectives::test
