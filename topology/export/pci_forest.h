// The GPUs and NICs of a machine below their processors, with each PCIe switch as one thing.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "topology/detect.h"

namespace tombolo::topology {

/// A PCI function with what is below it. Pointers are into the machine that it was made of.
struct PciNode {
  const PciFunction* facts = nullptr;
  const PciFunction* port_above = nullptr;  ///< what it is plugged into; null on a host bridge itself
  std::map<std::string, PciNode> below;     ///< by address
  std::vector<std::size_t> gpus, nics;      ///< indices into the machine's
};

struct PciForest {
  /// By NUMA node (-1: unknown), then by address. Of a switch only the upper port is there, as in NCCL's own
  /// view: of every two steps from a device upward one is taken.
  std::map<int, std::map<std::string, PciNode>> roots;
  std::vector<std::size_t> gpus, nics;  ///< those without a PCI function here
};

/// With all GPUs, and those NICs that `takes`.
PciForest pci_forest(const Machine& machine, const std::function<bool(const Nic&)>& takes);

/// What a function and the port above it both can do, empty and 0 where unknown: "16.0 GT/s PCIe" and lanes.
struct PciLink {
  std::string speed;
  int width = 0;
};
PciLink pci_link(const PciNode& node);

}  // namespace tombolo::topology
