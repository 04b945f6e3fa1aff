#include "topology/judge/usability_rdma.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/format.h"
#include "base/units.h"

namespace tombolo::topology {
namespace {

/// The GIDs of the port that belong to the interface; all GIDs where the kernel does not say whose they are.
std::vector<Gid> gids_of(const RdmaPort& port, const std::string& interface) {
  std::vector<Gid> own;
  for (const Gid& gid : port.nic.gids) {
    auto owner = port.interface_of_gid.find(gid.index);
    if (owner == port.interface_of_gid.end() ? interface == port.interface : owner->second == interface)
      own.push_back(gid);
  }
  return own;
}

/// Converts "0000:0000:0000:0000:0000:ffff:0a02:000a" to "10.2.0.10".
std::optional<std::string> v4_of_gid(const std::string& gid) {
  constexpr std::string_view kMapped = "0000:0000:0000:0000:0000:ffff:";
  if (!gid.starts_with(kMapped) || gid.size() != kMapped.size() + 9) return std::nullopt;
  auto byte = [&](std::size_t at) {
    int value = 0;
    std::from_chars(gid.data() + kMapped.size() + at, gid.data() + kMapped.size() + at + 2, value, 16);
    return value;
  };
  return fmt::format("{}.{}.{}.{}", byte(0), byte(2), byte(5), byte(7));
}

/// Gives the interface the RDMA facts of its port.
void join_port(Nic& nic, const RdmaPort& on, bool addresses_known) {
  const Nic& port = on.nic;
  nic.rdma_device = port.rdma_device;
  nic.rdma_port = port.rdma_port;
  nic.kind = port.kind;
  nic.gids = gids_of(on, nic.name);
  for (const Gid& gid : nic.gids) {
    if (port.kind != NicKind::kRoce) break;
    nic.roce_v1 |= gid.type != "RoCE v2";
    nic.roce_v2 |= gid.type == "RoCE v2";
    // A recording without /proc/net still has the addresses, in the GIDs.
    if (auto address = v4_of_gid(gid.value);
        address && !addresses_known &&
        std::find(nic.addresses.begin(), nic.addresses.end(), *address) == nic.addresses.end()) {
      nic.addresses.push_back(*address);
    }
  }
  nic.fabric = port.fabric;
  // RoCE v1 passes no router, so its fabric is one network.
  if (nic.roce_v1 && !nic.roce_v2 && !nic.networks.empty()) nic.fabric += "-" + nic.networks.front();
  // A bond's rate is the sum of its members' rates; its port reports that of one.
  const bool faster_bond = nic.role == NicRole::kBond && nic.rate_bits_per_second > port.rate_bits_per_second;
  if (port.rate_bits_per_second != 0 && !faster_bond) nic.rate_bits_per_second = port.rate_bits_per_second;
  if (nic.pci_path.empty()) nic.pci_path = port.pci_path;
  if (nic.driver.empty()) nic.driver = port.driver;
  if (!nic.numa_node) nic.numa_node = port.numa_node;
}

/// Used where the port does not work but the interface on it does. The RDMA device's name is kept.
void fall_back_to_tcp(Nic& nic, const RdmaPort& port, const Interface& interface) {
  nic.kind = NicKind::kTcp;
  nic.roce_v1 = nic.roce_v2 = false;
  nic.gids.clear();
  if (port.nic.kind != NicKind::kInfiniBand) {
    nic.fabric.clear();
  } else if (!interface.infiniband_prefix.empty()) {
    nic.fabric = fmt::format("infiniband-{}", interface.infiniband_prefix);
  }
  nic.reason += fmt::format(" (without {} of {}: {})", nic_kind_name(port.nic.kind), port.nic.rdma_device,
                            port.problem);
}

/// Decides for a NIC whose port has a usable kind of RDMA. `interface` is the one on the port, or null.
void judge_port(Nic& nic, const RdmaPort& port, const Interface* interface) {
  // What keeps InfiniBand's own port down also keeps IP on it down, whatever its interface says.
  const bool carries_ip = port.nic.kind != NicKind::kInfiniBand || port.nic.state == NicState::kUp;
  if (!port.problem.empty() && interface != nullptr && nic.usable && carries_ip)
    return fall_back_to_tcp(nic, port, *interface);
  if (!port.problem.empty()) {
    nic.usable = false;
    nic.state = port.nic.state == NicState::kUp ? nic.state : port.nic.state;
    nic.reason = port.problem;
    return;
  }
  std::string more;
  if (nic.role == NicRole::kVirtualFunction) {
    more = ", virtual function";
    if (interface != nullptr && !interface->what.empty()) more = ", " + interface->what;
  }
  if (nic.kind == NicKind::kInfiniBand) {
    // InfiniBand carries RDMA whatever state its IP interface is in.
    nic.usable = true;
    nic.state = port.nic.state;
    if (interface == nullptr) more += ", without an IP interface";
  } else if (interface == nullptr) {
    nic.usable = false;
    nic.reason = port.interface.empty()
                     ? "has no network interface, and so no address"
                     : fmt::format("its interface {} is not in this network namespace", port.interface);
    return;
  } else if (!nic.usable) {
    return;  // RoCE and iWARP need an address, so the interface's verdict stands
  }
  if (nic.role == NicRole::kBond) more += fmt::format(", bond of {}", fmt::join(interface->members, " and "));
  if (nic.role == NicRole::kVlan) more += fmt::format(", VLAN on {}", interface->lower);
  nic.reason = offer_text(nic) + more;
}

/// The interface that stands for the port: the bond where the kernel names only its first member.
std::string main_interface(const RdmaPort& port, const std::vector<Interface>& interfaces) {
  const Interface* named = find_interface(interfaces, port.interface);
  const bool of_bond = port.nic.rdma_device.find("bond") != std::string::npos;
  if (named == nullptr || !of_bond || named->master.empty()) return port.interface;
  const Interface* master = find_interface(interfaces, named->master);
  return master != nullptr && master->nic.role == NicRole::kBond ? master->nic.name : port.interface;
}

/// A VLAN on a RoCE port has GIDs of its own there, and so is a RoCE NIC too.
void join_vlans(std::vector<Nic>& nics, const RdmaPort& port, const std::string& main,
                const std::vector<Interface>& interfaces) {
  for (Nic& nic : nics) {
    if (nic.role != NicRole::kVlan || nic.name == main || !nic.rdma_device.empty()) continue;
    if (port.nic.kind != NicKind::kRoce || gids_of(port, nic.name).empty()) continue;
    const Interface* interface = find_interface(interfaces, nic.name);
    join_port(nic, port, interface->addresses_known);
    judge_port(nic, port, interface);
  }
}

}  // namespace

const Interface* find_interface(const std::vector<Interface>& all, const std::string& name) {
  auto found =
      std::find_if(all.begin(), all.end(), [&](const Interface& one) { return one.nic.name == name; });
  return found != all.end() ? &*found : nullptr;
}

std::string offer_text(const Nic& nic) {
  std::string kind;
  switch (nic.kind) {
    case NicKind::kInfiniBand:
      kind = "InfiniBand";
      break;
    case NicKind::kRoce:
      kind = nic.roce_v2 ? (nic.roce_v1 ? "RoCE v1 and v2" : "RoCE v2") : (nic.roce_v1 ? "RoCE v1" : "RoCE");
      break;
    case NicKind::kIwarp:
      kind = "iWARP";
      break;
    case NicKind::kTcp:
      kind = "TCP";
      break;
  }
  if (nic.rate_bits_per_second == 0) return kind + ", up";
  return fmt::format("{} at {}", kind, format_bit_rate(static_cast<double>(nic.rate_bits_per_second) / 8));
}

void add_port(std::vector<Nic>& nics, RdmaPort port, const std::vector<Interface>& interfaces) {
  const std::string main = main_interface(port, interfaces);
  if (main != port.interface) {  // the GIDs are the bond's
    port.interface_of_gid.clear();
    port.interface = main;
  }
  auto nic = std::find_if(nics.begin(), nics.end(), [&](const Nic& one) { return one.name == main; });
  const bool supported = !port.nic.fabric.empty(), here = nic != nics.end();
  if (!here || !nic->rdma_device.empty()) {
    nics.push_back(port.nic);
    judge_port(nics.back(), port, nullptr);
    // This case is two devices below a bond that is not their NIC's own.
    if (here && supported && nics.back().kind != NicKind::kInfiniBand && port.problem.empty())
      nics.back().reason = fmt::format("its interface {} has an RDMA device already", main);
    return;
  }
  if (!supported) {  // the interface still carries TCP
    nic->reason += fmt::format(" ({} is {})", port.nic.rdma_device, port.problem);
    return;
  }
  const Interface* interface = find_interface(interfaces, main);
  join_port(*nic, port, interface->addresses_known);
  judge_port(*nic, port, interface);
  join_vlans(nics, port, main, interfaces);
}

void judge_ipoib(std::vector<Nic>& nics, const std::vector<Interface>& interfaces) {
  for (Nic& nic : nics) {
    const Interface* interface = find_interface(interfaces, nic.name);
    if (interface == nullptr || interface->infiniband_prefix.empty() || !nic.rdma_device.empty()) continue;
    nic.fabric = "infiniband-" + interface->infiniband_prefix;
    auto port = std::find_if(nics.begin(), nics.end(), [&](const Nic& one) {
      return one.usable && one.kind == NicKind::kInfiniBand && !nic.pci_path.empty() &&
             one.pci_path == nic.pci_path;
    });
    if (!nic.usable) continue;
    if (port == nics.end()) {
      nic.reason += ", IP over InfiniBand whose RDMA port is not visible here";
      continue;
    }
    nic.usable = false;
    nic.reason = fmt::format(
        "another partition of the port that {} stands for; name it in a cluster file to use it", port->name);
  }
}

void set_functions_aside(std::vector<Nic>& nics,
                         const std::map<std::string, std::string>& physical_functions) {
  for (Nic& nic : nics) {
    auto physical = physical_functions.find(nic.name);
    if (!nic.usable || physical == physical_functions.end() || physical->second.empty()) continue;
    auto owner = std::find_if(nics.begin(), nics.end(), [&](const Nic& one) {
      return one.usable && one.role == NicRole::kPhysical && one.kind <= nic.kind &&
             one.pci_path.substr(one.pci_path.rfind('/') + 1) == physical->second;
    });
    if (owner == nics.end()) continue;
    nic.usable = false;
    nic.reason = fmt::format(
        "virtual function of {}, whose wire is used as {} already; name it in a cluster file to "
        "use it",
        physical->second, owner->name);
  }
}

}  // namespace tombolo::topology
