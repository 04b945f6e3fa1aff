// Which NUMA node each device is near, by hwloc.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace tombolo::topology {

/// What hwloc, loaded at run time, knows of this machine beyond /sys: firmware often leaves a device's
/// numa_node at -1, and hwloc then derives it from the bridge above the device.
struct Locality {
  int numa_nodes = 0;
  std::map<std::string, int> node_of_pci;     ///< by PCI address, "0000:18:00.0"
  std::map<std::string, int> node_of_device;  ///< by name of a network interface or RDMA device
};

/// Reads it; nothing where hwloc is absent or of another major version; `*problem`, if given, then says why.
std::optional<Locality> read_locality(std::string* problem = nullptr);

}  // namespace tombolo::topology
