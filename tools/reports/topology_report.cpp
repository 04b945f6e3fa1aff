#include "tools/reports/topology_report.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "tools/cli/table.h"
#include "topology/judge/distance.h"

namespace tombolo::tools {
namespace {

std::string kind_of(const topology::Nic& nic) {
  switch (nic.kind) {
    case topology::NicKind::kInfiniBand:
      return "InfiniBand";
    case topology::NicKind::kRoce:
      return nic.roce_v1 && nic.roce_v2 ? "RoCE v1+v2"
             : nic.roce_v2              ? "RoCE v2"
             : nic.roce_v1              ? "RoCE v1"
                                        : "RoCE";
    case topology::NicKind::kIwarp:
      return "iWARP";
    case topology::NicKind::kTcp:
      break;
  }
  return "TCP";
}

std::string or_dash(std::string text) {
  return text.empty() ? "-" : text;
}

std::string node_of(const std::optional<int>& node) {
  return node ? std::to_string(*node) : "-";
}

std::string pci_address(const std::string& path) {
  return or_dash(path.substr(path.rfind('/') + 1));
}

std::string matrix_text(const topology::Machine& machine) {
  const topology::DistanceMatrix matrix = topology::distance_matrix(machine);
  if (matrix.devices.size() < 2) return {};
  std::vector<std::string> header{"DISTANCE"};
  for (const auto& device : matrix.devices) header.push_back(device.label);
  header.emplace_back("NUMA");
  Table table(header);
  for (std::size_t i = 0; i < matrix.devices.size(); ++i) {
    std::vector<std::string> row{matrix.devices[i].label};
    row.insert(row.end(), matrix.cells[i].begin(), matrix.cells[i].end());
    row.push_back(node_of(matrix.devices[i].location.numa_node));
    table.add(std::move(row));
  }
  return fmt::format(
      "\n{}NV# a bond of # NVLinks, PIX one PCIe switch at most, PXB several, PHB a host bridge, NODE two "
      "host bridges of "
      "one NUMA node, SYS two NUMA nodes\n",
      table.text(0));
}

std::string nics_text(const topology::Machine& machine) {
  if (machine.nics.empty()) return "No network interface and no RDMA port.\n";
  Table table({"NIC", "KIND", "RATE", "MTU", "STATE", "NUMA", "PCI", "DRIVER", "RDMA", "ADDRESS", "FABRIC",
               "USED", "WHY"});
  for (const auto& nic : machine.nics) {
    std::string addresses = nic.addresses.empty() ? "-" : nic.addresses.front();
    if (nic.addresses.size() > 1) addresses += fmt::format(" +{}", nic.addresses.size() - 1);
    std::string rate = nic.rate_bits_per_second == 0
                           ? "-"
                           : format_bit_rate(static_cast<double>(nic.rate_bits_per_second) / 8);
    table.add({nic.name, kind_of(nic), rate, nic.mtu == 0 ? "-" : std::to_string(nic.mtu),
               std::string(topology::nic_state_name(nic.state)), node_of(nic.numa_node),
               pci_address(nic.pci_path), or_dash(nic.driver),
               nic.rdma_device.empty() ? "-" : fmt::format("{}/{}", nic.rdma_device, nic.rdma_port),
               addresses, or_dash(nic.fabric), nic.usable ? "yes" : "no", nic.reason});
  }
  return table.text(terminal_width());
}

std::string gpus_text(const topology::Machine& machine) {
  if (machine.gpus.empty()) return "\nNo NVIDIA GPU.\n";
  Table table({"GPU", "NAME", "MEMORY", "NUMA", "PCI"});
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    const auto& gpu = machine.gpus[i];
    table.add({std::to_string(i), gpu.name,
               gpu.memory_bytes > 0 ? format_size(static_cast<std::uint64_t>(gpu.memory_bytes)) : "-",
               node_of(gpu.numa_node), pci_address(gpu.pci_path)});
  }
  return fmt::format("\n{}", table.text(terminal_width()));
}

}  // namespace

std::vector<NicPair> reach_pairs(const topology::Machine& machine, const topology::ClusterFile& others) {
  std::vector<NicPair> pairs;
  for (const auto& nic : machine.nics) {
    if (!nic.usable) continue;
    for (const auto& host : others.hosts) {
      if (host.name == machine.host_name) continue;
      for (const auto& there : host.nics) {
        const bool rdma = nic.kind == there.kind && topology::is_rdma(nic.kind);
        pairs.push_back({&nic, &host, &there, rdma ? topology::nic_kind_name(nic.kind) : "tcp",
                         topology::judge_reach(nic, there, rdma)});
      }
    }
  }
  return pairs;
}

std::string reach_table(const std::vector<NicPair>& pairs) {
  if (pairs.empty()) return "\nNo NIC of another host to reach: the file names none, or only this host.\n";
  Table table({"FROM", "TO HOST", "NIC", "BY", "REACHES", "WHY"});
  for (const NicPair& pair : pairs) {
    table.add({pair.here->name, pair.host->name, pair.there->name, std::string(pair.by),
               std::string(topology::chance_name(pair.reach.chance)), pair.reach.why});
  }
  return fmt::format("\n{}", table.text(terminal_width()));
}

std::string topology_tables(const topology::Machine& machine) {
  return fmt::format("{}: {} cores, {} NUMA node{}, {} of memory\n\n", machine.host_name, machine.cores,
                     machine.numa_nodes, machine.numa_nodes == 1 ? "" : "s",
                     format_size(machine.memory_bytes)) +
         nics_text(machine) + gpus_text(machine) + matrix_text(machine);
}

std::string topology_json(const topology::Machine& machine, const std::vector<NicPair>* pairs) {
  Json json = to_json(machine);
  if (pairs != nullptr) json["reach"] = Json::array();
  for (std::size_t i = 0; pairs != nullptr && i < pairs->size(); ++i) {
    const NicPair& pair = (*pairs)[i];
    json["reach"].push_back({{"from", pair.here->name},
                             {"to", pair.host->name + "/" + pair.there->name},
                             {"by", pair.by},
                             {"reaches", topology::chance_name(pair.reach.chance)},
                             {"why", pair.reach.why}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string fleet_tables(const topology::ClusterFile& file) {
  Table clusters({"CLUSTER", "HOSTS", "DEVICES OF EACH", "NICS OF EACH"});
  for (const std::string& name : file.clusters()) {
    const topology::Host* first = nullptr;
    std::size_t hosts = 0;
    for (const topology::Host& host : file.hosts) {
      if (host.cluster != name) continue;
      if (hosts++ == 0) first = &host;
    }
    std::vector<std::string> devices, nics;
    for (std::size_t at = 0, next = 0; at < first->devices.size(); at = next) {
      while (next < first->devices.size() && first->devices[next] == first->devices[at]) ++next;
      const auto& device = first->devices[at];
      devices.push_back(
          fmt::format("{} {} of {:.4g} TFLOP/s", next - at, device.name, device.flops_per_second / 1e12));
    }
    for (const topology::Nic& nic : first->nics) {
      nics.push_back(
          fmt::format("{} {}", nic.name, format_bit_rate(static_cast<double>(nic.rate_bits_per_second) / 8)));
    }
    clusters.add({name, std::to_string(hosts), fmt::format("{}", fmt::join(devices, ", ")),
                  fmt::format("{}", fmt::join(nics, ", "))});
  }
  Table links({"FABRIC", "FROM", "TO", "ATTAINED", "ONE WAY"});
  for (const topology::FabricDefault& each : file.fabrics) {
    links.add({each.fabric.empty() ? "plain Ethernet" : each.fabric, each.from_cluster, each.to_cluster,
               format_bit_rate(each.bytes_per_second), format_seconds(each.latency_seconds)});
  }
  return clusters.text(terminal_width()) + "\n" + links.text(terminal_width());
}

}  // namespace tombolo::tools
