#include <nlohmann/json.hpp>

#include "topology/files/cluster_file.h"
#include "topology/files/nic_json.h"

namespace tombolo::topology {

// Values that are unknown, empty or equal to the default are left out, so that the file stays readable.

Json nic_json(const Nic& nic) {
  Json json{{"name", nic.name}, {"kind", nic_kind_name(nic.kind)}};
  if (!nic.fabric.empty()) json["fabric"] = nic.fabric;
  if (!nic.addresses.empty()) json["addresses"] = nic.addresses;
  if (!nic.networks.empty()) json["networks"] = nic.networks;
  if (!nic.routes.empty()) json["routes"] = nic.routes;
  if (nic.rate_bits_per_second != 0) {
    json["rate_gbps"] = static_cast<double>(nic.rate_bits_per_second) / 1e9;
  }
  if (nic.burst_bytes > 0) json["burst_bytes"] = nic.burst_bytes;
  if (nic.mtu != 0) json["mtu"] = nic.mtu;
  if (nic.numa_node) json["numa_node"] = *nic.numa_node;
  if (nic.emulated) json["emulated"] = true;
  if (!nic.rdma_device.empty()) {
    json["rdma_device"] = nic.rdma_device;
    json["rdma_port"] = nic.rdma_port;
  }
  if (nic.roce_v1) json["roce_v1"] = true;
  if (nic.roce_v2) json["roce_v2"] = true;
  if (nic.role != NicRole::kPhysical) json["role"] = nic_role_name(nic.role);
  if (nic.state != NicState::kUp) json["state"] = nic_state_name(nic.state);
  if (!nic.driver.empty()) json["driver"] = nic.driver;
  if (!nic.pci_path.empty()) json["pci_path"] = nic.pci_path;
  for (const Gid& gid : nic.gids) {
    json["gids"].push_back({{"index", gid.index}, {"value", gid.value}, {"type", gid.type}});
  }
  return json;
}

Json device_json(const Device& device) {
  Json json{{"name", device.name}, {"kind", device.kind == DeviceKind::kGpu ? "gpu" : "cpu"}};
  if (device.flops_per_second > 0) json["flops_per_second"] = device.flops_per_second;
  if (device.memory_bytes > 0) json["memory_bytes"] = device.memory_bytes;
  if (device.memory_bytes_per_second > 0) json["memory_bytes_per_second"] = device.memory_bytes_per_second;
  if (device.numa_node) json["numa_node"] = *device.numa_node;
  if (!device.pci_path.empty()) json["pci_path"] = device.pci_path;
  return json;
}

namespace {

/// Whether one entry with a count can describe both devices.
bool same(const Device& a, const Device& b) {
  return a.pci_path.empty() && a == b;
}

Json host_json(const Host& host) {
  Json json{
      {"name", host.name}, {"cluster", host.cluster}, {"nics", Json::array()}, {"devices", Json::array()}};
  for (const Nic& nic : host.nics) json["nics"].push_back(nic_json(nic));
  for (std::size_t first = 0, next = 0; first < host.devices.size(); first = next) {
    next = first + 1;
    while (next < host.devices.size() && same(host.devices[first], host.devices[next])) ++next;
    json["devices"].push_back(device_json(host.devices[first]));
    if (next - first > 1) json["devices"].back()["count"] = next - first;
  }
  if (host.device_bytes_per_second > 0) json["device_bytes_per_second"] = host.device_bytes_per_second;
  return json;
}

Json fabric_json(const FabricDefault& fabric) {
  Json json{{"bytes_per_second", fabric.bytes_per_second}, {"latency_seconds", fabric.latency_seconds}};
  if (!fabric.fabric.empty()) json["name"] = fabric.fabric;
  if (!fabric.from_cluster.empty()) {
    json["from_cluster"] = fabric.from_cluster;
    json["to_cluster"] = fabric.to_cluster;
  }
  return json;
}

Json link_json(const Link& link) {
  return {{"from", link.from_host + "/" + link.from_nic},
          {"to", link.to_host + "/" + link.to_nic},
          {"bytes_per_second", link.bytes_per_second},
          {"latency_seconds", link.latency_seconds},
          {"measured", link.measured}};
}

Json shared_link_json(const SharedLink& link) {
  Json json{{"name", link.name},
            {"from", Json::array()},
            {"to", Json::array()},
            {"bytes_per_second", link.bytes_per_second}};
  for (const NicName& end : link.from) json["from"].push_back(end.host + "/" + end.nic);
  for (const NicName& end : link.to) json["to"].push_back(end.host + "/" + end.nic);
  return json;
}

}  // namespace

Json ClusterFile::to_json() const {
  Json json{{"tombolo_cluster", kVersion}, {"emulated", emulated}, {"hosts", Json::array()}};
  if (!note.empty()) json["note"] = note;
  for (const Host& host : hosts) json["hosts"].push_back(host_json(host));
  for (const Link& link : links) json["links"].push_back(link_json(link));
  for (const FabricDefault& fabric : fabrics) json["fabrics"].push_back(fabric_json(fabric));
  for (const SharedLink& link : shared_links) json["shared_links"].push_back(shared_link_json(link));
  if (shared_processor) {
    json["shared_processor"] = {{"hosts", shared_processor->hosts}, {"cores", shared_processor->cores}};
  }
  for (const auto& [a, b] : unreachable) json["unreachable"].push_back(Json::array({a, b}));
  if (!require.empty()) json["require"] = require;
  return json;
}

}  // namespace tombolo::topology
