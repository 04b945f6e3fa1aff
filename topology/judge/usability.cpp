#include "topology/judge/usability.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "topology/judge/usability_rdma.h"

namespace tombolo::topology {
namespace {

struct Verdict {
  bool usable = false;
  std::string reason;
};

bool is_link_local(const std::string& address) {
  return address.find('%') != std::string::npos || address.starts_with("169.254.");
}

/// The physical interface below a bridge or bond; null where there is none.
const Interface* physical_member(const Interface& interface, const std::vector<Interface>& all) {
  for (const auto& name : interface.members) {
    const Interface* member = find_interface(all, name);
    if (member != nullptr && (member->nic.role == NicRole::kPhysical || member->nic.role == NicRole::kBond)) {
      return member;
    }
  }
  return nullptr;
}

/// Whether it is a VRF, which groups interfaces for routing while each still carries its own traffic.
bool is_vrf(const Interface* interface) {
  return interface != nullptr && interface->what == "VRF";
}

/// Whether it is a synthetic NIC of Hyper-V or virtio's failover, whose bytes the function below it carries
/// when that is present.
bool is_synthetic(const Interface* interface) {
  return interface != nullptr && interface->nic.role == NicRole::kPhysical;
}

std::string reason_of_member(const Interface& interface, const Interface* master) {
  if (is_synthetic(master)) {
    return fmt::format("the accelerated half of {} ({}), which has the address and stands for both",
                       interface.master, master->what.empty() ? master->nic.driver : master->what);
  }
  const bool bond = master != nullptr && master->nic.role == NicRole::kBond;
  const bool hardware =
      interface.nic.role == NicRole::kPhysical || interface.nic.role == NicRole::kVirtualFunction;
  return fmt::format("belongs to {} {}, which {}", bond ? "bond" : "bridge", interface.master,
                     bond || hardware ? "carries its traffic" : "connects containers or virtual machines");
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

/// Judges an interface by itself; the others matter for bonds and bridges only.
Verdict judge_interface(const Interface& interface, const std::vector<Interface>& all) {
  const Nic& nic = interface.nic;
  std::string what = interface.what.empty() ? std::string(nic_role_name(nic.role)) : interface.what;
  const Interface* bridged = nullptr;
  if (nic.role == NicRole::kContainerBridge) bridged = physical_member(interface, all);

  if (interface.representor)
    return {
        false,
        fmt::format("{}: the card's own switch reaches that function by it, no network is behind it", what)};
  if (!interface.master.empty() && !is_vrf(find_interface(all, interface.master)))
    return {false, reason_of_member(interface, find_interface(all, interface.master))};
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
  if (nic.role == NicRole::kVirtualFunction || (nic.role == NicRole::kPhysical && !interface.what.empty()))
    more = ", " + what;
  if (is_vrf(find_interface(all, interface.master))) more += fmt::format(", in VRF {}", interface.master);
  if (interface.wireless) more = ", wireless: slow and unsteady";
  return {true, offer_text(nic) + more};
}

/// The hardware below an interface: below a VLAN its lower interface, below a bridge or bond its member,
/// below a synthetic NIC the function.
const Interface* hardware_below(const Interface& interface, const std::vector<Interface>& all) {
  const NicRole role = interface.nic.role;
  if (role == NicRole::kContainerBridge) return physical_member(interface, all);
  if (role == NicRole::kBond)
    return interface.members.empty() ? nullptr : find_interface(all, interface.members.front());
  if (role == NicRole::kVlan || role == NicRole::kPhysical) return find_interface(all, interface.lower);
  return nullptr;
}

/// Gives VLANs and bridges the speed, PCI function and NUMA node of the hardware below: on some kernels they
/// have no speed of their own, and they never have the others. A VLAN may lie on a bond, so there are two
/// rounds.
void inherit(std::vector<Interface>& all) {
  for (int round = 0; round < 2; ++round) {
    for (auto& interface : all) {
      const Interface* below = hardware_below(interface, all);
      if (below == nullptr) continue;
      Nic& nic = interface.nic;
      if (nic.rate_bits_per_second == 0 && nic.role != NicRole::kBond)
        nic.rate_bits_per_second = below->nic.rate_bits_per_second;
      if (nic.pci_path.empty()) nic.pci_path = below->nic.pci_path;
      if (!nic.numa_node) nic.numa_node = below->nic.numa_node;
      if (nic.driver.empty() && nic.role != NicRole::kContainerBridge) nic.driver = below->nic.driver;
    }
  }
}

/// Where no NIC is usable, makes veths and tunnels usable (in a container, or on an emulated host); where
/// there are none either, loopback.
void promote(std::vector<Nic>& nics, const std::vector<Interface>& interfaces) {
  if (std::any_of(nics.begin(), nics.end(), [](const Nic& nic) { return nic.usable; })) return;
  auto try_roles = [&](auto fits, std::string_view why) {
    bool any = false;
    for (auto& nic : nics) {
      const Interface* interface = find_interface(interfaces, nic.name);
      if (interface == nullptr || !fits(nic.role) || !interface->master.empty() || interface->representor)
        continue;
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

/// A RoCE or iWARP NIC is an Ethernet NIC as well. Where the host also has a plain one, the RDMA NIC is
/// assumed to be on a network of its own, as in training clusters. Where it has none, the RDMA NIC is on the
/// fabric that all hosts share.
void share_fabric_of_sole_nics(std::vector<Nic>& nics) {
  bool plain =
      std::any_of(nics.begin(), nics.end(), [](const Nic& nic) { return nic.usable && nic.fabric.empty(); });
  if (plain) return;
  for (auto& nic : nics) {
    if (nic.usable && (nic.kind == NicKind::kRoce || nic.kind == NicKind::kIwarp)) nic.fabric.clear();
  }
}

}  // namespace

std::vector<Nic> judge(std::vector<Interface> interfaces, std::vector<RdmaPort> ports) {
  inherit(interfaces);
  std::vector<Nic> nics;
  std::map<std::string, std::string> physical_functions;
  for (const auto& interface : interfaces) {
    Nic nic = interface.nic;
    Verdict verdict = judge_interface(interface, interfaces);
    nic.usable = verdict.usable;
    nic.reason = std::move(verdict.reason);
    nics.push_back(std::move(nic));
    physical_functions[interface.nic.name] = interface.physical_function;
  }
  for (auto& port : ports) {
    physical_functions[port.nic.name] = port.physical_function;
    add_port(nics, std::move(port), interfaces);
  }
  judge_ipoib(nics, interfaces);
  set_functions_aside(nics, physical_functions);
  promote(nics, interfaces);
  share_fabric_of_sole_nics(nics);
  return nics;
}

}  // namespace tombolo::topology
