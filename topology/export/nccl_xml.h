// The machine as NCCL reads it from the file that NCCL_TOPO_FILE names.
#pragma once

#include <string>

#include "topology/detect.h"

namespace tombolo::topology {

/// NCCL's topology XML, version 1: a cpu element per NUMA node; below it PCI functions nested as the switches
/// are (a switch's two ends are one element, as NCCL itself has them); GPUs with their NVLinks, and usable
/// NICs, each under its PCI function, or under the first cpu where it has none. Attributes that are not known
/// are left out: NCCL asks the machine for what it misses. NICs are named as NCCL names them: RDMA devices
/// ("mlx5_0"), else interfaces.
std::string nccl_xml(const Machine& machine);

}  // namespace tombolo::topology
