// The label of a connection of the plugin's: which comm it belongs to, and which tag it serves.
#pragma once

#include <cstdint>
#include <optional>

namespace tombolo::net_plugin {

/// Layout: bits 63 to 34 the comm, bit 33 whether the connection is a further lane, bit 32 zero, bits 31 to 0
/// the tag of a further lane. A connection that only asks for the listener's endpoint has bit 0 alone.
struct LaneLabel {
  static constexpr std::uint64_t kAsksForEndpoint = 1;
  static constexpr std::uint32_t kMostComm = (1U << 30) - 1;

  std::uint32_t comm = 0;  ///< drawn by the connecting end; at most kMostComm
  /// Nothing for a comm's first connection, which is made before any message shows its tag.
  std::optional<int> tag;

  std::uint64_t encode() const noexcept {
    const std::uint64_t further = tag ? 1ULL << 33 | static_cast<std::uint32_t>(*tag) : 0;
    return static_cast<std::uint64_t>(comm) << 34 | further;
  }
  static LaneLabel decode(std::uint64_t label) noexcept {
    LaneLabel read{static_cast<std::uint32_t>(label >> 34), std::nullopt};
    if ((label >> 33 & 1) != 0) read.tag = static_cast<int>(static_cast<std::uint32_t>(label));
    return read;
  }
};

}  // namespace tombolo::net_plugin
