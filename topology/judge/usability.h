// Which NICs carry traffic, and why the others do not.
#pragma once

#include <vector>

#include "topology/system/interfaces.h"
#include "topology/system/rdma.h"

namespace tombolo::topology {

/// Joins each RDMA port with the interface on it and decides `usable` and `reason` for every NIC. Virtual
/// interfaces are used only where there is nothing better, as in containers and emulations, and loopback only
/// where there is nothing else. Pure.
std::vector<Nic> judge(std::vector<Interface> interfaces, std::vector<RdmaPort> ports);

}  // namespace tombolo::topology
