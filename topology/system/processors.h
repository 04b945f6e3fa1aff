// The processors: their NUMA nodes, and the vendor, family and model that NCCL's topology file needs.
#pragma once

#include <string>
#include <vector>

#include "topology/system/sys_tree.h"

namespace tombolo::topology {

struct NumaNode {
  int id = 0;
  std::string
      cpu_mask;  ///< "00000000,0000ffff" as /sys writes it, most significant word first; empty where unknown
};

/// The processor; fields are empty or 0 where /proc/cpuinfo does not state them.
struct Processor {
  std::string arch;    ///< "x86_64", "arm64", "ppc64"
  std::string vendor;  ///< "GenuineIntel"; x86 only
  int family = 0, model = 0;
};

/// Reads the NUMA nodes, in the order of their numbers.
std::vector<NumaNode> read_numa_nodes(const SysTree& tree);
Processor read_processor(const SysTree& tree);

}  // namespace tombolo::topology
