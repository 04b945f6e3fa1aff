// Which NICs carry traffic, and why the others do not.
#pragma once

#include <vector>

#include "topology/system/interfaces.h"
#include "topology/system/rdma.h"

namespace tombolo::topology {

/// Joins each RDMA port with the interface on it and decides `usable` and `reason` for every NIC. What is
/// virtual is left aside unless nothing better is there, then it is used (containers and emulations have
/// nothing else), and last of all loopback. Pure.
std::vector<Nic> judge(std::vector<Interface> interfaces, std::vector<RdmaPort> ports);

}  // namespace tombolo::topology
