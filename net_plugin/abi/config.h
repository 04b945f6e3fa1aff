// What NCCL tells a plugin about a communicator.
#pragma once

#include <cstdint>

namespace tombolo::net_plugin::abi {

struct CommConfig {
  int traffic_class;  ///< kUndefined, or what the user asked for
};

/// How a communicator will use its connections in one direction; every field may be kUndefined.
struct FlowAttributes {
  std::int32_t most_peers;
  std::int32_t fewest_peers;
  std::int32_t most_flows_per_peer;
  std::int32_t fewest_flows_per_peer;
};

struct NetAttributes {
  FlowAttributes send;
  FlowAttributes receive;
  std::uint32_t operation;
  std::uint32_t algorithm;
  std::uint32_t protocol;
};

/// Describes a connection to device code (v7+). Tombolo offloads nothing and leaves it null.
struct DeviceHandle {
  int type;
  int version;
  void* handle;
  unsigned long size;
  int needs_proxy_progress;
};

static_assert(sizeof(CommConfig) == 4);
static_assert(sizeof(NetAttributes) == 44);
static_assert(sizeof(DeviceHandle) == 32);

}  // namespace tombolo::net_plugin::abi
