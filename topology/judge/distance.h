// How far two devices of one machine are from each other, in the terms of `nvidia-smi topo -m`. The folder
// judge/ owns conclusions from what system/ has read: which NICs are used, distances inside a machine, which
// NICs can reach each other. Its files are pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/detect.h"

namespace tombolo::topology {

/// Distances, the nearest first.
enum class Distance {
  kSelf,  ///< "X": the same device
  kPix,   ///< at most one PCIe switch between them
  kPxb,   ///< several PCIe switches, but no host bridge
  kPhb,   ///< through one host bridge (the processor's root complex)
  kNode,  ///< between host bridges of one NUMA node
  kSys    ///< between NUMA nodes
};
/// "X", "PIX", "PXB", "PHB", "NODE", "SYS".
std::string_view distance_name(Distance distance) noexcept;

/// The location of a device: its folder in /sys, and its NUMA node.
struct DeviceLocation {
  std::string pci_path;
  std::optional<int> numa_node;
};

/// The distance between two devices; nothing where one has no PCI path. Two host bridges, of which a node is
/// unknown, count as kSys, or as kNode on a machine with one NUMA node. Pure.
std::optional<Distance> distance(const DeviceLocation& a, const DeviceLocation& b, int numa_nodes);

/// The number of NVLinks between two GPUs: the direct ones, and through switches as many as both GPUs have to
/// switches.
int nvlinks_between(const Gpu& a, const Gpu& b);

/// The distances between all GPUs and all NICs that are hardware (not VLANs or bridges), GPUs first.
struct DistanceMatrix {
  struct Device {
    std::string label;  ///< "GPU0", "ib0"
    DeviceLocation location;
    std::optional<std::size_t> gpu;  ///< index into Machine::gpus
    std::optional<std::size_t> nic;  ///< index into Machine::nics
  };
  std::vector<Device> devices;
  std::vector<std::vector<std::string>> cells;  ///< "X", "PIX", "NV18", ...; "-" where a location is unknown
};
/// The matrix of a machine; the devices are in the order of its lists.
DistanceMatrix distance_matrix(const Machine& machine);

}  // namespace tombolo::topology
