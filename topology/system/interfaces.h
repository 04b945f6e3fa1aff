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
  bool representor = false;  ///< the end of another function at the card's switch, on the host that owns it
  bool addresses_known = false;  ///< a recorded tree need not tell them
};

/// Every interface, in the order of their names. `live`: those of this process's network namespace, with
/// addresses; the tree may show another namespace's.
std::vector<Interface> read_interfaces(const SysTree& tree, bool live);

/// What /sys/class/net/<name> says. Part of read_interfaces, for tests.
Interface read_interface_from_sys(const SysTree& tree, const std::string& name);

}  // namespace tombolo::topology
