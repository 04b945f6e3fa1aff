#include "topology/files/fleet.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "topology/files/fields.h"
#include "topology/files/fleet_between.h"

namespace tombolo::topology {
namespace {

constexpr int kFleetVersion = 1;
constexpr std::int64_t kHostsOfCluster = 1 << 16;
constexpr std::int64_t kNicsOfEntry = 64;
constexpr std::int64_t kDevicesOfEntry = 1024;
// Limits of the whole fleet, so that a typing error cannot exhaust the memory.
constexpr std::int64_t kNicsOfFleet = 1 << 17;
constexpr std::int64_t kDevicesOfFleet = 1 << 18;

std::vector<std::string> hosts_of(const JsonCursor& cursor, const std::string& cluster) {
  std::vector<std::string> names;
  if (cursor.is_array()) {
    for (const auto& element : cursor.elements()) names.push_back(name_of(element, false));
    if (names.empty()) cursor.reject("expected at least one host");
  } else {
    const auto count = cursor.integer(1, kHostsOfCluster);
    for (std::int64_t i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", cluster, i));
  }
  return names;
}

/// Adds the devices of one entry; returns the bytes per second between two of them.
double add_devices(const JsonCursor& cursor, const Library& library, std::vector<Device>& devices) {
  cursor.only({"name", "count", "dtype", "flops_per_second", "memory_bytes", "memory_bytes_per_second"});
  const LibraryDevice& known = library.device(cursor.field("name"));
  Device device;
  device.name = known.name;
  device.kind = known.kind;
  device.memory_bytes = known.memory_bytes;
  device.memory_bytes_per_second = known.memory_bytes_per_second * library.memory.share;
  std::string_view dtype = known.usual_dtype();
  const auto wanted = cursor.optional("dtype"), flops = cursor.optional("flops_per_second");
  if (wanted) {
    dtype = LibraryDevice::kDtypes[wanted->choice({"fp32", "tf32", "bf16", "fp16", "fp8"})];
    if (flops) flops->reject("give \"dtype\" or \"flops_per_second\", not both");
    if (known.peak(dtype) == 0) {
      wanted->reject(fmt::format("the library knows no {} peak of {}; it would take \"{}\"", dtype,
                                 known.name, known.usual_dtype()));
    }
  }
  device.flops_per_second = flops ? flops_of(*flops) : known.peak(dtype) * known.attained_share;
  if (const auto value = cursor.optional("memory_bytes")) device.memory_bytes = memory_of(*value);
  if (const auto value = cursor.optional("memory_bytes_per_second")) {
    device.memory_bytes_per_second = memory_speed_of(*value);
  }
  std::int64_t count = 1;
  if (const auto value = cursor.optional("count")) count = value->integer(1, kDevicesOfEntry);
  devices.insert(devices.end(), static_cast<std::size_t>(count), device);
  return known.device_bytes_per_second * library.device_link.share;
}

std::string_view short_kind(NicKind kind) {
  switch (kind) {
    case NicKind::kInfiniBand:
      return "ib";
    case NicKind::kRoce:
      return "roce";
    case NicKind::kIwarp:
      return "iw";
    case NicKind::kTcp:
      break;
  }
  return "eth";
}

/// Adds the NICs of one entry. `preferred` is the kind of the cluster's fabric.
void add_nics(const JsonCursor& cursor, const Library& library, std::optional<NicKind> preferred,
              std::vector<Nic>& nics) {
  cursor.only({"name", "count", "kind", "rate_gbps", "rdma_device"});
  const LibraryNic& known = library.nic(cursor.field("name"));
  const auto can_be = [&](NicKind kind) {
    return std::find(known.kinds.begin(), known.kinds.end(), kind) != known.kinds.end();
  };
  NicKind kind = preferred && can_be(*preferred) ? *preferred : known.kinds.front();
  if (const auto value = cursor.optional("kind")) {
    kind = kind_of(*value);
    if (!can_be(kind)) {
      std::vector<std::string_view> kinds;
      for (const NicKind each : known.kinds) kinds.push_back(nic_kind_name(each));
      value->reject(
          fmt::format("{} is {}, not {}", known.name, fmt::join(kinds, " or "), nic_kind_name(kind)));
    }
  }
  std::uint64_t rate = known.rate_bits_per_second;
  if (const auto value = cursor.optional("rate_gbps")) rate = rate_of(*value);
  std::string device = known.rdma_device;
  if (const auto value = cursor.optional("rdma_device")) device = name_of(*value, false);
  std::int64_t count = 1;
  if (const auto value = cursor.optional("count")) count = value->integer(1, kNicsOfEntry);
  for (std::int64_t i = 0; i < count; ++i) {
    Nic nic;
    nic.kind = kind;
    nic.state = NicState::kUp;
    nic.reason = "named in the fleet file";
    nic.rate_bits_per_second = rate;
    nic.name = fmt::format(
        "{}{}", short_kind(kind),
        std::count_if(nics.begin(), nics.end(), [&](const Nic& other) { return other.kind == kind; }));
    if (is_rdma(kind)) {
      nic.rdma_device =
          fmt::format("{}{}", device, std::count_if(nics.begin(), nics.end(), [&](const Nic& other) {
                        return other.rdma_device.starts_with(device);
                      }));
      nic.rdma_port = 1;
    }
    nics.push_back(std::move(nic));
  }
}

/// The elements of a list, or the one object that stands in place of a list.
std::vector<JsonCursor> one_or_more(const JsonCursor& cursor) {
  return cursor.is_object() ? std::vector{cursor} : cursor.elements();
}

FleetCluster cluster_of(const JsonCursor& cursor, const Library& library) {
  cursor.only({"name", "hosts", "devices", "nics", "fabric", "device_bytes_per_second"});
  FleetCluster cluster;
  cluster.name = name_of(cursor.field("name"), false);
  cluster.hosts = hosts_of(cursor.field("hosts"), cluster.name);

  double link = std::numeric_limits<double>::infinity();
  for (const auto& element : one_or_more(cursor.field("devices"))) {
    link = std::min(link, add_devices(element, library, cluster.devices));
  }
  if (cluster.devices.empty()) cursor.field("devices").reject("expected at least one device");
  cluster.device_bytes_per_second = link;
  if (const auto value = cursor.optional("device_bytes_per_second")) {
    cluster.device_bytes_per_second = bandwidth_of(*value);
  }

  const auto fabric = cursor.optional("fabric");
  std::optional<NicKind> preferred;
  if (fabric) {
    fabric->only({"kind", "rate_gbps", "bytes_per_second", "latency_seconds"});
    preferred = kind_of(fabric->field("kind"));
  }
  const auto nics = cursor.field("nics");
  for (const auto& element : one_or_more(nics)) add_nics(element, library, preferred, cluster.nics);
  if (cluster.nics.empty()) nics.reject("expected at least one NIC");
  std::stable_sort(cluster.nics.begin(), cluster.nics.end(),
                   [](const Nic& a, const Nic& b) { return a.kind < b.kind; });
  for (const Nic& nic : cluster.nics) {
    std::uint64_t& fastest = cluster.fastest[nic.kind];
    fastest = std::max(fastest, nic.rate_bits_per_second);
  }
  for (const auto& [kind, rate] : cluster.fastest) {
    const UsualShare& usual = library.share(kind);
    cluster.inside[kind] = {static_cast<double>(rate) / 8 * usual.share, usual.latency_seconds};
  }
  if (fabric) {
    if (!cluster.fastest.contains(*preferred)) {
      fabric->field("kind").reject(fmt::format("no NIC of cluster \"{}\" is of kind {}; add one to \"nics\"",
                                               cluster.name, nic_kind_name(*preferred)));
    }
    cluster.inside[*preferred] = speed_of(*fabric, *preferred, cluster.fastest[*preferred], library);
  }
  return cluster;
}

/// Counts before anything is allocated, so that a large product of counts is refused.
void check_size(const JsonCursor& at, const FleetCluster& cluster, std::int64_t& nics,
                std::int64_t& devices) {
  const auto hosts = static_cast<std::int64_t>(cluster.hosts.size());
  nics += hosts * static_cast<std::int64_t>(cluster.nics.size());
  devices += hosts * static_cast<std::int64_t>(cluster.devices.size());
  if (nics > kNicsOfFleet || devices > kDevicesOfFleet) {
    at.reject(
        fmt::format("with this cluster the fleet has {} NICs and {} devices; at most {} and {} are expanded",
                    nics, devices, kNicsOfFleet, kDevicesOfFleet));
  }
}

}  // namespace

ClusterFile expand_fleet(const JsonDocument& document, const Library& library) {
  const JsonCursor root = document.root();
  const auto version = root.field("tombolo_fleet");
  if (const auto found = version.integer(1, std::numeric_limits<int>::max()); found != kFleetVersion) {
    version.reject(
        fmt::format("this build reads version {} of the fleet file, found version {}", kFleetVersion, found));
  }
  root.only({"tombolo_fleet", "note", "clusters", "between"});
  ClusterFile file;
  file.note = "expanded from a fleet file; nothing is measured yet (tombolo probe does that)";
  if (const auto value = root.optional("note")) file.note = value->text();

  std::vector<FleetCluster> clusters;
  FleetIndices indices;
  std::int64_t nics = 0, devices = 0;
  for (const auto& element : root.field("clusters").elements()) {
    clusters.push_back(cluster_of(element, library));
    const FleetCluster& cluster = clusters.back();
    if (!indices.emplace(cluster.name, indices.size()).second) {
      element.field("name").reject(fmt::format("there is already a cluster \"{}\"", cluster.name));
    }
    check_size(element, cluster, nics, devices);
  }
  if (clusters.empty()) root.field("clusters").reject("expected at least one cluster");
  const std::vector<FleetBetween> betweens = all_between(root, clusters, indices, library);
  check_joined(root, clusters, betweens);

  // RDMA fabrics are named by the first cluster on them; plain Ethernet is one fabric without a name.
  std::map<NicKind, Joined> joined;
  for (const FleetBetween& each : betweens) {
    joined.try_emplace(each.kind, clusters.size()).first->second.join(each.from, each.to);
  }
  const auto fabric = [&](std::size_t cluster, NicKind kind) {
    if (!is_rdma(kind)) return std::string();
    if (const auto found = joined.find(kind); found != joined.end()) cluster = found->second.root(cluster);
    return fmt::format("{}-{}", short_kind(kind), clusters[cluster].name);
  };

  std::set<std::string_view> names;
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    FleetCluster& cluster = clusters[c];
    for (Nic& nic : cluster.nics) nic.fabric = fabric(c, nic.kind);
    for (const std::string& name : cluster.hosts) {
      if (!names.insert(name).second) {
        root.field("clusters")
            .elements()[c]
            .field("hosts")
            .reject(fmt::format(
                "there is already a host \"{}\"; give the hosts of one of the clusters other names, as "
                "\"hosts\": [\"x0\", \"x1\"]",
                name));
      }
      Host host;
      host.name = name;
      host.cluster = cluster.name;
      host.nics = cluster.nics;
      host.devices = cluster.devices;
      host.device_bytes_per_second = cluster.device_bytes_per_second;
      file.hosts.push_back(std::move(host));
    }
    if (cluster.hosts.size() < 2) continue;
    for (const auto& [kind, speed] : cluster.inside) {
      file.fabrics.push_back(
          {fabric(c, kind), cluster.name, cluster.name, speed.bytes_per_second, speed.latency_seconds});
    }
  }
  for (const FleetBetween& each : betweens) {
    file.fabrics.push_back({fabric(each.from, each.kind), clusters[each.from].name, clusters[each.to].name,
                            each.speed.bytes_per_second, each.speed.latency_seconds});
    if (each.total_bytes_per_second > 0) {
      file.shared_links.push_back(shared_link_of(each, clusters));
    }
  }
  return file;
}

}  // namespace tombolo::topology
