// The PCI trees of a machine: its GPUs and NICs below their processors, with each PCIe switch as one node.
// The folder export/ owns what is written about a machine: JSON, Graphviz, NCCL's topology file.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "topology/detect.h"

namespace tombolo::topology {

/// A PCI function with what is below it. The pointers point into the Machine from which it was made.
struct PciNode {
  const PciFunction* facts = nullptr;
  const PciFunction* port_above = nullptr;  ///< the port above it; null below a host bridge
  std::map<std::string, PciNode> below;     ///< by address
  std::vector<std::size_t> gpus, nics;      ///< indices into Machine::gpus and nics
};

struct PciForest {
  /// The root functions by NUMA node (-1: unknown), then by address. Only the upstream port of a switch is a
  /// node, as in NCCL's own view, so that every second step from a device upward is left out.
  std::map<int, std::map<std::string, PciNode>> roots;
  std::vector<std::size_t> gpus, nics;  ///< those without a PCI function here
};

/// The forest of all GPUs, and of the NICs for which `takes` is true.
PciForest pci_forest(const Machine& machine, const std::function<bool(const Nic&)>& takes);

/// The speed ("16.0 GT/s PCIe") and the lanes that a function and the port above it both support; empty and 0
/// where unknown.
struct PciLink {
  std::string speed;
  int width = 0;
};
PciLink pci_link(const PciNode& node);

}  // namespace tombolo::topology
