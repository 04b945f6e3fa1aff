// CRC-32C (Castagnoli), as in RFC 3720, appendix B.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tombolo {

/// The CRC-32C of the data: by the processor's instruction where it has one (some 20 GB/s), else by table.
std::uint32_t crc32c(std::span<const std::byte> data) noexcept;

/// The same by table only; tests compare the two.
std::uint32_t crc32c_by_table(std::span<const std::byte> data) noexcept;

}  // namespace tombolo
