// The devices that NCCL sees on this host: which NICs make one, what NCCL is told of each, and the devices
// that NCCL makes of several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "net_plugin/devices/nccl_environment.h"
#include "topology/files/cluster_file.h"
#include "topology/system/sys_tree.h"

namespace tombolo::net_plugin {

/// How NICs become devices (TOMBOLO_NET_DEVICES).
enum class DeviceMode {
  /// One device for each RDMA NIC, by which the others stand; on a host without RDMA one for each TCP NIC,
  /// all
  /// of which every connection uses.
  kAuto,
  kMerged,  ///< one device with all NICs
  kPerNic,  ///< one for each NIC of the host's best kind, by which the others stand
};

/// One entry of NCCL's device list.
struct NetDevice {
  std::string name;      ///< unique in the process: NCCL finds devices in its topology by name
  std::string pci_path;  ///< empty where this machine has no such path
  std::uint64_t guid = 0;
  int speed_megabits = 0;  ///< of its own NICs together
  int port = 0;            ///< of the RDMA device; 0 without RDMA
  float latency_microseconds = 0;
  int rail = -1, plane = -1;  ///< -1: not known
  /// The NICs that a connection of this device may use, its own first; the router picks for each peer.
  topology::Host host;
  std::vector<std::string> own;      ///< names of the NICs that it stands for
  std::vector<std::string> standby;  ///< names of NICs that carry what its own cannot
  std::vector<int> parts;            ///< the devices that it is made of: itself, or those that NCCL fused
};

/// What a device is told besides the host's NICs.
struct DeviceSources {
  topology::SysTree tree{"/"};                  ///< for PCI paths and GUIDs
  const topology::ClusterFile* file = nullptr;  ///< for measured links and rails; null: there is none
  NcclEnvironment environment;                  ///< for rails and planes
};

/// The devices of a host in that mode. A NIC slower than a tenth of the best is no device of its own, as its
/// share of NCCL's channels would hold up the others, and neither is a second interface (a VLAN) of a port
/// that has one. Throws kUnsupported where the host has no usable NIC with an address.
std::vector<NetDevice> make_devices(const topology::Host& host, DeviceMode mode,
                                    const DeviceSources& sources = {});

/// The physical devices, and after them those that NCCL made of several. It only grows, and what it holds
/// stays where it is, because NCCL keeps pointers to the texts. Any thread may use it.
class DeviceList {
 public:
  explicit DeviceList(std::vector<NetDevice> physical);

  std::size_t size() const;
  /// Throws kInvalidUsage for an index that is not there.
  const NetDevice& at(int index) const;
  /// Makes one device of several (NCCL's makeVDevice), and returns its index; the same one when it is asked
  /// for the same devices again. Throws kInvalidUsage where they are none or more than `most`, repeated, made
  /// of several themselves, unlike each other, or not on the PCI bus: NCCL puts all devices without a PCI
  /// path into one place, takes them for ports of one NIC, and then finds no way to what it made of them.
  int fuse(std::span<const int> parts, std::size_t most);

 private:
  const NetDevice& at_locked(int index) const;

  mutable std::mutex lock_;
  std::deque<NetDevice> devices_;
};

}  // namespace tombolo::net_plugin
