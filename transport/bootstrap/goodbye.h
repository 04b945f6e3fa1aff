// The last word on the link of a connection whose messages go another way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tombolo::transport::bootstrap {

/// By its counts the other end knows what is still to come, and what of its own has arrived.
struct Goodbye {
  static constexpr std::size_t kBytes = 256;
  enum class Why : std::uint8_t { kClosed = 1, kTooLarge, kFailed };

  Why why = Why::kClosed;
  std::uint64_t sent = 0;      ///< messages that count as sent; over RDMA those that went through slots
  std::uint64_t written = 0;   ///< over RDMA: messages written into the other end's receives and completed
  std::uint64_t received = 0;  ///< messages before this one are in the receives of who says this
  std::uint64_t size = 0;      ///< kTooLarge: of the message
  std::uint64_t capacity = 0;
  std::string text;  ///< kFailed: the error

  std::vector<std::byte> encode() const;
  /// The bytes come from the wire: throws kRemote saying what is wrong.
  static Goodbye decode(std::span<const std::byte> bytes);
};

}  // namespace tombolo::transport::bootstrap
