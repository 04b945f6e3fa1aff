// The network interfaces of this machine or of a recorded tree.
#pragma once

#include <string>
#include <vector>

#include "topology/nic.h"
#include "topology/system/sys_tree.h"

namespace tombolo::topology {

/// An interface with what is needed to judge it; `nic.usable` and `nic.reason` are not decided here.
struct Interface {
  Nic nic;
  int index = 0;
  std::string hardware_address;      ///< "02:fc:00:00:00:01"
  std::string what;                  ///< to be shown: "veth pair", "VXLAN tunnel"; empty for physical ones
  std::string master;                ///< the bond or bridge it belongs to
  std::vector<std::string> members;  ///< of a bond or bridge
  std::string lower;                 ///< what a VLAN lies on; the function below a synthetic NIC
  std::string physical_function;     ///< of a virtual function, where it is seen: its PCI address
  std::string infiniband_prefix;     ///< of IP over InfiniBand: "fe80:0000:0000:0000"
  bool enabled = false;              ///< switched on by the administrator
  bool wireless = false;
  /// stands for another function at the NIC's switch, on the host that owns the switch
  bool representor = false;
  bool addresses_known = false;  ///< false where a recorded tree does not tell them
};

/// Reads every interface, in the order of their names. If `live`, those of this process's network namespace
/// with their addresses, because the tree may show those of another namespace.
std::vector<Interface> read_interfaces(const SysTree& tree, bool live);

/// Reads /sys/class/net/<name>. It is a part of read_interfaces and declared for tests.
Interface read_interface_from_sys(const SysTree& tree, const std::string& name);

}  // namespace tombolo::topology
