// A node (NCCL's word for a host): the devices that NCCL sees on it, and the settings by which the router
// picks a transport.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "topology/files/cluster_file.h"
#include "transport/routing/router.h"

namespace tombolo::net_plugin {

enum class DeviceMode { kMerged, kPerNic };

/// One entry of NCCL's device list.
struct NetDevice {
  std::string name;      ///< unique in the process: NCCL finds devices in its topology by name
  std::string pci_path;  ///< empty where this machine has no such path
  std::uint64_t guid = 0;
  int speed_megabits = 0;
  /// The NICs that a connection of this device may use, best first; the router picks for each peer.
  topology::Host host;
};

/// Immutable once made; the communicators of a process share it.
struct Node {
  std::vector<NetDevice> devices;
  transport::RouterOptions router;  ///< each device's router gets its host, secret and log besides
  Duration deadline{};
  bool groups = true;  ///< whether irecv takes groups (TOMBOLO_NET_GROUPS)
};

/// The devices in that mode. Merged: one device "tombolo0" with all NICs, as fast as the best. Per NIC: one
/// device per NIC of the host's best kind; each of them also holds the NICs of other kinds, so that peers of
/// another fabric stay reachable. Throws kUnsupported when the host has no usable NIC.
std::vector<NetDevice> make_devices(const topology::Host& host, DeviceMode mode);

/// A warning for a host whose NICs in use are all virtual, tunnels or loopback; otherwise empty.
std::string poor_choice_warning(const topology::Host& host);

/// Reads the cluster file, or detects the hardware where there is none, and reads the environment. Logs
/// poor_choice_warning(), unless a cluster file names the NICs.
Node make_node(const Log& log);

}  // namespace tombolo::net_plugin
