// The GPUs of this machine or of a recorded tree.
#pragma once

#include <vector>

#include "topology/cluster_file.h"
#include "topology/sys_tree.h"

namespace tombolo::topology {

/// Every NVIDIA GPU on the PCI bus, in the order of its address. Name and memory come from NVML where `live`
/// and it can be loaded; else the name is the PCI device number and the memory unknown. In a container that
/// hides the PCI bus, NVML's own list is taken.
std::vector<Device> read_gpus(const SysTree& tree, bool live);

}  // namespace tombolo::topology
