#include "transport/tcp/wire.h"

#include "transport/bytes.h"

namespace tombolo::transport::tcp {
namespace {

// u16 mark, u8 type, u8 reason, u32 length, u64 sequence, u64 total, u64 offset; little-endian.
constexpr std::uint16_t kMark = 0x6d54;  // "Tm"

}  // namespace

void encode(const FrameHeader& header, std::span<std::byte, kHeaderBytes> to) noexcept {
  store_little_endian(&to[0], kMark);
  to[2] = static_cast<std::byte>(header.type);
  to[3] = static_cast<std::byte>(header.reason);
  store_little_endian(&to[4], header.length);
  store_little_endian(&to[8], header.sequence);
  store_little_endian(&to[16], header.total);
  store_little_endian(&to[24], header.offset);
}

std::optional<FrameHeader> decode(std::span<const std::byte, kHeaderBytes> from) noexcept {
  if (load_little_endian<std::uint16_t>(&from[0]) != kMark) return std::nullopt;
  FrameHeader header;
  header.type = static_cast<FrameType>(from[2]);
  header.reason = static_cast<GoodbyeReason>(from[3]);
  header.length = load_little_endian<std::uint32_t>(&from[4]);
  header.sequence = load_little_endian<std::uint64_t>(&from[8]);
  header.total = load_little_endian<std::uint64_t>(&from[16]);
  header.offset = load_little_endian<std::uint64_t>(&from[24]);
  switch (header.type) {
    case FrameType::kGoodbye:
      if (header.reason > GoodbyeReason::kOther || header.length != 0) return std::nullopt;
      return header;
    case FrameType::kChunk:
      if (header.reason != GoodbyeReason::kClosed || header.length > kLongestChunk) return std::nullopt;
      // Written so that no sum can overflow.
      if (header.offset > header.total || header.length > header.total - header.offset) return std::nullopt;
      if (header.length == 0 && header.total != 0) return std::nullopt;
      return header;
  }
  return std::nullopt;
}

}  // namespace tombolo::transport::tcp
