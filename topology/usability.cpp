#include "topology/usability.h"

#include <algorithm>

#include "base/format.h"
#include "base/units.h"

namespace tombolo::topology {
namespace {

struct Verdict {
  bool usable = false;
  std::string reason;
};

bool is_link_local(const std::string& address) {
  return address.find('%') != std::string::npos || address.starts_with("169.254.");
}

const Interface* find(const std::vector<Interface>& all, const std::string& name) {
  auto found =
      std::find_if(all.begin(), all.end(), [&](const Interface& one) { return one.nic.name == name; });
  return found != all.end() ? &*found : nullptr;
}

/// The physical interface that a bridge or bond lies on, if any.
const Interface* physical_member(const Interface& interface, const std::vector<Interface>& all) {
  for (const auto& name : interface.members) {
    const Interface* member = find(all, name);
    if (member != nullptr && (member->nic.role == NicRole::kPhysical || member->nic.role == NicRole::kBond)) {
      return member;
    }
  }
  return nullptr;
}

std::string down_reason(const Interface& interface) {
  const Nic& nic = interface.nic;
  if (!interface.enabled) return fmt::format("switched off; to use it: ip link set {} up", nic.name);
  switch (nic.role) {
    case NicRole::kBond:
      return "down: no member of the bond has a link; look at /proc/net/bonding/" + nic.name;
    case NicRole::kVlan:
      return fmt::format("down: {} below it has no link",
                         interface.lower.empty() ? "the interface" : interface.lower);
    case NicRole::kContainerBridge:
      return "a bridge that nothing is connected to";
    default:
      return "no link; check the cable, the module and the switch port";
  }
}

/// What the NIC offers, for the reason of a usable one.
std::string praise(const Nic& nic) {
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

/// Nothing here depends on what else there is but for bonds and bridges.
Verdict judge_interface(const Interface& interface, const std::vector<Interface>& all) {
  const Nic& nic = interface.nic;
  std::string what = interface.what.empty() ? std::string(nic_role_name(nic.role)) : interface.what;
  const Interface* bridged = nullptr;
  if (nic.role == NicRole::kContainerBridge) bridged = physical_member(interface, all);

  if (!interface.master.empty()) {
    const Interface* master = find(all, interface.master);
    bool bond = master != nullptr && master->nic.role == NicRole::kBond;
    return {false,
            fmt::format("belongs to {} {}, which {}", bond ? "bond" : "bridge", interface.master,
                        bond || nic.role == NicRole::kPhysical ? "carries its traffic"
                                                               : "connects containers or virtual machines")};
  }
  if (nic.role == NicRole::kLoopback) return {false, "loopback: reaches only this machine"};
  if (nic.state == NicState::kDown) {
    return {false, interface.what.empty() ? down_reason(interface)
                                          : fmt::format("{}: {}", what, down_reason(interface))};
  }
  switch (nic.role) {
    case NicRole::kContainerBridge:
      if (bridged != nullptr) break;
      return {false, fmt::format("{} for containers or virtual machines: leads to no other machine", what)};
    case NicRole::kVirtual:
      return {false, fmt::format("virtual ({}); name it in a cluster file to use it", what)};
    case NicRole::kTunnel:
      return {
          false,
          fmt::format("{}: its bytes cross another NIC anyway; name it in a cluster file to use it", what)};
    default:
      break;
  }
  if (interface.addresses_known && nic.addresses.empty()) {
    return {false,
            fmt::format("has no IP address; to use it: ip address add <address>/<length> dev {}", nic.name)};
  }
  if (interface.addresses_known && std::all_of(nic.addresses.begin(), nic.addresses.end(), is_link_local)) {
    return {
        false,
        "has only link-local addresses (a management controller, or no DHCP answer); give it an address to "
        "use it"};
  }
  std::string more;
  if (bridged != nullptr) more = fmt::format(", bridge over {}", bridged->nic.name);
  if (nic.role == NicRole::kVlan && !interface.lower.empty())
    more = fmt::format(", VLAN on {}", interface.lower);
  if (nic.role == NicRole::kBond)
    more = fmt::format(", {} of {}", what, fmt::join(interface.members, " and "));
  if (nic.role == NicRole::kVirtualFunction) more = ", " + what;
  if (interface.wireless) more = ", wireless: slow and unsteady";
  return {true, praise(nic) + more};
}

/// VLANs and bridges do not tell a speed of their own on every kernel.
void inherit_rate(std::vector<Interface>& all) {
  for (auto& interface : all) {
    if (interface.nic.rate_bits_per_second != 0) continue;
    const Interface* below = nullptr;
    if (interface.nic.role == NicRole::kVlan) below = find(all, interface.lower);
    if (interface.nic.role == NicRole::kContainerBridge) below = physical_member(interface, all);
    if (below != nullptr) interface.nic.rate_bits_per_second = below->nic.rate_bits_per_second;
  }
}

/// Gives the interface the RDMA facts of its port.
void join(Nic& nic, const Nic& port) {
  nic.rdma_device = port.rdma_device;
  nic.rdma_port = port.rdma_port;
  nic.kind = port.kind;
  nic.roce_v1 = port.roce_v1;
  nic.roce_v2 = port.roce_v2;
  nic.gids = port.gids;
  nic.fabric = port.fabric;
  if (port.rate_bits_per_second != 0) nic.rate_bits_per_second = port.rate_bits_per_second;
  if (nic.pci_path.empty()) nic.pci_path = port.pci_path;
  if (nic.driver.empty()) nic.driver = port.driver;
  if (!nic.numa_node) nic.numa_node = port.numa_node;
}

/// With nothing better, a veth or a tunnel is what there is (a container, an emulated host); then loopback.
void promote(std::vector<Nic>& nics, const std::vector<Interface>& interfaces) {
  if (std::any_of(nics.begin(), nics.end(), [](const Nic& nic) { return nic.usable; })) return;
  auto try_roles = [&](auto fits, std::string_view why) {
    bool any = false;
    for (auto& nic : nics) {
      const Interface* interface = find(interfaces, nic.name);
      if (interface == nullptr || !fits(nic.role) || !interface->master.empty()) continue;
      if (nic.state == NicState::kDown || (interface->addresses_known && nic.addresses.empty())) continue;
      if (nic.role != NicRole::kLoopback && interface->addresses_known &&
          std::all_of(nic.addresses.begin(), nic.addresses.end(), is_link_local)) {
        continue;
      }
      nic.usable = any = true;
      nic.reason = fmt::format("{}: {}", interface->what, why);
    }
    return any;
  };
  bool virtual_ones =
      try_roles([](NicRole role) { return role == NicRole::kVirtual || role == NicRole::kTunnel; },
                "used because nothing better is here, as in a container or an emulated host");
  if (!virtual_ones) {
    try_roles([](NicRole role) { return role == NicRole::kLoopback; },
              "used because nothing else is here; it reaches only ranks on this machine");
  }
}

/// Decides for a NIC with a usable kind of RDMA port. `interface` is the one on the port, if it is here.
void judge_port(Nic& nic, const RdmaPort& port, const Interface* interface) {
  if (!port.problem.empty()) {
    nic.usable = false;
    nic.state = port.nic.state == NicState::kUp ? nic.state : port.nic.state;
    nic.reason = port.problem;
    return;
  }
  std::string more;
  if (nic.role == NicRole::kVirtualFunction) more = ", virtual function";
  if (nic.kind == NicKind::kInfiniBand) {
    // InfiniBand carries RDMA whatever its IP interface does.
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
    return;  // RoCE and iWARP need the address, so the interface's verdict stands
  }
  if (nic.role == NicRole::kBond) more += fmt::format(", bond of {}", fmt::join(interface->members, " and "));
  nic.reason = praise(nic) + more;
}

/// A RoCE or iWARP NIC is an Ethernet NIC too. Beside a plain one it is taken to be on a network of its own,
/// as in training clusters; as the only way out of the host it is on the network that everybody shares.
void share_only_way(std::vector<Nic>& nics) {
  bool plain = std::any_of(nics.begin(), nics.end(),
                           [](const Nic& nic) { return nic.usable && nic.kind == NicKind::kTcp; });
  if (plain) return;
  for (auto& nic : nics) {
    if (nic.usable && nic.kind != NicKind::kInfiniBand) nic.fabric.clear();
  }
}

}  // namespace

std::vector<Nic> judge(std::vector<Interface> interfaces, std::vector<RdmaPort> ports) {
  inherit_rate(interfaces);
  std::vector<Nic> nics;
  for (const auto& interface : interfaces) {
    Nic nic = interface.nic;
    Verdict verdict = judge_interface(interface, interfaces);
    nic.usable = verdict.usable;
    nic.reason = std::move(verdict.reason);
    nics.push_back(std::move(nic));
  }
  for (const auto& port : ports) {
    auto nic =
        std::find_if(nics.begin(), nics.end(), [&](const Nic& one) { return one.name == port.interface; });
    bool joined = nic != nics.end() && nic->rdma_device.empty();
    if (joined &&
        port.nic.fabric.empty()) {  // a device that Tombolo does not speak to: the interface stays TCP
      nic->reason += fmt::format(" ({} is {})", port.nic.rdma_device, port.problem);
      continue;
    }
    if (joined) {
      join(*nic, port.nic);
      judge_port(*nic, port, find(interfaces, port.interface));
    } else {
      nics.push_back(port.nic);
      judge_port(nics.back(), port, nullptr);
    }
  }
  promote(nics, interfaces);
  share_only_way(nics);
  return nics;
}

}  // namespace tombolo::topology
