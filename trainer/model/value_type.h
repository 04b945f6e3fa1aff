// In which number format a file of a model holds its values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tombolo::trainer {

/// How many values are converted at a time where a file is read or written.
inline constexpr std::size_t kValuesAtOnce = 1 << 18;

enum class ValueType { kFloat32, kBfloat16, kFloat16 };

/// In a file.
std::size_t value_bytes(ValueType type) noexcept;
/// "fp32", "bf16", "fp16".
std::string_view value_type_name(ValueType type) noexcept;

/// `raw` holds as many values as `values`, little-endian. Exact.
void decode_values(ValueType type, std::span<const std::byte> raw, std::span<float> values) noexcept;
/// Rounds to nearest even.
void encode_values(ValueType type, std::span<const float> values, std::span<std::byte> raw) noexcept;

}  // namespace tombolo::trainer
