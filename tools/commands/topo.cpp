// tombolo topo: what is on this machine.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "tools/cli/command.h"
#include "tools/cli/table.h"
#include "tools/process/subprocess.h"
#include "topology/detect.h"
#include "topology/export/graphviz.h"
#include "topology/export/nccl_xml.h"
#include "topology/files/fleet.h"
#include "topology/judge/distance.h"
#include "topology/judge/reach.h"

namespace tombolo::tools {
namespace {

constexpr const char* kTopoHelp =
    "Finds every network interface, RDMA port and GPU, says what each is (InfiniBand, RoCE, iWARP or TCP), "
    "how fast\n"
    "and where it is, and whether Tombolo would use it, and why not. The best NIC comes first. A matrix says "
    "how\n"
    "far GPUs and NICs are from each other, in nvidia-smi's words: NV# is a bond of # NVLinks, PIX crosses "
    "one PCIe\n"
    "switch, PXB several, PHB a host bridge, NODE two of one NUMA node, SYS two NUMA nodes.\n"
    "\nExamples:\n"
    "  tombolo topo\n"
    "  tombolo topo --json | jq '.nics[] | select(.usable)'\n"
    "  tombolo topo --format nccl-xml -o topo.xml   for NCCL_TOPO_FILE=topo.xml\n"
    "  tombolo topo --format svg -o topo.svg        a picture, drawn by Graphviz\n"
    "  tombolo topo --format dot | dot -Tpng -o topo.png\n"
    "  tombolo topo --cluster-out host.json    a cluster file with this host, to edit or to merge with "
    "others'\n"
    "  tombolo topo --fleet fleet.json --cluster-out cluster.json\n"
    "                                          a cluster file for machines that are only described "
    "(docs/fleet-file.md)\n"
    "  tombolo topo --reach host.json          which NICs of those hosts can be expected to reach which "
    "here\n"
    "  tombolo topo --root recorded/           a recorded tree of /sys instead of this machine\n"
    "  tombolo topo --root machine.tree        the same in one file (docs/topology.md)";

const std::vector<std::string> kFormats{"table", "json", "nccl-xml", "dot", "svg"};

struct TopoOptions {
  bool json = false;
  std::string format = "table";
  std::string output;
  std::string root;
  std::string cluster_out;
  std::string cluster = "A";
  std::string reach;
  std::string fleet;
};

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

/// One pair of NICs of two hosts, and whether they can be expected to reach each other.
struct NicPair {
  const topology::Nic* here;
  const topology::Host* host;
  const topology::Nic* there;
  std::string_view by;
  topology::Reach reach;
};

/// Pairs every usable NIC of this machine with every NIC of the other hosts; by RDMA where both are of the
/// same RDMA kind.
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

std::string reach_text(const std::vector<NicPair>& pairs) {
  if (pairs.empty()) return "\nNo NIC of another host to reach: the file names none, or only this host.\n";
  Table table({"FROM", "TO HOST", "NIC", "BY", "REACHES", "WHY"});
  for (const NicPair& pair : pairs) {
    table.add({pair.here->name, pair.host->name, pair.there->name, std::string(pair.by),
               std::string(topology::chance_name(pair.reach.chance)), pair.reach.why});
  }
  return fmt::format("\n{}", table.text(terminal_width()));
}

std::string tables_text(const topology::Machine& machine) {
  return fmt::format("{}: {} cores, {} NUMA node{}, {} of memory\n\n", machine.host_name, machine.cores,
                     machine.numa_nodes, machine.numa_nodes == 1 ? "" : "s",
                     format_size(machine.memory_bytes)) +
         nics_text(machine) + gpus_text(machine) + matrix_text(machine);
}

std::string json_text(const topology::Machine& machine, const std::vector<NicPair>* pairs) {
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

std::string svg_text(const topology::Machine& machine) {
  const auto dot = find_program("dot");
  if (!dot) {
    fail(Cause::kUnsupported,
         "--format svg needs Graphviz's program dot: apt-get install graphviz, or draw the output of "
         "--format dot on "
         "another machine");
  }
  constexpr Duration kDeadline = std::chrono::seconds(60);
  Finished done = run_program({*dot, "-Tsvg"}, topology::graphviz(machine), kDeadline);
  if (done.exit_code != 0)
    fail(Cause::kSystem, "{} -Tsvg ended with exit code {}: {}", *dot, done.exit_code, done.error);
  return std::move(done.output);
}

void write_text(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) fail_errno(errno, fmt::format("writing {}", path));
  const bool wrote = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int error = errno;
  if (std::fclose(file) != 0 || !wrote) fail_errno(wrote ? errno : error, fmt::format("writing {}", path));
}

/// The clusters of a file, and the attained rate between their NICs.
std::string fleet_text(const topology::ClusterFile& file) {
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

int run_fleet(const TopoOptions& options) {
  if (options.format != "table")
    fail(Cause::kInvalidUsage, "--fleet goes with tables and JSON, not with --format {}", options.format);
  const auto file = topology::expand_fleet(JsonDocument::load(options.fleet), topology::Library::load());
  if (!options.cluster_out.empty()) file.save(options.cluster_out);
  std::string text = fleet_text(file);
  if (options.json) {
    text = file.to_json().dump(1) + "\n";
  } else if (!options.cluster_out.empty()) {
    text += fmt::format("\nCluster file written to {}\n", options.cluster_out);
  }
  if (options.output.empty()) {
    fmt::print("{}", text);
  } else {
    write_text(options.output, text);
  }
  return kExitOk;
}

int run_topo(const TopoOptions& options) {
  if (!options.fleet.empty()) return run_fleet(options);
  const std::string format = options.json ? "json" : options.format;
  if (!options.reach.empty() && format != "table" && format != "json")
    fail(Cause::kInvalidUsage, "--reach goes with tables and JSON, not with --format {}", format);
  topology::DetectOptions detection;
  if (!options.root.empty()) {
    detection.root = options.root;
    detection.live = false;
  }
  detection.log = Log::to_stderr(LogLevel::kWarning);
  std::optional<topology::ClusterFile> others;
  if (!options.reach.empty()) others = topology::ClusterFile::load(options.reach);
  topology::Machine machine = topology::detect(detection);
  if (!options.cluster_out.empty()) {
    topology::ClusterFile file;
    file.note = "detected on one host; nothing is measured yet (tombolo probe does that)";
    file.hosts.push_back(topology::to_host(machine));
    file.hosts.back().cluster = options.cluster;
    file.save(options.cluster_out);
  }
  std::vector<NicPair> pairs;
  if (others) pairs = reach_pairs(machine, *others);
  std::string text;
  if (format == "json") {
    text = json_text(machine, others ? &pairs : nullptr);
  } else if (format == "nccl-xml") {
    text = topology::nccl_xml(machine);
  } else if (format == "dot") {
    text = topology::graphviz(machine);
  } else if (format == "svg") {
    text = svg_text(machine);
  } else {
    text = tables_text(machine);
    if (others) text += reach_text(pairs);
    if (!options.cluster_out.empty())
      text += fmt::format("\nCluster file written to {}\n", options.cluster_out);
  }
  if (options.output.empty()) {
    fmt::print("{}", text);
  } else {
    write_text(options.output, text);
  }
  return kExitOk;
}

}  // namespace

void add_topo(CommandLine& tombolo) {
  auto options = std::make_shared<TopoOptions>();
  CLI::App& app = tombolo.add("topo", "What NICs and GPUs are here, which are usable, and why", kTopoHelp,
                              [options] { return run_topo(*options); });
  auto* format =
      app.add_option("--format", options->format,
                     "table, json, nccl-xml (for NCCL_TOPO_FILE), dot (Graphviz), svg (drawn by dot)");
  format->check(CLI::IsMember(kFormats))->capture_default_str();
  app.add_flag("--json", options->json, "Print JSON instead of tables, as --format json")->excludes(format);
  app.add_option("-o,--output", options->output, "Write to this file instead of standard output");
  auto* root = app.add_option(
      "--root", options->root,
      "Read a recorded tree (DIR/sys/class/net/..., or one .tree file) instead of this machine");
  auto* reach = app.add_option(
      "--reach", options->reach,
      "Also say which NICs of this cluster file's other hosts can be expected to reach which here");
  app.add_option(
         "--fleet", options->fleet,
         "Expand this fleet file (docs/fleet-file.md) instead of looking at a machine; --json prints the "
         "cluster file")
      ->excludes(root)
      ->excludes(reach);
  app.add_option("--cluster-out", options->cluster_out,
                 "Also write a cluster file with this one host, or with the fleet");
  app.add_option("--cluster", options->cluster, "Name of the cluster in that file")->capture_default_str();
}

}  // namespace tombolo::tools
