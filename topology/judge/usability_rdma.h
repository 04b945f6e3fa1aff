// The part of usability.h that is about RDMA ports.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "topology/system/interfaces.h"
#include "topology/system/rdma.h"

namespace tombolo::topology {

/// The interface of this name; null where there is none.
const Interface* find_interface(const std::vector<Interface>& all, const std::string& name);

/// What a usable NIC offers: "RoCE v2 at 100 Gbit/s".
std::string offer_text(const Nic& nic);

/// Joins the port with its interface and the VLANs on it, or lists it as a NIC of its own.
void add_port(std::vector<Nic>& nics, RdmaPort port, const std::vector<Interface>& interfaces);

/// Judges IP over InfiniBand whose RDMA port is not listed with it: another partition of a port that is used
/// already, or a container that sees only the interface. Its network is not the Ethernet that all hosts
/// share.
void judge_ipoib(std::vector<Nic>& nics, const std::vector<Interface>& interfaces);

/// Excludes a virtual function whose physical function is used: both are one wire, so that it adds no
/// bandwidth. `physical_functions` maps a virtual function's NIC name to the PCI address of its physical
/// function.
void set_functions_aside(std::vector<Nic>& nics,
                         const std::map<std::string, std::string>& physical_functions);

}  // namespace tombolo::topology
