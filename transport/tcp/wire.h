// The framing of one TCP stream: every chunk of a message, and the goodbye, starts with a fixed header.
//
// A message of direction A->B has a sequence number, counted from 0 in posting order. It travels as one or
// more chunks, each on any stream. On one stream (sequence, offset) only grow. A message without bytes is one
// chunk of length 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tombolo::transport::tcp {

inline constexpr std::size_t kHeaderBytes = 32;
/// A chunk's length has 32 bits on the wire; longer messages are cut.
inline constexpr std::size_t kLongestChunk = std::size_t{1} << 30;

enum class FrameType : std::uint8_t {
  kChunk = 1,
  kGoodbye = 2,  ///< the sender closes this stream on purpose; `reason` says why
};

enum class GoodbyeReason : std::uint8_t {
  kClosed = 0,     ///< the connection was destroyed
  kTooLarge = 1,   ///< a message was larger than its receive: sequence, total, and offset = the capacity
  kMalformed = 2,  ///< the peer's bytes made no sense
  kTimeout = 3,    ///< the peer made no progress for too long
  kOther = 4,      ///< another failure of the sender's end
};

struct FrameHeader {
  FrameType type = FrameType::kChunk;
  GoodbyeReason reason = GoodbyeReason::kClosed;
  std::uint32_t length = 0;    ///< payload bytes that follow
  std::uint64_t sequence = 0;  ///< of the message
  std::uint64_t total = 0;     ///< bytes of the whole message
  std::uint64_t offset = 0;    ///< of this chunk in the message
};

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

void encode(const FrameHeader& header, std::span<std::byte, kHeaderBytes> to) noexcept;

/// Nothing where the bytes are no header: wrong mark, unknown type, or a chunk that lies outside its message.
std::optional<FrameHeader> decode(std::span<const std::byte, kHeaderBytes> from) noexcept;

}  // namespace tombolo::transport::tcp
