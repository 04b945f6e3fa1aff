#include "topology/system/interfaces.h"

#include <linux/if_arp.h>

#include <algorithm>
#include <array>
#include <utility>

#include "topology/system/interfaces_kernel.h"
#include "topology/system/routes.h"

namespace tombolo::topology {
namespace {

struct TypeName {
  std::string_view name;
  NicRole role;
  std::string_view what;
};

// DEVTYPE in uevent, as the kernel's drivers set it.
constexpr std::array<TypeName, 13> kDeviceTypes{{{"bridge", NicRole::kContainerBridge, "bridge"},
                                                 {"bond", NicRole::kBond, "bond"},
                                                 {"vlan", NicRole::kVlan, "VLAN"},
                                                 {"macvlan", NicRole::kVirtual, "macvlan"},
                                                 {"ipvlan", NicRole::kVirtual, "ipvlan"},
                                                 {"vxlan", NicRole::kTunnel, "VXLAN tunnel"},
                                                 {"geneve", NicRole::kTunnel, "Geneve tunnel"},
                                                 {"wireguard", NicRole::kTunnel, "WireGuard tunnel"},
                                                 {"gretap", NicRole::kTunnel, "GRE tunnel"},
                                                 {"ip6gretap", NicRole::kTunnel, "GRE tunnel"},
                                                 {"ppp", NicRole::kTunnel, "PPP link"},
                                                 {"vrf", NicRole::kVirtual, "VRF"},
                                                 {"team", NicRole::kBond, "team"}}};

// Names that ETHTOOL_GDRVINFO gives for devices without hardware.
constexpr std::array<TypeName, 14> kSoftwareDrivers{
    {{"veth", NicRole::kVirtual, "veth pair"},
     {"dummy", NicRole::kVirtual, "dummy"},
     {"ifb", NicRole::kVirtual, "ifb"},
     {"macvlan", NicRole::kVirtual, "macvlan"},
     {"ipvlan", NicRole::kVirtual, "ipvlan"},
     {"tun", NicRole::kTunnel, "TUN/TAP tunnel"},
     {"vxlan", NicRole::kTunnel, "VXLAN tunnel"},
     {"geneve", NicRole::kTunnel, "Geneve tunnel"},
     {"wireguard", NicRole::kTunnel, "WireGuard tunnel"},
     {"bridge", NicRole::kContainerBridge, "bridge"},
     {"openvswitch", NicRole::kContainerBridge, "Open vSwitch bridge"},
     {"bonding", NicRole::kBond, "bond"},
     {"team", NicRole::kBond, "team"},
     {"802.1Q VLAN Support", NicRole::kVlan, "VLAN"}}};

struct CloudNic {
  std::string_view driver, what;
};

// NICs that a hypervisor presents: the guest sees Ethernet, whatever carries it.
constexpr std::array<CloudNic, 7> kCloudNics{{{"virtio_net", "virtio NIC of a virtual machine"},
                                              {"ena", "AWS ENA"},
                                              {"gve", "Google gVNIC"},
                                              {"hv_netvsc", "Hyper-V or Azure synthetic NIC"},
                                              {"mana", "Azure MANA"},
                                              {"vmxnet3", "VMware vmxnet3"},
                                              {"vif", "Xen NIC"}}};

/// Whether the hardware type is that of a tunnel, which no other mark shows.
bool is_tunnel_type(std::int64_t type) {
  constexpr std::array<std::int64_t, 6> kTypes{ARPHRD_TUNNEL, ARPHRD_TUNNEL6, ARPHRD_SIT,
                                               ARPHRD_IPGRE,  ARPHRD_IP6GRE,  ARPHRD_NONE};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

template <std::size_t N>
bool apply(Interface& interface, const std::array<TypeName, N>& table, std::string_view name) {
  for (const auto& entry : table) {
    if (entry.name != name) continue;
    interface.nic.role = entry.role;
    interface.what = entry.what;
    return true;
  }
  return false;
}

std::vector<std::string> lower_names(const SysTree& tree, const std::string& folder) {
  std::vector<std::string> all;
  for (const auto& name : tree.names(folder)) {
    if (name.starts_with("lower_")) all.push_back(name.substr(6));
  }
  return all;
}

/// Whether it is the name of a representor, such as "pf0vf3" or "c1pf0sf88"; an uplink is "p0".
bool is_representor_name(std::string_view name) {
  auto digits = [&](std::string_view before) {
    if (!name.starts_with(before)) return false;
    name.remove_prefix(before.size());
    const auto count = std::min(name.find_first_not_of("0123456789"), name.size());
    name.remove_prefix(count);
    return count > 0;
  };
  if (name.starts_with('c') && !digits("c")) return false;
  return digits("pf") && (digits("vf") || digits("sf")) && name.empty();
}

/// Takes the subnet prefix from IP over InfiniBand's hardware address: four bytes, then the port's GID.
std::string prefix_of_ipoib(const std::string& hardware_address) {
  constexpr std::size_t kGidAt = 3 * 4, kLength = 3 * 20 - 1;
  if (hardware_address.size() != kLength) return {};
  std::string prefix;
  for (std::size_t i = 0; i < 8; ++i) {
    if (i > 0 && i % 2 == 0) prefix += ':';
    prefix += hardware_address.substr(kGidAt + 3 * i, 2);
  }
  return prefix;
}

/// Finds out what the interface is, by the marks that the kernel leaves in /sys.
void read_role(const SysTree& tree, const std::string& folder, Interface& interface) {
  std::int64_t type = tree.integer(folder + "/type").value_or(ARPHRD_ETHER);
  std::string device_type = tree.uevent(folder + "/uevent", "DEVTYPE");
  auto lowers = lower_names(tree, folder);
  if (!lowers.empty()) interface.lower = lowers.front();
  interface.wireless = device_type == "wlan" || tree.exists(folder + "/wireless");
  if (type == ARPHRD_LOOPBACK) {
    interface.nic.role = NicRole::kLoopback;
    interface.what = "loopback";
  } else if (tree.exists(folder + "/bonding")) {
    apply(interface, kDeviceTypes, "bond");
  } else if (tree.exists(folder + "/bridge")) {
    apply(interface, kDeviceTypes, "bridge");
  } else if (tree.exists(folder + "/tun_flags")) {
    apply(interface, kSoftwareDrivers, "tun");
  } else if (apply(interface, kDeviceTypes, device_type)) {
  } else if (tree.exists(folder + "/device")) {
    auto pci = read_pci_facts(tree, folder + "/device");
    interface.nic.role = pci.virtual_function ? NicRole::kVirtualFunction : NicRole::kPhysical;
    interface.physical_function = pci.physical_function;
    const std::string port = tree.text(folder + "/phys_port_name").value_or("");
    auto cloud = std::find_if(kCloudNics.begin(), kCloudNics.end(),
                              [&](const CloudNic& nic) { return nic.driver == pci.driver; });
    if (is_representor_name(port)) {
      interface.nic.role = NicRole::kVirtual;
      interface.representor = true;
      interface.what = "representor of " + port;
    } else if (cloud != kCloudNics.end()) {
      interface.what = cloud->what;
    } else if (pci.virtual_function) {
      interface.what = pci.physical_function.empty() ? "virtual function of a card that the host shares out"
                                                     : "virtual function of " + pci.physical_function;
    }
  } else if (is_tunnel_type(type)) {
    interface.nic.role = NicRole::kTunnel;
    interface.what = "tunnel";
  } else {
    interface.nic.role = NicRole::kVirtual;
    auto index = tree.integer(folder + "/ifindex");
    auto peer = tree.integer(folder + "/iflink");
    if (!lowers.empty()) {
      interface.what = "macvlan";
    } else if (index && peer && *index != *peer) {
      interface.what = "veth pair";  // its peer's index, possibly in another namespace
    } else {
      interface.what = interface.nic.name.starts_with("dummy") ? "dummy" : "software device";
    }
  }
  if (interface.nic.role == NicRole::kBond) interface.members = lowers;
  if (interface.nic.role == NicRole::kContainerBridge) interface.members = tree.names(folder + "/brif");
}

void read_state(const SysTree& tree, const std::string& folder, Interface& interface) {
  std::int64_t flags = tree.integer(folder + "/flags").value_or(0);
  interface.enabled = (flags & IFF_UP) != 0;
  std::string state = tree.text(folder + "/operstate").value_or("");
  if (state == "up") {
    interface.nic.state = NicState::kUp;
  } else if (state == "unknown") {  // software devices have no carrier to report
    interface.nic.state = interface.enabled ? NicState::kUp : NicState::kDown;
  } else if (state == "down" || state == "lowerlayerdown" || state == "notpresent" || state == "dormant" ||
             state == "testing") {
    interface.nic.state = NicState::kDown;
  }
}

/// Only what lies on hardware has a speed: veth claims 10 Gbit/s and TUN 10 Mbit/s.
bool has_own_speed(NicRole role) {
  return role == NicRole::kPhysical || role == NicRole::kVirtualFunction || role == NicRole::kBond ||
         role == NicRole::kVlan;
}

}  // namespace

Interface read_interface_from_sys(const SysTree& tree, const std::string& name) {
  const std::string folder = "/sys/class/net/" + name;
  Interface interface;
  Nic& nic = interface.nic;
  nic.name = name;
  interface.index =
      static_cast<int>(std::clamp<std::int64_t>(tree.integer(folder + "/ifindex").value_or(0), 0, 1 << 30));
  interface.hardware_address = tree.text(folder + "/address").value_or("");
  interface.master = tree.link_name(folder + "/master");
  if (tree.integer(folder + "/type") == ARPHRD_INFINIBAND)
    interface.infiniband_prefix = prefix_of_ipoib(interface.hardware_address);
  read_role(tree, folder, interface);
  read_state(tree, folder, interface);
  auto pci = read_pci_facts(tree, folder + "/device");
  nic.driver = pci.driver;
  nic.numa_node = pci.numa_node;
  nic.pci_path = pci.path;
  constexpr std::int64_t kLargestSpeed = 100'000'000;  // 100 Tbit/s in Mbit/s; a larger value is garbage
  if (auto speed = tree.integer(folder + "/speed");
      has_own_speed(nic.role) && speed && *speed > 0 && *speed <= kLargestSpeed) {
    nic.rate_bits_per_second = static_cast<std::uint64_t>(*speed) * 1'000'000;
  }
  if (auto mtu = tree.integer(folder + "/mtu"); mtu && *mtu >= 68 && *mtu <= 1 << 20)
    nic.mtu = static_cast<int>(*mtu);
  return interface;
}

std::vector<Interface> read_interfaces(const SysTree& tree, bool live) {
  std::vector<Interface> all;
  bool addresses_known = false;
  auto ip_facts = read_ip_facts(tree, &addresses_known);
  if (!live) {
    for (const auto& name : tree.names("/sys/class/net")) {
      // The folder also holds the file "bonding_masters".
      if (tree.names("/sys/class/net/" + name).empty()) continue;
      Interface interface = read_interface_from_sys(tree, name);
      interface.addresses_known = addresses_known;
      interface.nic.addresses = ip_facts[name].addresses;
      interface.nic.networks = ip_facts[name].networks;
      interface.nic.routes = ip_facts[name].routes;
      all.push_back(std::move(interface));
    }
    return all;
  }
  KernelInterfaces kernel;
  for (const auto& [name, index] : kernel.list()) {
    Interface interface = read_interface_from_sys(tree, name);
    // In a network namespace /sys may still show the interfaces of another one, which may have the same
    // names.
    if (interface.index == index && kernel.has_hardware_address(name, interface.hardware_address)) {
      kernel.read_state(interface);
      // The driver's own name is more reliable than the marks in /sys.
      if (interface.nic.role == NicRole::kVirtual) apply(interface, kSoftwareDrivers, kernel.driver(name));
    } else {
      interface = Interface{};
      interface.nic.name = name;
      interface.index = index;
      kernel.read_all(interface);
      apply(interface, kSoftwareDrivers, interface.nic.driver);
      if (!has_own_speed(interface.nic.role)) interface.nic.rate_bits_per_second = 0;
    }
    interface.addresses_known = true;
    interface.nic.addresses = kernel.addresses(name);
    interface.nic.networks = ip_facts[name].networks;
    interface.nic.routes = ip_facts[name].routes;
    all.push_back(std::move(interface));
  }
  return all;
}

}  // namespace tombolo::topology
