// The PCI functions and bridges between the processors and the NICs and GPUs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/system/sys_tree.h"

namespace tombolo::topology {

/// A device, a bridge, or a port of a switch. Numbers are as /sys writes them ("0x15b3"), empty where
/// unknown.
struct PciFunction {
  std::string path;     ///< "/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0"
  std::string address;  ///< "0000:17:00.0"
  std::string device_class, vendor, device, subsystem_vendor, subsystem_device;
  std::string max_link_speed;  ///< "16.0 GT/s PCIe"
  int max_link_width = 0;      ///< lanes; 0 = unknown
  std::optional<int> numa_node;
};

/// Addresses of the functions on the way from the host bridge to the device, the device last; empty for a
/// path that names no PCI function.
std::vector<std::string> pci_steps(const std::string& pci_path);

/// "pci0000:16", the host bridge above it; empty where the path names none.
std::string host_bridge(const std::string& pci_path);

/// The functions at these paths and all above them, each once, in the order of their paths.
std::vector<PciFunction> read_pci_functions(const SysTree& tree, const std::vector<std::string>& pci_paths);

}  // namespace tombolo::topology
