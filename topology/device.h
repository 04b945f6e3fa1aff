// A computing device: the facts that detection finds and that the cluster file states.
#pragma once

#include <optional>
#include <string>

namespace tombolo::topology {

enum class DeviceKind { kCpu, kGpu };

/// A device that computes for one rank.
struct Device {
  std::string name;  ///< "H200", "cpu"
  DeviceKind kind = DeviceKind::kCpu;
  double flops_per_second = 0;         ///< attained, as the probe measured; 0 = unknown
  double memory_bytes = 0;             ///< 0 = unknown
  double memory_bytes_per_second = 0;  ///< attained; 0 = unknown
  std::optional<int> numa_node;
  std::string pci_path;  ///< of a GPU; else empty

  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace tombolo::topology
