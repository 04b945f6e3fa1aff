// Parses and formats sizes and rates as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tombolo {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

/// "8", "64K", "16M", "1G" (powers of 1024, also with a trailing "iB" or "B", any case) to bytes.
/// Throws kInvalidUsage naming `what` on anything else or on overflow.
std::uint64_t parse_size(std::string_view text, std::string_view what);

/// "512 B", "64 KiB", "16 MiB": exact where a power divides, else two decimals.
std::string format_size(std::uint64_t bytes);

/// "100mbit", "1gbit", "2.5G", "64kbit/s", "100000000": bits per second, powers of 1000, any case. Throws
/// kInvalidUsage naming `what` on anything else, on zero, and above 1e15.
double parse_bit_rate(std::string_view text, std::string_view what);

/// "100 Mbit/s", "1.25 Gbit/s" from bytes per second.
std::string format_bit_rate(double bytes_per_second);

/// "0.3 us", "12 ms", "1.4 s".
std::string format_seconds(double seconds);
/// "12.5 TFLOP/s".
std::string format_flops(double flops_per_second);
/// "1 stage", "2 stages": of a noun that only takes an s.
std::string counted(std::int64_t number, std::string_view noun);

}  // namespace tombolo
