// Ethernet frames as a TAP device with offloads hands them over: each behind a virtio header, and often with
// many TCP segments in one frame (a super-packet, as TSO makes it), which otherwise a NIC or the receiver's
// kernel would cut. To lose a single segment of such a frame, the relay must cut it itself. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tombolo::emulation {

/// The virtio header before each frame (struct virtio_net_hdr).
inline constexpr std::size_t kFrameHeader = 10;
/// Room for the largest frame with its header: 64 KiB of IP, Ethernet, a VLAN tag.
inline constexpr std::size_t kMostFrame = kFrameHeader + 18 + 65535;

/// The segments of a frame, as a wire would carry them. An ordinary frame is one segment.
struct Segments {
  std::size_t count = 1;
  std::size_t headers = 0;        ///< bytes of Ethernet, IP and TCP headers, which every segment repeats
  std::size_t payload = 0;        ///< bytes of all segments behind their headers
  std::size_t segment_bytes = 0;  ///< payload of each except the last

  /// Bytes on the wire of the segments [first, last).
  std::size_t wire_bytes(std::size_t first, std::size_t last) const noexcept;
};

/// Reads a frame with its virtio header. Any frame but an IPv4 TCP super-packet counts as one segment.
Segments segments_of(std::span<const std::byte> frame) noexcept;

/// Appends a frame, with its virtio header, that holds only the segments [first, last). Its lengths, sequence
/// number, flags and checksums are those that these segments would have had on their own.
void cut_segments(std::span<const std::byte> frame, const Segments& segments, std::size_t first,
                  std::size_t last, std::vector<std::byte>& into);

}  // namespace tombolo::emulation
