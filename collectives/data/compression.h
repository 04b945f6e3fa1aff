// Floats with fewer bits, for links between clusters: how they are encoded, and what that loses.
//
// Every processor makes the same bits of the same input: the kernels use + - * / and comparisons alone, which
// are rounded alike everywhere, and no fused multiply-add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tombolo::collectives {

enum class Compression : std::uint8_t {
  kNone,
  /// bfloat16, rounded to nearest even: each value is off by at most 2^-8 of itself (by 2^-134 where it is
  /// subnormal). What is not finite stays so.
  kBfloat16,
  /// Blocks of 256 values: the largest magnitude over 127 as a float, then each value over that, rounded, as
  /// int8. Each is off by at most half of the block's largest magnitude / 127. A block that holds infinity or
  /// a NaN becomes NaNs.
  kInt8,
};

/// "none", "bf16", "int8"
std::string_view compression_name(Compression compression) noexcept;
/// Throws kInvalidUsage naming `setting`, where the name came from.
Compression compression_from_name(std::string_view name, std::string_view setting);

/// Bytes of so many encoded floats.
std::size_t encoded_bytes(Compression compression, std::size_t count) noexcept;

// Buffers may have any alignment and must not overlap, except that the last two arguments of decode_add() may
// be the same. `compression` is not kNone.

/// Where `residual` is not null, it holds `count` floats that are added first, and what the encoding loses
/// replaces them: summed over many calls, then, nothing is lost but the last residual (error feedback).
void encode(Compression compression, const std::byte* from, std::size_t count, std::byte* to,
            std::byte* residual) noexcept;
void decode(Compression compression, const std::byte* from, std::size_t count, std::byte* to) noexcept;
/// to = left + what `from` encodes.
void decode_add(Compression compression, const std::byte* from, std::size_t count, const std::byte* left,
                std::byte* to) noexcept;

}  // namespace tombolo::collectives
