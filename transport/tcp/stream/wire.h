// The framing of one TCP stream: chunks of messages, acknowledgements, and notices start with a fixed header.
//
// A message of direction A->B has a sequence number, counted from 0 in posting order. It travels as one or
// more chunks, each on any stream. A message without bytes is one chunk of length 0.
//
// Nothing is lost with a stream: each end counts the whole chunks that it took from a stream since that was
// (re)joined, which is the stream's epoch. The count goes back on the same stream: in the header of any frame
// that goes that way, or alone. When a stream breaks, each end tells the other its last count of that epoch
// (kEpochSummary) over the streams that are left, or over the rejoined one: this many chunks have arrived,
// and the others are sent again before anything else on the rejoined stream. Until that summary has come, the
// sender puts no chunk on the stream, so that at most one epoch is unresolved. On one stream (sequence,
// offset) grow within an epoch, except for chunks that are sent again, which are in order among themselves:
// so the oldest chunk that is missing is never behind one whose receive is not posted yet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/bootstrap/handshake.h"
#include "transport/goodbye.h"

namespace tombolo::transport::tcp {

inline constexpr std::size_t kHeaderBytes = 40;
/// Sizes and offsets have 48 bits on the wire, which no memory exceeds.
inline constexpr std::uint64_t kLongestMessage = (std::uint64_t{1} << 48) - 1;
/// A chunk's length has 32 bits on the wire; longer messages are cut.
inline constexpr std::size_t kLongestChunk = std::size_t{1} << 30;
/// By how much the epoch of a stream that rejoins may exceed the stream's last. An honest peer counts the
/// attempts whose reply it missed, some tens a second at most.
inline constexpr std::uint32_t kMostEpochsAhead = std::uint32_t{1} << 20;
inline constexpr std::uint16_t kMostStreams = bootstrap::Hello::kMostStreams;

enum class FrameType : std::uint8_t {
  kChunk = 1,
  kGoodbye = 2,       ///< the sender closes this stream on purpose; `reason` says why
  kAck = 3,           ///< carries its `ack` only
  kEpochSummary = 4,  ///< of a broken stream: offset = its number, sequence = chunks received in each of the
                      ///< epochs from the high to the low half of total
  kPing = 5,          ///< has no content; the sender only needs the acknowledgement of the peer's kernel
};

/// kTooLarge: the header has the message's sequence and total, and the capacity of its receive as offset.
using transport::GoodbyeReason;

/// Flags of a chunk.
inline constexpr std::uint8_t kUrgentFlag = 1;    ///< the sender waits until it knows that all has arrived
inline constexpr std::uint8_t kReplayFlag = 2;    ///< was on another stream, or epoch, before
inline constexpr std::uint8_t kChecksumFlag = 4;  ///< `checksum` is the payload's CRC32C
inline constexpr std::uint8_t kAllFlags = 7;

struct FrameHeader {
  FrameType type = FrameType::kChunk;
  GoodbyeReason reason = GoodbyeReason::kClosed;
  std::uint32_t length = 0;    ///< payload bytes that follow
  std::uint64_t sequence = 0;  ///< of the message
  std::uint64_t total = 0;     ///< bytes of the whole message; at most kLongestMessage, and so is the offset
  std::uint64_t offset = 0;    ///< of this chunk in the message
  std::uint8_t flags = 0;
  std::uint32_t ack = 0;  ///< whole chunks received on this stream in its epoch, modulo 2^32
  std::uint32_t checksum = 0;
};

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

/// Writes the header with its own checksum, which every header has: nothing that a damaged header says can be
/// trusted, its length least of all.
void encode(const FrameHeader& header, std::span<std::byte, kHeaderBytes> to) noexcept;
/// Whether the header's checksum is right. False where it is not what its sender wrote.
bool intact(std::span<const std::byte, kHeaderBytes> header) noexcept;
/// Computes the checksum anew after a change, so that the header is intact(). For tests.
void seal(std::span<std::byte, kHeaderBytes> header) noexcept;

/// Reads a header. Nothing where the bytes are none: wrong mark, unknown type, or a chunk that lies outside
/// its message. It does not check whether they are intact().
std::optional<FrameHeader> decode(std::span<const std::byte, kHeaderBytes> from) noexcept;

}  // namespace tombolo::transport::tcp
