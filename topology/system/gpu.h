// The GPUs of this machine or of a recorded tree.
#pragma once

#include <string>
#include <vector>

#include "topology/device.h"
#include "topology/system/sys_tree.h"

namespace tombolo::topology {

/// The NVLinks from a GPU to one other end.
struct NvLinks {
  std::string
      peer;  ///< PCI address of the GPU or switch, "0000:1b:00.0"; empty where a guest does not see it
  bool to_switch = false;  ///< an NVSwitch: all GPUs on it reach each other
  int count = 0;
};

struct Gpu : Device {
  int compute_capability = 0;  ///< 90 for 9.0; 0 = unknown
  std::vector<NvLinks> nvlinks;
};

/// Reads every NVIDIA GPU on the PCI bus, in the order of addresses. Name and memory come from NVML where
/// `live` is set and it can be loaded; else the name is the PCI device number and the memory is unknown. In a
/// container that hides the PCI bus, NVML's own list is used.
std::vector<Gpu> read_gpus(const SysTree& tree, bool live);

}  // namespace tombolo::topology
