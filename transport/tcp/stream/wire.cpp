#include "transport/tcp/stream/wire.h"

#include <algorithm>

#include "base/crc32c.h"
#include "transport/bytes.h"

namespace tombolo::transport::tcp {
namespace {

// The header's layout, little-endian: u16 mark, u8 type, u8 reason (low half) and flags (high half), u32
// length, u64 sequence, u48 total, u48 offset, u32 ack, u32 checksum of the payload, u32 checksum of all
// before. The 64 bits that kEpochSummary has in total are the high halves of sequence and total, in this
// order.
constexpr std::uint16_t kMark = 0x6d54;  // "Tm"
constexpr std::size_t kSealed = kHeaderBytes - sizeof(std::uint32_t);
constexpr std::uint64_t kLowHalf = UINT32_MAX;

}  // namespace

void encode(const FrameHeader& header, std::span<std::byte, kHeaderBytes> to) noexcept {
  store_little_endian(&to[0], kMark);
  to[2] = static_cast<std::byte>(header.type);
  to[3] = static_cast<std::byte>(static_cast<unsigned>(header.reason) | unsigned{header.flags} << 4);
  store_little_endian(&to[4], header.length);
  std::uint64_t sequence = header.sequence, total = std::min(header.total, kLongestMessage);
  if (header.type == FrameType::kEpochSummary) {
    sequence = (header.total & ~kLowHalf) | (sequence & kLowHalf);
    total = header.total & kLowHalf;
  }
  const std::uint64_t offset = std::min(header.offset, kLongestMessage);
  store_little_endian(&to[8], sequence);
  store_little_endian(&to[16], total | offset << 48);
  store_little_endian(&to[24], static_cast<std::uint32_t>(offset >> 16));
  store_little_endian(&to[28], header.ack);
  store_little_endian(&to[32], header.checksum);
  seal(to);
}

bool intact(std::span<const std::byte, kHeaderBytes> header) noexcept {
  return load_little_endian<std::uint32_t>(&header[kSealed]) == crc32c(header.first<kSealed>());
}

void seal(std::span<std::byte, kHeaderBytes> header) noexcept {
  store_little_endian(&header[kSealed], crc32c(header.first<kSealed>()));
}

std::optional<FrameHeader> decode(std::span<const std::byte, kHeaderBytes> from) noexcept {
  if (load_little_endian<std::uint16_t>(&from[0]) != kMark) return std::nullopt;
  FrameHeader header;
  header.type = static_cast<FrameType>(from[2]);
  header.reason = static_cast<GoodbyeReason>(from[3] & std::byte{0x0f});
  header.flags = static_cast<std::uint8_t>(from[3] >> 4);
  header.length = load_little_endian<std::uint32_t>(&from[4]);
  header.sequence = load_little_endian<std::uint64_t>(&from[8]);
  const auto sizes = load_little_endian<std::uint64_t>(&from[16]);
  header.total = sizes & kLongestMessage;
  header.offset = sizes >> 48 | std::uint64_t{load_little_endian<std::uint32_t>(&from[24])} << 16;
  header.ack = load_little_endian<std::uint32_t>(&from[28]);
  header.checksum = load_little_endian<std::uint32_t>(&from[32]);
  if (header.type == FrameType::kChunk) {
    if (header.reason != GoodbyeReason::kClosed || header.flags > kAllFlags ||
        header.length > kLongestChunk) {
      return std::nullopt;
    }
    // The comparison is written so that no sum can overflow.
    if (header.offset > header.total || header.length > header.total - header.offset) return std::nullopt;
    if (header.length == 0 && header.total != 0) return std::nullopt;
    return header;
  }
  if (header.length != 0 || header.flags != 0) return std::nullopt;
  switch (header.type) {
    case FrameType::kGoodbye:
      return header.reason <= GoodbyeReason::kPathFailed ? std::optional(header) : std::nullopt;
    case FrameType::kEpochSummary:
      if (header.total > kLowHalf) return std::nullopt;
      header.total |= header.sequence & ~kLowHalf;
      header.sequence &= kLowHalf;
      // One summary covers several epochs only where they brought nothing.
      if (header.offset >= kMostStreams || header.total >> 32 > (header.total & UINT32_MAX) ||
          (header.sequence != 0 && header.total >> 32 != (header.total & UINT32_MAX)))
        return std::nullopt;
      [[fallthrough]];
    case FrameType::kAck:
    case FrameType::kPing:
      return header.reason == GoodbyeReason::kClosed ? std::optional(header) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace tombolo::transport::tcp
