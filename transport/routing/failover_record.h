// What each end tells the other first over a leg: which messages it has received, and where the next leg may
// be made to.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/endpoint.h"
#include "transport/request_pool.h"

namespace tombolo::transport {

/// The first message each way on every leg; the messages of the connection follow. docs/wire-protocol.md
/// shows each byte.
struct FailoverRecord {
  static constexpr std::size_t kBytes = 1024;
  static constexpr std::uint8_t kVersion = 3;
  /// Messages before `prefix` have been received, and of those after it the ones whose bit is set.
  static constexpr std::size_t kBits = 2 * kRequestsPerDirection;

  std::uint64_t prefix = 0;
  std::bitset<kBits> beyond;  ///< bit i: message `prefix` + i
  Endpoint endpoint;          ///< where this end accepts streams for this connection

  bool has(std::uint64_t sequence) const noexcept {
    return sequence < prefix || (sequence - prefix < kBits && beyond[sequence - prefix]);
  }

  /// The n-th message, from 0, that has not been received.
  std::uint64_t lacking(std::uint64_t n) const noexcept {
    for (std::size_t i = 0; i < kBits; ++i)
      if (!beyond[i] && n-- == 0) return prefix + i;
    return prefix + kBits + n;
  }

  std::vector<std::byte> encode() const;
  /// The bytes come from the wire: throws kRemote saying what is wrong.
  static FailoverRecord decode(std::span<const std::byte> bytes);
};

}  // namespace tombolo::transport
