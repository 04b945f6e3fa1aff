#include "topology/system/rdma.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/format.h"
#include "topology/nic.h"
#include "topology/system/verbs_library.h"

namespace tombolo::topology {
namespace {

/// The part after the colon of "4: ACTIVE".
std::string after_colon(const std::string& text) {
  auto colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

/// Converts "200 Gb/sec (4X HDR)" and "2.5 Gb/sec (1X SDR)" to bit/s; 0 for any other text.
std::uint64_t rate_of(const std::string& text) {
  double gigabits = 0;
  auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), gigabits);
  constexpr double kLargest = 1e5;
  if (status != std::errc{} || !(gigabits > 0 && gigabits < kLargest)) return 0;
  if (!std::string_view(rest).starts_with(" Gb/sec")) return 0;
  return static_cast<std::uint64_t>(gigabits * 1e9 + 0.5);
}

constexpr std::string_view kIwarpNode = "RNIC";

/// Whether it is a GID in the kernel's form, and not an empty slot of the table.
bool is_real_gid(const std::string& text, bool iwarp) {
  std::array<unsigned char, 16> bytes{};
  if (text.size() != 39 || ::inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) return false;
  // An unused slot is all zero, or has only the subnet's prefix. iWARP's GID is a hardware address and zeros
  // after it.
  return std::any_of(bytes.begin() + (iwarp ? 0 : 8), bytes.end(),
                     [](unsigned char byte) { return byte != 0; });
}

std::vector<Gid> read_gids(const SysTree& tree, const std::string& folder, bool iwarp) {
  std::vector<Gid> all;
  for (const auto& name : tree.names(folder + "/gids")) {
    Gid gid;
    auto [rest, status] = std::from_chars(name.data(), name.data() + name.size(), gid.index);
    if (status != std::errc{} || rest != name.data() + name.size() || gid.index < 0 || gid.index > 65535)
      continue;
    gid.value = tree.text(folder + "/gids/" + name).value_or("");
    if (!is_real_gid(gid.value, iwarp)) continue;
    gid.type = tree.text(folder + "/gid_attrs/types/" + name).value_or("");
    if (gid.type != "RoCE v2")
      gid.type = "IB/RoCE v1";  // kernels before 4.5 have no types, and know only this one
    all.push_back(std::move(gid));
  }
  std::sort(all.begin(), all.end(), [](const Gid& a, const Gid& b) { return a.index < b.index; });
  return all;
}

/// The interface of each GID, which only RoCE ports tell. Reading an unused entry fails.
std::map<int, std::string> read_interfaces_of_gids(const SysTree& tree, const std::string& folder,
                                                   const std::vector<Gid>& gids) {
  std::map<int, std::string> all;
  for (const Gid& gid : gids) {
    auto interface = tree.text(fmt::format("{}/gid_attrs/ndevs/{}", folder, gid.index));
    if (interface && !interface->empty()) all[gid.index] = *interface;
  }
  return all;
}

/// Finds the interface by its hardware address, with which iWARP's GID begins: "0007:4312:3456:..." for
/// 00:07:43:12:34:56.
std::string interface_of_hardware_address(const SysTree& tree, const std::string& gid) {
  std::string address;
  for (char c : gid.substr(0, 14)) {
    if (c == ':') continue;
    if (address.size() % 3 == 2) address += ':';
    address += c;
  }
  for (const auto& name : tree.names("/sys/class/net")) {
    if (tree.text("/sys/class/net/" + name + "/address") == address) return name;
  }
  return {};
}

/// The network interface on the port: RoCE states it, IPoIB's is found below the same PCI function.
std::string interface_of(const SysTree& tree, const std::string& device, const std::string& folder,
                         const RdmaPort& port) {
  // The first GIDs are the port's own, whatever VLANs lie on it.
  if (!port.interface_of_gid.empty()) return port.interface_of_gid.begin()->second;
  for (const auto& name : tree.names(folder + "/gid_attrs/ndevs")) {
    auto interface = tree.text(folder + "/gid_attrs/ndevs/" + name);
    if (interface && !interface->empty()) return *interface;
  }
  auto parent = tree.text(device + "/parent");  // soft-RoCE
  if (parent && !parent->empty()) return *parent;
  auto interfaces = tree.names(device + "/device/net");
  for (const auto& interface : interfaces) {
    std::string net = device + "/device/net/" + interface;
    // One function may have two ports; dev_port tells them apart (dev_id in older drivers).
    std::int64_t at =
        std::max(tree.integer(net + "/dev_port").value_or(0), tree.integer(net + "/dev_id").value_or(0));
    if (at == port.nic.rdma_port - 1) return interface;
  }
  if (port.nic.kind == NicKind::kIwarp && !port.nic.gids.empty())
    return interface_of_hardware_address(tree, port.nic.gids.front().value);
  return {};
}

/// Names devices whose reliable connections are not those of InfiniBand and RoCE, whatever their ports say.
std::string_view foreign_device(std::string_view driver) {
  if (driver == "efa") return "AWS's EFA, which has no reliable connections as InfiniBand and RoCE have them";
  if (driver == "usnic_verbs" || driver == "enic") return "Cisco's usNIC, which carries datagrams only";
  return {};
}

/// Decides the port's kind. False, with a problem, where Tombolo does not support it.
bool classify(const SysTree& tree, const std::string& device, const std::string& folder, RdmaPort& port) {
  std::string node_type = after_colon(tree.text(device + "/node_type").value_or(""));
  auto link_layer = tree.text(folder + "/link_layer");
  if (auto foreign = foreign_device(port.nic.driver); !foreign.empty()) {
    port.problem = fmt::format("{}; its TCP interface, if any, is used instead", foreign);
    return false;
  }
  if (node_type == kIwarpNode) {
    port.nic.kind = NicKind::kIwarp;
    return true;
  }
  if (!node_type.empty() && node_type != "CA") {
    port.problem = fmt::format(
        "an RDMA device of type \"{}\", which Tombolo does not speak; its TCP interface, if any, "
        "is used instead",
        node_type);
    return false;
  }
  if (link_layer == "InfiniBand" &&
      port.nic.driver != "mana") {  // MANA's early ports claim to be InfiniBand, but have no GIDs
    port.nic.kind = NicKind::kInfiniBand;
    return true;
  }
  if (link_layer == "Ethernet" || link_layer == "InfiniBand") {
    port.nic.kind = NicKind::kRoce;
    return true;
  }
  port.problem =
      fmt::format("its link layer \"{}\" is neither InfiniBand nor Ethernet", link_layer.value_or(""));
  return false;
}

void read_state(const SysTree& tree, const std::string& folder, RdmaPort& port) {
  std::string state = after_colon(tree.text(folder + "/state").value_or(""));
  std::string physical = after_colon(tree.text(folder + "/phys_state").value_or(""));
  if (state == "ACTIVE") {
    port.nic.state = NicState::kUp;
    return;
  }
  port.nic.state = state.empty() ? NicState::kUnknown : NicState::kDown;
  if (!port.problem.empty()) return;
  if (state == "INIT" || state == "ARMED") {
    port.problem =
        fmt::format("the port is in state {}: no subnet manager has set it up; is opensm running?", state);
  } else if (physical == "Disabled") {
    port.problem = "the port is disabled in the device; enable it with ibportstate or the firmware's tools";
  } else {
    port.problem = fmt::format("the port is {}{}; check the cable and the switch port",
                               state.empty() ? "in no known state" : state,
                               physical.empty() ? "" : fmt::format(" (physically {})", physical));
  }
}

/// Decides the RoCE versions. A port without a GID can have no connections: it belongs to a device that
/// carries only raw packets, or its GIDs belong to another network namespace.
void judge_gids(RdmaPort& port) {
  for (const Gid& gid : port.nic.gids) {
    if (port.nic.kind != NicKind::kRoce) break;
    port.nic.roce_v2 |= gid.type == "RoCE v2";
    port.nic.roce_v1 |= gid.type != "RoCE v2";
  }
  if (port.nic.gids.empty() && port.nic.kind != NicKind::kIwarp && port.problem.empty()) {
    port.problem =
        "its RDMA port has no GID, and so no address for connections (a device for raw packets only, or one "
        "of another "
        "network namespace)";
  }
}

/// Names the fabric. InfiniBand's subnets are told apart by their prefix. RoCE v2 and iWARP are routed, so
/// all NICs of such a kind are assumed to be on one fabric unless a cluster file says otherwise
/// (docs/topology.md).
std::string fabric_of(const Nic& nic) {
  if (nic.kind == NicKind::kInfiniBand) {
    return nic.gids.empty() ? "infiniband" : fmt::format("infiniband-{}", subnet_prefix(nic));
  }
  return std::string(nic_kind_name(nic.kind));
}

void ask_verbs(std::vector<RdmaPort>& ports) {
  std::string problem;
  auto library = VerbsLibrary::load(&problem);
  if (!library) {
    for (auto& port : ports) {
      if (port.problem.empty()) {
        port.problem = fmt::format(
            "libibverbs is needed for RDMA and cannot be loaded ({}); install libibverbs1 and "
            "ibverbs-providers",
            problem);
      }
    }
    return;
  }
  auto devices = library->devices();
  for (auto& port : ports) {
    auto found = std::find_if(devices.begin(), devices.end(),
                              [&](const VerbsDevice& device) { return device.name == port.nic.rdma_device; });
    if (found == devices.end()) {
      if (port.problem.empty()) {
        port.problem =
            "the kernel has it, but libibverbs does not list it: its user-space driver is missing; install "
            "ibverbs-providers";
      }
      continue;
    }
    if (!found->problem.empty() && port.problem.empty()) port.problem = found->problem;
    for (const auto& facts : found->ports) {
      if (facts.number != port.nic.rdma_port) continue;
      if (facts.mtu > 0) port.nic.mtu = facts.mtu;
      if (port.nic.gids.empty()) port.nic.gids = facts.gids;
    }
  }
}

}  // namespace

std::vector<RdmaPort> read_rdma_ports(const SysTree& tree, bool live) {
  std::vector<RdmaPort> all;
  for (const auto& name : tree.names("/sys/class/infiniband")) {
    const std::string device = "/sys/class/infiniband/" + name;
    auto pci = read_pci_facts(tree, device + "/device");
    for (const auto& number : tree.names(device + "/ports")) {
      int index = 0;
      auto [rest, status] = std::from_chars(number.data(), number.data() + number.size(), index);
      if (status != std::errc{} || rest != number.data() + number.size() || index < 1 || index > 255)
        continue;
      const std::string folder = device + "/ports/" + number;
      RdmaPort port;
      port.nic.name = name + "/" + number;
      port.nic.rdma_device = name;
      port.nic.rdma_port = index;
      port.nic.role = pci.virtual_function ? NicRole::kVirtualFunction : NicRole::kPhysical;
      port.nic.driver = pci.driver;
      port.nic.numa_node = pci.numa_node;
      port.nic.pci_path = pci.path;
      port.nic.rate_bits_per_second = rate_of(tree.text(folder + "/rate").value_or(""));
      port.physical_function = pci.physical_function;
      const bool iwarp = after_colon(tree.text(device + "/node_type").value_or("")) == kIwarpNode;
      port.nic.gids = read_gids(tree, folder, iwarp);
      port.interface_of_gid = read_interfaces_of_gids(tree, folder, port.nic.gids);
      const bool supported = classify(tree, device, folder, port);
      port.interface = interface_of(tree, device, folder, port);
      if (supported) port.nic.fabric = nic_kind_name(port.nic.kind);
      read_state(tree, folder, port);
      all.push_back(std::move(port));
    }
  }
  if (live && !all.empty()) ask_verbs(all);
  for (RdmaPort& port : all) {
    if (port.nic.fabric.empty()) continue;
    judge_gids(port);
    port.nic.fabric = fabric_of(port.nic);
  }
  return all;
}

}  // namespace tombolo::topology
