// The machine in the format that NCCL reads from the file that NCCL_TOPO_FILE names.
#pragma once

#include <string>

#include "topology/detect.h"

namespace tombolo::topology {

/// Writes NCCL's topology XML, version 1: a cpu element per NUMA node; below it PCI functions, nested as the
/// switches are (the two ends of a switch are one element, as in NCCL's own files); GPUs with their NVLinks;
/// and usable NICs, each under its PCI function, or under the first cpu where it has none. Attributes that
/// are not known are left out, and NCCL then asks the machine for them. NICs have the names that NCCL gives
/// them: RDMA devices ("mlx5_0"), or else interfaces.
std::string nccl_xml(const Machine& machine);

}  // namespace tombolo::topology
