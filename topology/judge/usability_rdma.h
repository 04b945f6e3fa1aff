// The part of usability.h that is about RDMA ports.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "topology/system/interfaces.h"
#include "topology/system/rdma.h"

namespace tombolo::topology {

/// Null where there is none of this name.
const Interface* find_interface(const std::vector<Interface>& all, const std::string& name);

/// What a usable NIC offers: "RoCE v2 at 100 Gbit/s".
std::string praise(const Nic& nic);

/// Joins the port with its interface and the VLANs on it, or lists it as a NIC of its own.
void add_port(std::vector<Nic>& nics, RdmaPort port, const std::vector<Interface>& interfaces);

/// IP over InfiniBand without a port of its own: another partition of a port that is used already, or a
/// container that sees the interface only. Its network is not the Ethernet that all share.
void judge_ipoib(std::vector<Nic>& nics, const std::vector<Interface>& interfaces);

/// A virtual function beside its physical one adds no bandwidth: both are one wire. `physical_functions`: PCI
/// address of a virtual function's physical one, by the NIC's name.
void set_functions_aside(std::vector<Nic>& nics,
                         const std::map<std::string, std::string>& physical_functions);

}  // namespace tombolo::topology
