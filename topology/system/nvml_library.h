// What NVML, the library of NVIDIA's driver, loaded at run time, says about the GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/system/gpu.h"

namespace tombolo::topology {

struct NvmlGpu {
  std::string name;         ///< "NVIDIA H200"
  std::string pci_address;  ///< "0000:1b:00.0", lower case
  std::uint64_t memory_bytes = 0;
  int compute_capability = 0;    ///< 90 for 9.0; 0 = unknown
  std::vector<NvLinks> nvlinks;  ///< active ones, by their other end
};

/// Asks NVML for all GPUs; empty where NVML is absent or the driver does not answer.
std::vector<NvmlGpu> read_nvml();

/// Converts NVML's "00000000:1B:00.0" to /sys's "0000:1b:00.0".
std::string pci_address_from_nvml(const std::string& bus_id);

}  // namespace tombolo::topology
