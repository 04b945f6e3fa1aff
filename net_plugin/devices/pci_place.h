// Where on the PCI bus NCCL is told that a NIC is.
#pragma once

#include <string>

#include "topology/nic.h"
#include "topology/system/sys_tree.h"

namespace tombolo::net_plugin {

/// The folder below /sys/devices of the function by which NCCL should know the NIC. For a virtual function it
/// is its physical one, and for a further port of a card the card's first function, so that NCCL counts the
/// card's place on the bus once and takes its ports for ports. VLANs and bonds have their hardware's already.
/// Empty where the NIC has none or this machine lacks it: NCCL fails on a path that it cannot read, and a
/// cluster file may state another machine's.
std::string pci_place(const topology::SysTree& tree, const topology::Nic& nic);

/// The node GUID of an RDMA device; 0 where it is not known.
std::uint64_t node_guid(const topology::SysTree& tree, const std::string& rdma_device);

}  // namespace tombolo::net_plugin
