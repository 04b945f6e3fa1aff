// The IP networks, routes and addresses of each interface, from /proc/net of this machine or of a recorded
// tree.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "topology/system/sys_tree.h"

namespace tombolo::topology {

/// What one interface reaches by IP. Prefixes are written "10.2.0.0/24" and "fd00:2::/64", IPv4 first;
/// link-local and multicast ones are left out.
struct IpFacts {
  std::vector<std::string> networks;   ///< without a router
  std::vector<std::string> routes;     ///< through a router; "0.0.0.0/0" is the default route. At most 64
  std::vector<std::string> addresses;  ///< without prefix length
};

/// Reads the facts of each interface. Of IPv4's routing tables only the main one is read. `*addresses_known`
/// says whether the tree has addresses (for a live machine the kernel is asked instead).
std::map<std::string, IpFacts> read_ip_facts(const SysTree& tree, bool* addresses_known);

/// Whether an address ("10.2.0.10") lies in a prefix ("10.2.0.0/24"); false for texts of another form.
bool is_within(std::string_view address, std::string_view prefix) noexcept;

}  // namespace tombolo::topology
