// Reading and checking the cluster file. Every mistake is reported where it stands.
#include <arpa/inet.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "topology/files/cluster_file.h"
#include "topology/files/cluster_file_fabrics.h"
#include "topology/files/cluster_file_links.h"
#include "topology/files/fields.h"
#include "topology/system/routes.h"

namespace tombolo::topology {
namespace {

constexpr int kMaximumMtu = 1 << 20;
constexpr int kMaximumNuma = 4096;
constexpr int kMaximumDevices = 1024;  // of one entry

std::string address_of(const JsonCursor& cursor) {
  std::string text = cursor.text();
  std::string bare = text.substr(0, text.find('%'));  // "fe80::1%eth0"
  unsigned char parsed[sizeof(in6_addr)];
  bool is_v4 = bare == text && ::inet_pton(AF_INET, text.c_str(), parsed) == 1;
  // An embedded NUL would hide the text behind it from inet_pton.
  bool whole = text.find('\0') == std::string::npos;
  if (!whole || (!is_v4 && ::inet_pton(AF_INET6, bare.c_str(), parsed) != 1)) {
    cursor.reject(fmt::format("expected an IPv4 or IPv6 address without prefix length, found \"{}\"",
                              text.substr(0, 60)));
  }
  return text;
}

/// "10.2.0.0/24"
std::vector<std::string> prefixes_of(const JsonCursor& nic, std::string_view field) {
  std::vector<std::string> all;
  auto list = nic.optional(field);
  if (!list) return all;
  for (const auto& element : list->elements()) {
    std::string text = element.text();
    if (!is_within(text.substr(0, text.find('/')), text) || text.find('\0') != std::string::npos) {
      element.reject(fmt::format("expected a network as \"10.2.0.0/24\" or \"fd00:2::/64\", found \"{}\"",
                                 text.substr(0, 60)));
    }
    all.push_back(std::move(text));
  }
  return all;
}

NicRole role_of(const JsonCursor& cursor) {
  constexpr NicRole kRoles[] = {NicRole::kPhysical, NicRole::kVirtualFunction, NicRole::kBond,
                                NicRole::kVlan,     NicRole::kVirtual,         NicRole::kContainerBridge,
                                NicRole::kTunnel,   NicRole::kLoopback};
  return kRoles[cursor.choice(
      {"physical", "virtual function", "bond", "vlan", "virtual", "container bridge", "tunnel", "loopback"})];
}

NicState state_of(const JsonCursor& cursor) {
  constexpr NicState kStates[] = {NicState::kUp, NicState::kDown, NicState::kUnknown};
  return kStates[cursor.choice({"up", "down", "unknown"})];
}

std::optional<int> numa_of(const JsonCursor& parent) {
  auto node = parent.optional("numa_node");
  if (!node) return std::nullopt;
  return static_cast<int>(node->integer(0, kMaximumNuma));
}

std::vector<std::string> addresses_of(const JsonCursor& nic) {
  std::vector<std::string> all;
  auto one = nic.optional("address");
  auto many = nic.optional("addresses");
  if (one && many) one->reject("give either \"address\" or \"addresses\", not both");
  if (one) all.push_back(address_of(*one));
  if (many) {
    for (const auto& element : many->elements()) all.push_back(address_of(element));
  }
  return all;
}

Gid gid_of(const JsonCursor& cursor) {
  cursor.only({"index", "value", "type"});
  Gid gid;
  gid.index = static_cast<int>(cursor.field("index").integer(0, 65535));
  gid.value = address_of(cursor.field("value"));
  auto type = cursor.field("type");
  type.choice({"IB/RoCE v1", "RoCE v2"});
  gid.type = type.text();
  return gid;
}

Nic nic_of(const JsonCursor& cursor) {
  cursor.only({"name",      "kind",        "fabric", "address",   "addresses", "networks",    "routes",
               "rate_gbps", "burst_bytes", "mtu",    "numa_node", "emulated",  "rdma_device", "rdma_port",
               "roce_v1",   "roce_v2",     "role",   "state",     "driver",    "pci_path",    "gids"});
  Nic nic;
  nic.name = name_of(cursor.field("name"), true);
  nic.kind = kind_of(cursor.field("kind"));
  nic.state = NicState::kUp;
  nic.reason = "named in the cluster file";
  if (auto value = cursor.optional("fabric")) nic.fabric = name_of(*value, true);
  nic.addresses = addresses_of(cursor);
  nic.networks = prefixes_of(cursor, "networks");
  nic.routes = prefixes_of(cursor, "routes");
  if (auto value = cursor.optional("rate_gbps")) nic.rate_bits_per_second = rate_of(*value);
  if (auto value = cursor.optional("burst_bytes")) nic.burst_bytes = memory_of(*value);
  if (auto value = cursor.optional("mtu")) nic.mtu = static_cast<int>(value->integer(68, kMaximumMtu));
  nic.numa_node = numa_of(cursor);
  if (auto value = cursor.optional("emulated")) nic.emulated = value->boolean();
  if (auto value = cursor.optional("rdma_device")) nic.rdma_device = name_of(*value, false);
  if (auto value = cursor.optional("rdma_port")) nic.rdma_port = static_cast<int>(value->integer(1, 255));
  if (auto value = cursor.optional("roce_v1")) nic.roce_v1 = value->boolean();
  if (auto value = cursor.optional("roce_v2")) nic.roce_v2 = value->boolean();
  if (auto value = cursor.optional("role")) nic.role = role_of(*value);
  if (auto value = cursor.optional("state")) nic.state = state_of(*value);
  if (auto value = cursor.optional("driver")) nic.driver = value->text();
  if (auto value = cursor.optional("pci_path")) nic.pci_path = value->text();
  if (auto value = cursor.optional("gids")) {
    for (const auto& element : value->elements()) nic.gids.push_back(gid_of(element));
  }
  if (is_rdma(nic.kind) && !nic.emulated && nic.rdma_device.empty()) {
    cursor.field("kind").reject(
        fmt::format("a NIC of kind \"{}\" needs \"rdma_device\" (as \"mlx5_0\"), or \"emulated\": true where "
                    "TCP carries it",
                    nic_kind_name(nic.kind)));
  }
  if (!nic.rdma_device.empty() && nic.rdma_port == 0) nic.rdma_port = 1;
  return nic;
}

void devices_of(const JsonCursor& cursor, std::vector<Device>& devices) {
  cursor.only({"name", "kind", "count", "flops_per_second", "memory_bytes", "memory_bytes_per_second",
               "numa_node", "pci_path"});
  Device device;
  device.name = cursor.field("name").text();
  device.kind = cursor.field("kind").choice({"cpu", "gpu"}) == 0 ? DeviceKind::kCpu : DeviceKind::kGpu;
  if (auto value = cursor.optional("flops_per_second")) device.flops_per_second = flops_of(*value);
  if (auto value = cursor.optional("memory_bytes")) device.memory_bytes = memory_of(*value);
  if (auto value = cursor.optional("memory_bytes_per_second")) {
    device.memory_bytes_per_second = memory_speed_of(*value);
  }
  device.numa_node = numa_of(cursor);
  if (auto value = cursor.optional("pci_path")) device.pci_path = value->text();
  std::int64_t count = 1;
  if (auto value = cursor.optional("count")) count = value->integer(1, kMaximumDevices);
  if (count > 1 && !device.pci_path.empty()) {
    cursor.field("count").reject(fmt::format(
        "{} devices cannot be at one \"pci_path\"; list them one by one, or leave the path out", count));
  }
  devices.insert(devices.end(), static_cast<std::size_t>(count), device);
}

Host host_of(const JsonCursor& cursor) {
  cursor.only({"name", "cluster", "nics", "devices", "device_bytes_per_second"});
  Host host;
  host.name = name_of(cursor.field("name"), false);
  host.cluster = name_of(cursor.field("cluster"), true);
  std::set<std::string> seen;
  for (const auto& element : cursor.field("nics").elements()) {
    host.nics.push_back(nic_of(element));
    if (!seen.insert(host.nics.back().name).second) {
      element.field("name").reject(
          fmt::format("host \"{}\" already has a NIC \"{}\"", host.name, host.nics.back().name));
    }
  }
  std::stable_sort(host.nics.begin(), host.nics.end(),
                   [](const Nic& a, const Nic& b) { return a.kind < b.kind; });
  for (const auto& element : cursor.field("devices").elements()) devices_of(element, host.devices);
  if (auto value = cursor.optional("device_bytes_per_second")) {
    host.device_bytes_per_second = bandwidth_of(*value);
  }
  return host;
}

SharedProcessor shared_of(const JsonCursor& cursor, const NicsByHost& names) {
  cursor.only({"hosts", "cores"});
  SharedProcessor shared;
  std::set<std::string> seen;
  for (const auto& element : cursor.field("hosts").elements()) {
    shared.hosts.push_back(element.text());
    check_host(element, shared.hosts.back(), names);
    if (!seen.insert(shared.hosts.back()).second) {
      element.reject(fmt::format("host \"{}\" is listed twice", shared.hosts.back()));
    }
  }
  shared.cores = cursor.field("cores").positive_number();
  return shared;
}

std::pair<std::string, std::string> unreachable_of(const JsonCursor& cursor,
                                                   const std::set<std::string>& fabrics) {
  auto ends = cursor.elements();
  if (ends.size() != 2) cursor.reject(fmt::format("expected two fabrics, found {}", ends.size()));
  for (const auto& end : ends) {
    std::string fabric = end.text();
    if (!fabrics.contains(fabric)) {
      end.reject(fmt::format("no NIC is on a fabric \"{}\"{}", fabric, suggestion(fabric, views(fabrics))));
    }
  }
  if (ends[0].text() == ends[1].text()) cursor.reject("expected two different fabrics");
  return {ends[0].text(), ends[1].text()};
}

}  // namespace

ClusterFile ClusterFile::parse(const JsonDocument& document) {
  JsonCursor root = document.root();
  if (!root.optional("tombolo_cluster"))
    if (const auto fleet = root.optional("tombolo_fleet"))
      fleet->reject(
          "this is a fleet file, and a cluster file is needed; make one of it with `tombolo topo --fleet "
          "FILE "
          "--cluster-out FILE`, and give that");
  auto version =
      // comes first, because a newer file may hold fields that this build does not know
      root.field("tombolo_cluster");
  if (auto found = version.integer(1, std::numeric_limits<int>::max()); found != kVersion) {
    version.reject(
        fmt::format("this build reads version {} of the cluster file, found version {}", kVersion, found));
  }
  root.only({"tombolo_cluster", "emulated", "note", "hosts", "links", "fabrics", "shared_links",
             "shared_processor", "unreachable", "require"});

  ClusterFile file;
  if (auto value = root.optional("emulated")) file.emulated = value->boolean();
  if (auto value = root.optional("note")) file.note = value->text();

  NicsByHost names;
  std::set<std::string> fabrics;
  auto hosts = root.field("hosts");
  for (const auto& element : hosts.elements()) {
    file.hosts.push_back(host_of(element));
    const Host& host = file.hosts.back();
    auto [nics, is_new] = names.try_emplace(host.name);
    if (!is_new) element.field("name").reject(fmt::format("there is already a host \"{}\"", host.name));
    for (const Nic& nic : host.nics) {
      nics->second.insert(nic.name);
      fabrics.insert(nic.fabric);
    }
  }
  if (file.hosts.empty()) hosts.reject("expected at least one host");

  if (auto value = root.optional("links")) file.links = links_of(*value, names);
  if (auto value = root.optional("fabrics")) file.fabrics = fabrics_of(*value, file.hosts);
  if (auto value = root.optional("shared_links")) file.shared_links = shared_links_of(*value, names);
  if (auto value = root.optional("shared_processor")) file.shared_processor = shared_of(*value, names);
  if (auto value = root.optional("unreachable")) {
    for (const auto& element : value->elements())
      file.unreachable.push_back(unreachable_of(element, fabrics));
  }
  if (auto value = root.optional("require")) {
    value->choice({"rdma"});
    file.require = value->text();
  }
  return file;
}

}  // namespace tombolo::topology
