// The RDMA ports of this machine or of a recorded tree.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "topology/nic.h"
#include "topology/system/sys_tree.h"

namespace tombolo::topology {

/// One port of an RDMA device. `nic` has its kind, rate, state, GIDs and PCI function, and is named
/// "device/port".
struct RdmaPort {
  Nic nic;
  std::string interface;  ///< the network interface on the same port; empty where there is none
  /// For each GID by index, the interface whose address it is: a RoCE port's VLANs have GIDs of their own.
  std::map<int, std::string> interface_of_gid;
  std::string physical_function;  ///< of a virtual function, where it is seen: its PCI address
  std::string problem;            ///< why it cannot be used, with what to do; empty where it can
};

/// Reads every port of every device in /sys/class/infiniband. If `live`, it also asks libibverbs whether user
/// space can open them, and for what /sys does not state.
std::vector<RdmaPort> read_rdma_ports(const SysTree& tree, bool live);

}  // namespace tombolo::topology
