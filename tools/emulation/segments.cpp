#include "tools/emulation/segments.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tombolo::emulation {
namespace {

/// The layout of struct virtio_net_hdr, because the kernel's own header does not compile as C++. Fields are
/// in the machine's byte order.
struct VirtioHeader {
  std::uint8_t flags, gso_type;
  std::uint16_t header_bytes, gso_size, checksum_start, checksum_offset;
};
static_assert(sizeof(VirtioHeader) == kFrameHeader);
constexpr std::uint8_t kGsoNone = 0, kGsoTcpV4 = 1;

constexpr std::size_t kEthernet = 14;
constexpr std::size_t kIpv4 = 20, kTcp = 20;  // without options
constexpr std::byte kFin{0x01}, kPush{0x08}, kWindowReduced{0x80};

std::size_t read16(const std::byte* at) {
  return std::to_integer<std::size_t>(at[0]) << 8 | std::to_integer<std::size_t>(at[1]);
}

void write16(std::byte* at, std::size_t value) {
  at[0] = static_cast<std::byte>(value >> 8 & 0xff);
  at[1] = static_cast<std::byte>(value & 0xff);
}

/// RFC 1071's sum of 16-bit words, before the final inversion.
std::size_t sum16(std::span<const std::byte> words, std::size_t sum = 0) {
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) sum += read16(words.data() + i);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

}  // namespace

std::size_t Segments::wire_bytes(std::size_t first, std::size_t last) const noexcept {
  if (last <= first) return 0;
  return (last - first) * headers + std::min(last * segment_bytes, payload) - first * segment_bytes;
}

Segments segments_of(std::span<const std::byte> frame) noexcept {
  const std::size_t bytes = frame.size() - std::min(frame.size(), kFrameHeader);
  const Segments one{1, 0, bytes, bytes};
  VirtioHeader header{};
  if (frame.size() < kFrameHeader + kEthernet + kIpv4 + kTcp) return one;
  std::memcpy(&header, frame.data(), sizeof header);
  auto packet = frame.subspan(kFrameHeader);
  if (header.gso_type != kGsoTcpV4 || header.gso_size == 0 || read16(&packet[12]) != 0x0800) {
    return one;
  }
  const std::size_t ip = (std::to_integer<std::size_t>(packet[kEthernet]) & 15) * 4;
  if (ip < kIpv4 || packet[kEthernet + 9] != std::byte{IPPROTO_TCP} ||
      packet.size() < kEthernet + ip + kTcp) {
    return one;
  }
  const std::size_t tcp = (std::to_integer<std::size_t>(packet[kEthernet + ip + 12]) >> 4) * 4;
  const std::size_t headers = kEthernet + ip + tcp;
  if (tcp < kTcp || packet.size() <= headers) return one;
  const std::size_t payload = packet.size() - headers;
  return {(payload + header.gso_size - 1) / header.gso_size, headers, payload, header.gso_size};
}

void cut_segments(std::span<const std::byte> frame, const Segments& segments, std::size_t first,
                  std::size_t last, std::vector<std::byte>& into) {
  if (segments.headers == 0 || (first == 0 && last >= segments.count)) {
    into.insert(into.end(), frame.begin(), frame.end());
    return;
  }
  const std::size_t from = first * segments.segment_bytes;
  const std::size_t to = std::min(last * segments.segment_bytes, segments.payload);
  const std::size_t start = into.size(), before = kFrameHeader + segments.headers;
  auto head = frame.first(before);
  auto body = frame.subspan(before + from, to - from);
  into.insert(into.end(), head.begin(), head.end());
  into.insert(into.end(), body.begin(), body.end());

  VirtioHeader header{};
  std::memcpy(&header, frame.data(), sizeof header);
  if (body.size() <= segments.segment_bytes) {
    header.gso_type = kGsoNone;
    header.gso_size = 0;
  }
  std::memcpy(into.data() + start, &header, sizeof header);

  std::byte* ip = into.data() + start + kFrameHeader + kEthernet;
  const std::size_t ip_bytes = (std::to_integer<std::size_t>(ip[0]) & 15) * 4;
  std::byte* tcp = ip + ip_bytes;
  const std::size_t tcp_bytes = segments.headers - kEthernet - ip_bytes + body.size();
  write16(ip + 2, ip_bytes + tcp_bytes);
  write16(ip + 4, read16(ip + 4) + first);
  write16(ip + 10, 0);
  write16(ip + 10, ~sum16({ip, ip_bytes}));
  const std::size_t sequence = (read16(tcp + 4) << 16 | read16(tcp + 6)) + from;
  write16(tcp + 4, sequence >> 16);
  write16(tcp + 6, sequence);
  if (last < segments.count) tcp[13] &= ~(kFin | kPush);
  if (first > 0) tcp[13] &= ~kWindowReduced;
  // With VIRTIO_NET_HDR_F_NEEDS_CSUM this field must hold the sum over only addresses, protocol and length.
  write16(tcp + 16, sum16({ip + 12, 8}, IPPROTO_TCP + tcp_bytes));
}

}  // namespace tombolo::emulation
