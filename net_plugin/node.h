// This host as NCCL shall see it: its devices, and the rules by which the router picks a way.
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
  std::string pci_path;  ///< empty for NICs without one on this machine
  std::uint64_t guid = 0;
  int speed_megabits = 0;
  /// What a connection of this device may use, best first: handed to the router, which picks per peer.
  topology::Host host;
};

/// Immutable once made; shared by the communicators of a process.
struct Node {
  std::vector<NetDevice> devices;
  transport::RouterOptions router;  ///< each device's router gets its host, secret and log besides
  Duration deadline{};
};

/// Merged: one device "tombolo0" with all NICs, as fast as the best. Per NIC: one device per NIC of the
/// host's best kind; the NICs of other kinds stand by in each of them, so that peers of another fabric stay
/// in reach. Throws kUnsupported when the host has no usable NIC.
std::vector<NetDevice> make_devices(const topology::Host& host, DeviceMode mode);

/// What to tell the user where every NIC that would be used is virtual, a tunnel or loopback; else empty.
/// Pure.
std::string poor_choice_warning(const topology::Host& host);

/// From the cluster file or detection, and from the environment. Logs poor_choice_warning(), unless a cluster
/// file names the NICs.
Node make_node(const Log& log);

}  // namespace tombolo::net_plugin
