#include "topology/rdma.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/format.h"
#include "topology/verbs_library.h"

namespace tombolo::topology {
namespace {

/// The part after the colon of "4: ACTIVE".
std::string after_colon(const std::string& text) {
  auto colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

/// "200 Gb/sec (4X HDR)" and "2.5 Gb/sec (1X SDR)" in bit/s; 0 where it is not such a text.
std::uint64_t rate_of(const std::string& text) {
  double gigabits = 0;
  auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), gigabits);
  constexpr double kLargest = 1e5;
  if (status != std::errc{} || !(gigabits > 0 && gigabits < kLargest)) return 0;
  if (!std::string_view(rest).starts_with(" Gb/sec")) return 0;
  return static_cast<std::uint64_t>(gigabits * 1e9 + 0.5);
}

/// A GID in the kernel's form that is not an empty slot of the table.
bool is_real_gid(const std::string& text) {
  std::array<unsigned char, 16> bytes{};
  if (text.size() != 39 || ::inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) return false;
  // An unused slot is all zero, or only the subnet's prefix.
  return std::any_of(bytes.begin() + 8, bytes.end(), [](unsigned char byte) { return byte != 0; });
}

std::vector<Gid> read_gids(const SysTree& tree, const std::string& folder) {
  std::vector<Gid> all;
  for (const auto& name : tree.names(folder + "/gids")) {
    Gid gid;
    auto [rest, status] = std::from_chars(name.data(), name.data() + name.size(), gid.index);
    if (status != std::errc{} || rest != name.data() + name.size() || gid.index < 0 || gid.index > 65535)
      continue;
    gid.value = tree.text(folder + "/gids/" + name).value_or("");
    if (!is_real_gid(gid.value)) continue;
    gid.type = tree.text(folder + "/gid_attrs/types/" + name).value_or("");
    if (gid.type != "RoCE v2")
      gid.type = "IB/RoCE v1";  // kernels before 4.5 have no types and know only this one
    all.push_back(std::move(gid));
  }
  std::sort(all.begin(), all.end(), [](const Gid& a, const Gid& b) { return a.index < b.index; });
  return all;
}

/// The network interface on the port: RoCE says so itself, IPoIB is found below the same PCI function.
std::string interface_of(const SysTree& tree, const std::string& device, const std::string& folder,
                         int port) {
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
    if (at == port - 1) return interface;
  }
  return {};
}

/// Decides what the port speaks. False with a problem where Tombolo has no word for it.
bool classify(const SysTree& tree, const std::string& device, const std::string& folder, RdmaPort& port) {
  std::string node_type = after_colon(tree.text(device + "/node_type").value_or(""));
  auto link_layer = tree.text(folder + "/link_layer");
  if (node_type == "RNIC") {
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
  if (link_layer == "InfiniBand") {
    port.nic.kind = NicKind::kInfiniBand;
    return true;
  }
  if (link_layer == "Ethernet") {
    port.nic.kind = NicKind::kRoce;
    for (const Gid& gid : port.nic.gids) {
      port.nic.roce_v2 |= gid.type == "RoCE v2";
      port.nic.roce_v1 |= gid.type != "RoCE v2";
    }
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

/// The subnet prefix tells InfiniBand subnets apart; RoCE v2 and iWARP are routed, so all of a kind are taken
/// to be one until a cluster file knows better (docs/cluster-file.md).
std::string fabric_of(const Nic& nic) {
  if (nic.kind == NicKind::kInfiniBand) {
    return nic.gids.empty() ? "infiniband" : "infiniband-" + nic.gids.front().value.substr(0, 19);
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
      port.nic.gids = read_gids(tree, folder);
      port.interface = interface_of(tree, device, folder, index);
      if (classify(tree, device, folder, port)) port.nic.fabric = fabric_of(port.nic);
      read_state(tree, folder, port);
      all.push_back(std::move(port));
    }
  }
  if (live && !all.empty()) ask_verbs(all);
  return all;
}

}  // namespace tombolo::topology
