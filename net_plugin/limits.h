// Limits that the plugin sets itself and tells NCCL.
#pragma once

#include <cstddef>

namespace tombolo::net_plugin {

/// NCCL splits longer messages. test() reports sizes as int, so that a longest message must fit one; a power
/// of two keeps the pieces aligned.
inline constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;

/// Connections of a device at a time. File descriptors are the true limit; NCCL's own Socket network says the
/// same.
inline constexpr int kMaxComms = 65536;

/// Receives that one irecv may group, where TOMBOLO_NET_GROUPS is on. NCCL's own InfiniBand network says the
/// same.
inline constexpr int kMaxReceives = 8;

}  // namespace tombolo::net_plugin
